import { html, useState } from "./vendor/preact-htm.js";
import { get, remove, send } from "./api.js";
import { Dialog, Field, Figure, Loading, Problem, listed, place, useAction, useLoad } from "./ui.js";
import { count, duration, recordsOf, sum } from "./format.js";
import { Browse } from "./browse.js";
import { Live } from "./live.js";
import { Produce } from "./produce.js";

const tabs = [["records", "Records"], ["live", "Live"], ["produce", "Produce"], ["partitions", "Partitions"], ["configs", "Configs"]];

export function Topic({ name, tab, query }) {
  const topic = useLoad((signal) => get(["topics", name], {}, { signal }), name, 3000);
  const [deleting, setDeleting] = useState(false);
  const t = topic.data;
  return html`
    <nav class="crumbs" aria-label="Back"><a href=${place(["topics"])}><span aria-hidden="true">← </span>All topics</a></nav>
    <div class="head">
      <h1 class="name">${name}</h1>
      ${t && html`<button class="danger" onClick=${() => setDeleting(true)}>Delete topic</button>`}
    </div>
    <${Problem} error=${topic.error} />
    ${topic.loading && html`<${Loading} what="the topic" />`}
    ${t && html`
      <${Figures} topic=${t} />
      <nav class="tabs" aria-label="Topic">${tabs.map(([id, title]) => html`<a key=${id} href=${place(["topics", name, id])} aria-current=${tab === id ? "page" : undefined}>${title}</a>`)}</nav>
      ${tab === "records" && html`<${Browse} topic=${t} query=${query} />`}
      ${tab === "live" && html`<${Live} topic=${t} query=${query} />`}
      ${tab === "produce" && html`<${Produce} topic=${t} onDone=${topic.reload} />`}
      ${tab === "partitions" && html`<${Partitions} topic=${t} onDone=${topic.reload} />`}
      ${tab === "configs" && html`<${Configs} topic=${t} onDone=${topic.reload} />`}`}
    ${deleting && html`<${Delete} name=${name} onClose=${() => setDeleting(false)} />`}`;
}

function Figures({ topic }) {
  const parts = topic.partitions;
  const records = sum(parts.map(recordsOf));
  const water = sum(parts.map((p) => (p.high_watermark === null ? null : BigInt(p.high_watermark.text))));
  const behind = parts.filter((p) => p.isr.length < p.replicas.length).length;
  return html`<dl class="figures">
    <${Figure} label="Records" value=${records === null ? "–" : count(records)} note="readable now" />
    <${Figure} label="Ever written" value=${water === null ? "–" : count(water)} note="sum of high watermarks" />
    <${Figure} label="Partitions" value=${count(parts.length)} />
    <${Figure} label="Replicas" value=${parts[0]?.replicas.length ?? "–"} note=${behind ? `${behind} partitions under-replicated` : "all in sync"} />
    <${Figure} label="Message ids" value=${count(topic.dedupe.ids.text)} note=${`${count(topic.dedupe.hits.text)} came again`} />
    <${Figure} label="Retention" value=${duration(topic.configs["retention.ms"] ?? "")} note=${topic.configs["cleanup.policy"]} />
  </dl>`;
}

const offset = (n) => (n === null || n === undefined ? "–" : count(n.text));

