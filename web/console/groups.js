import { html, useState } from "./vendor/preact-htm.js";
import { get } from "./api.js";
import { Figure, Loading, Problem, place, useLoad } from "./ui.js";
import { count, sum } from "./format.js";

const shades = { stable: "tag good", reconciling: "tag warn", empty: "tag" };

function State({ state }) {
  return html`<span class=${shades[state] || "tag"}>${state}</span>`;
}

// Groups: all consumer groups, whoever coordinates them.
export function Groups() {
  const [filter, setFilter] = useState("");
  const { data, error, loading } = useLoad((signal) => get(["consumers"], {}, { signal }), "groups", 3000);
  const wanted = (data || []).filter((g) => g.group.toLowerCase().includes(filter.toLowerCase()));
  const shown = wanted.slice(0, most);
  return html`
    <div class="head">
      <h1>Consumer groups ${data && html`<small>${data.length}</small>`}</h1>
      <input type="search" placeholder="Filter by name" aria-label="Filter groups by name" value=${filter} onInput=${(e) => setFilter(e.target.value)} />
    </div>
    <${Problem} error=${error} />
    ${loading && html`<${Loading} what="groups" />`}
    ${data && shown.length === 0 && html`<section class="card empty"><h2>${data.length > 0 ? "No group matches" : "No groups yet"}</h2>
      <p>A group comes to be with its first member: <code>GET /consumers/my-group/records?topics=my-topic&member=worker-1</code></p></section>`}
    ${shown.length > 0 && html`<section class="card flush"><div class="scroll"><table>
      <thead><tr><th>Group</th><th>State</th><th class="num">Members</th><th class="num">Coordinator</th></tr></thead>
      <tbody>${shown.map((g) => html`<tr key=${g.group}>
        <td class="name"><a href=${place(["groups", g.group])}>${g.group}</a></td>
        <td><${State} state=${g.state} /></td>
        <td class="num">${g.members.text}</td><td class="num">broker ${g.coordinator.text}</td>
      </tr>`)}</tbody>
    </table></div></section>`}
    ${wanted.length > most && html`<p class="dim">The first ${most} of ${wanted.length}; the filter finds the others.</p>`}`;
}

const most = 500;

// Group: its members, who has what, and how far it is behind.
export function Group({ name }) {
  const group = useLoad((signal) => get(["consumers", name], {}, { signal }), `group ${name}`, 3000);
  const offsets = useLoad((signal) => get(["consumers", name, "offsets"], {}, { signal }), `offsets ${name}`, 3000);
  const owners = new Map();
  for (const m of group.data?.members || []) {
    for (const p of m.assignments) owners.set(`${p.topic}/${p.partition.text}`, m.instance_id);
  }
  const lag = offsets.data && sum(offsets.data.map((o) => (o.lag === null ? null : BigInt(o.lag.text))));
  return html`
    <nav class="crumbs" aria-label="Breadcrumb"><a href=${place(["groups"])}>Consumer groups</a></nav>
    <div class="head"><h1 class="name">${name}</h1></div>
    <${Problem} error=${group.error || offsets.error} />
    ${group.loading && html`<${Loading} what="the group" />`}
    ${group.data && html`
      <dl class="figures">
        <${Figure} label="State" value=${html`<${State} state=${group.data.state} />`} />
        <${Figure} label="Members" value=${group.data.members.length} />
        <${Figure} label="Lag" value=${lag === null || lag === undefined ? "unknown" : count(lag)} note="records behind the commits" />
        <${Figure} label="Generation" value=${group.data.generation.text} />
        <${Figure} label="Coordinator" value=${`broker ${group.data.coordinator.text}`} />
      </dl>
      <${Members} members=${group.data.members} />`}
    ${offsets.data && html`<${Offsets} offsets=${offsets.data} owners=${owners} />`}`;
}

function Members({ members }) {
  if (members.length === 0) return html`<p class="empty">Nobody is in the group.</p>`;
  return html`<section class="card flush"><div class="scroll"><table>
    <thead><tr><th>Member</th><th>Reads</th><th>Has</th></tr></thead>
    <tbody>${members.map((m) => html`<tr key=${m.instance_id}>
      <td class="name">${m.instance_id}</td>
      <td class="name">${m.manual ? "assigned by hand" : m.topic_pattern || (m.topics || []).join(", ")}</td>
      <td class="name">${m.assignments.map((p) => `${p.topic}-${p.partition.text}`).join(", ") || "nothing"}</td>
    </tr>`)}</tbody>
  </table></div></section>`;
}

function Offsets({ offsets, owners }) {
  if (offsets.length === 0) return html`<p class="empty">Nobody has a partition, and nothing is committed yet.</p>`;
  const figure = (n) => (n === null ? "unknown" : count(n.text));
  return html`<section class="card flush"><div class="scroll"><table>
    <thead><tr><th>Topic</th><th class="num">Partition</th><th class="num">Committed</th><th class="num">Log start</th><th class="num">End</th><th class="num">Lag</th><th>Member</th><th>Metadata</th></tr></thead>
    <tbody>${offsets.map((o) => html`<tr key=${`${o.topic}/${o.partition.text}`}>
      <td class="name"><a href=${place(["topics", o.topic])}>${o.topic}</a></td><td class="num">${o.partition.text}</td>
      <td class="num">${o.committed === null ? "nothing" : count(o.committed.text)}</td><td class="num">${figure(o.log_start_offset)}</td><td class="num">${figure(o.end_offset)}</td>
      <td class="num">${figure(o.lag)}</td><td class="name">${owners.get(`${o.topic}/${o.partition.text}`) || ""}</td><td class="name">${o.metadata}</td>
    </tr>`)}</tbody>
  </table></div></section>`;
}
