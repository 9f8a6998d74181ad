import { html } from "./vendor/preact-htm.js";
import { get } from "./api.js";
import { Figure, Loading, Problem, useLoad } from "./ui.js";

// Cluster: the brokers and who leads the metadata.
export function Cluster() {
  const { data, error, loading } = useLoad((signal) => get(["cluster"], {}, { signal }), "cluster-page", 3000);
  return html`
    <div class="head"><h1>Cluster</h1></div>
    <${Problem} error=${error} />
    ${loading && html`<${Loading} what="the cluster" />`}
    ${data && html`
      <dl class="figures">
        <${Figure} label="Cluster id" value=${html`<code>${data.cluster_id}</code>`} />
        <${Figure} label="Brokers" value=${data.brokers.length} />
        <${Figure} label="Controller" value=${`broker ${data.controller.leader}`} note=${`term ${data.controller.term}`} />
        <${Figure} label="Voters" value=${data.controller.voters.join(", ")} />
      </dl>
      <section class="card flush">
        <div class="scroll"><table>
          <thead><tr><th>Broker</th><th>Address</th><th>State</th><th>Version</th></tr></thead>
          <tbody>${data.brokers.map((b) => html`<tr key=${b.id.text}>
            <td>${b.id.text}</td><td><code>${b.url}</code></td>
            <td><span class=${b.state === "active" ? "tag good" : "tag bad"}>${b.state}</span></td><td>${b.version}</td>
          </tr>`)}</tbody>
        </table></div>
      </section>`}`;
}