function Partitions({ topic, onDone }) {
  const [want, setWant] = useState("");
  const [from, setFrom] = useState(0);
  const shown = topic.partitions.slice(from, from + listed);
  const more = useAction(async () => {
    await send("PATCH", ["topics", topic.name], JSON.stringify({ partitions: Number(want) }));
    setWant("");
    onDone();
  });
  return html`
    <section class="card flush"><div class="scroll"><table>
      <thead><tr><th>Partition</th><th class="num">Leader</th><th class="num">Epoch</th><th>In sync</th><th class="num">Log start</th><th class="num">High watermark</th><th class="num">Log end</th><th class="num">Records</th><th class="num">Message ids</th><th>Replicas</th><th></th></tr></thead>
      <tbody>${shown.map((p) => html`<tr key=${p.partition.text}>
        <td>${p.partition.text}</td>
        <td class="num">${p.leader.text === "-1" ? html`<span class="tag bad">none</span>` : p.leader.text}</td>
        <td class="num">${p.leader_epoch.text}</td>
        <td>${p.isr.join(", ")}</td>
        <td class="num">${offset(p.log_start_offset)}</td>
        <td class="num">${offset(p.high_watermark)}</td>
        <td class="num">${offset(p.log_end_offset)}</td>
        <td class="num">${recordsOf(p) === null ? "–" : count(recordsOf(p))}</td>
        <td class="num" title=${p.dedupe ? `${p.dedupe.hits.text} came again` : ""}>${p.dedupe ? count(p.dedupe.ids.text) : "–"}</td>
        <td>${p.replicas.map((r) => html`<span class=${r.in_sync ? "tag good" : "tag warn"} title=${`log end ${r.log_end_offset}, lag ${r.lag}`}>${r.broker.text}${r.leader ? " leader" : ""}${r.lag && r.lag.text !== "0" ? `, ${r.lag.text} behind` : ""}</span> `)}</td>
        <td><a href=${place(["topics", topic.name, "records"], { partition: p.partition.text })}>Records</a></td>
      </tr>`)}</tbody>
    </table></div></section>
    ${topic.partitions.length > listed && html`<nav class="pages" aria-label="Partitions">
      <button disabled=${from === 0} onClick=${() => setFrom(from - listed)}>Previous</button>
      <span>${from}–${from + shown.length - 1} of ${count(topic.partitions.length)}</span>
      <button disabled=${from + listed >= topic.partitions.length} onClick=${() => setFrom(from + listed)}>Next</button>
    </nav>`}
    <form class="card inline" onSubmit=${more.run}>
      <${Problem} error=${more.error} onClose=${more.clear} />
      <${Field} label="Partitions from now on"><input type="number" required min=${topic.partitions.length + 1} placeholder=${String(topic.partitions.length + 1)} value=${want} onInput=${(e) => setWant(e.target.value)} /><//>
      <button disabled=${more.busy}>Add</button>
      <small class="beside">Partitions are never taken away. Keys may go to other partitions once there are more.</small>
    </form>`;
}

function Configs({ topic, onDone }) {
  const [editing, setEditing] = useState(null);
  const [value, setValue] = useState("");
  const save = useAction(async () => {
    await send("PATCH", ["topics", topic.name], JSON.stringify({ configs: { [editing]: value } }));
    setEditing(null);
    onDone();
  });
  const names = Object.keys(topic.configs).sort();
  return html`
    <section class="card flush"><div class="scroll"><table>
      <thead><tr><th>Config</th><th>Value</th><th></th></tr></thead>
      <tbody>${names.map((name) => html`<tr key=${name}>
        <td><code>${name}</code></td><td><code>${String(topic.configs[name])}</code></td>
        <td class="num"><button class="quiet" aria-label=${`Change ${name}`} onClick=${() => { setEditing(name); setValue(String(topic.configs[name])); save.clear(); }}>Change</button></td>
      </tr>`)}</tbody>
    </table></div></section>
    ${editing && html`<${Dialog} title=${`Change ${editing}`} onClose=${() => setEditing(null)}>
      <form onSubmit=${save.run}>
        <${Problem} error=${save.error} onClose=${save.clear} />
        <${Field} label="Value" wide><input autofocus required spellcheck="false" autocomplete="off" value=${value} onInput=${(e) => setValue(e.target.value)} /><//>
        <div class="actions"><button type="button" onClick=${() => setEditing(null)}>Cancel</button><button class="primary" disabled=${save.busy}>Save</button></div>
      </form>
    <//>`}`;
}

function Delete({ name, onClose }) {
  const [typed, setTyped] = useState("");
  const act = useAction(async () => {
    await remove(["topics", name]);
    onClose();
    location.hash = place(["topics"]);
  });
  return html`<${Dialog} title="Delete topic" onClose=${onClose}>
    <form onSubmit=${act.run}>
      <${Problem} error=${act.error} onClose=${act.clear} />
      <p>All records of <strong class="name">${name}</strong> are lost. There is no way back.</p>
      <${Field} label="Type the topic’s name" wide><input autofocus spellcheck="false" autocomplete="off" value=${typed} onInput=${(e) => setTyped(e.target.value)} /><//>
      <div class="actions"><button type="button" onClick=${onClose}>Cancel</button><button class="danger" disabled=${act.busy || typed !== name}>Delete for good</button></div>
    </form>
  <//>`;
}
