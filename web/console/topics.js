import { html, useState } from "./vendor/preact-htm.js";
import { get, send } from "./api.js";
import { Dialog, Field, Loading, Problem, place, useAction, useLoad } from "./ui.js";
import { count, duration, recordsOf, sum } from "./format.js";

const pageSize = 50;

// askAtOnce bounds how many topics are asked for at the same time.
const askAtOnce = 4;

async function inTurns(items, work) {
  const out = new Array(items.length);
  let next = 0;
  const worker = async () => {
    while (next < items.length) {
      const i = next++;
      out[i] = await work(items[i]);
    }
  };
  await Promise.all(Array.from({ length: Math.min(askAtOnce, items.length) }, worker));
  return out;
}

// details of one topic; a topic that vanished meanwhile is null.
async function details(name, signal) {
  try {
    return await get(["topics", name], {}, { signal });
  } catch (error) {
    if (error.problem?.error_code?.text === "40401") return null;
    throw error;
  }
}

export function Topics({ query }) {
  const [filter, setFilter] = useState("");
  const [creating, setCreating] = useState(false);
  const internal = query.internal === "true";
  const names = useLoad((signal) => get(["topics"], internal ? { internal: "true" } : {}, { signal }), `names ${internal}`, 5000);
  const wanted = (names.data || []).filter((n) => n.toLowerCase().includes(filter.toLowerCase()));
  const page = Math.min(Math.max(0, Number(query.page) || 0), Math.max(0, Math.ceil(wanted.length / pageSize) - 1));
  const shown = wanted.slice(page * pageSize, (page + 1) * pageSize);
  const figures = useLoad((signal) => inTurns(shown, (n) => details(n, signal)), shown.join("/"), 5000);
  return html`
    <div class="head">
      <h1>Topics ${names.data && html`<small>${names.data.length}</small>`}</h1>
      <input type="search" placeholder="Filter by name" aria-label="Filter topics by name" value=${filter} onInput=${(e) => setFilter(e.target.value)} />
      <label class="check"><input type="checkbox" checked=${internal} onChange=${(e) => { location.hash = place(["topics"], { internal: e.target.checked ? "true" : "" }); }} /> internal</label>
      <button class="primary" onClick=${() => setCreating(true)}>Create topic</button>
    </div>
    <${Problem} error=${names.error || figures.error} />
    ${names.loading && html`<${Loading} what="topics" />`}
    ${names.data && shown.length === 0 && html`<${Empty} filtered=${names.data.length > 0} onCreate=${() => setCreating(true)} />`}
    ${shown.length > 0 && html`<section class="card flush"><div class="scroll"><table>
      <thead><tr><th>Topic</th><th class="num">Partitions</th><th class="num">Records</th><th class="num">High watermark</th><th class="num">Replicas</th><th>Retention</th><th>Clean-up</th></tr></thead>
      <tbody>${shown.map((name, i) => html`<${Row} key=${name} name=${name} topic=${figures.data?.[i]} />`)}</tbody>
    </table></div></section>`}
    ${wanted.length > pageSize && html`<nav class="pages" aria-label="Pages">
      ${page > 0 && html`<a href=${place(["topics"], { page: page - 1, internal: query.internal })}>Previous</a>`}
      <span>${page * pageSize + 1}–${page * pageSize + shown.length} of ${wanted.length}</span>
      ${(page + 1) * pageSize < wanted.length && html`<a href=${place(["topics"], { page: page + 1, internal: query.internal })}>Next</a>`}
    </nav>`}
    ${creating && html`<${Create} onClose=${() => setCreating(false)} />`}`;
}

function Empty({ filtered, onCreate }) {
  if (filtered) return html`<p class="empty">No topic matches.</p>`;
  return html`<section class="card empty"><h2>No topics yet</h2>
    <p>A topic is a named log of records, split into partitions.</p>
    <button class="primary" onClick=${onCreate}>Create the first topic</button></section>`;
}

function Row({ name, topic }) {
  const link = html`<a class="name" href=${place(["topics", name])}>${name}</a>`;
  if (!topic || topic.name !== name) return html`<tr><td>${link}</td><td class="num dim" colspan="4">…</td><td></td><td></td></tr>`;
  const parts = topic.partitions;
  const records = sum(parts.map(recordsOf));
  const water = sum(parts.map((p) => (p.high_watermark === null ? null : BigInt(p.high_watermark.text))));
  const behind = parts.filter((p) => p.isr.length < p.replicas.length).length;
  const leaderless = parts.filter((p) => p.leader.text === "-1").length;
  return html`<tr>
    <td>${link} ${leaderless > 0 && html`<span class="tag bad">${leaderless} without leader</span>`} ${behind > 0 && html`<span class="tag warn">${behind} under-replicated</span>`}</td>
    <td class="num">${count(parts.length)}</td>
    <td class="num">${records === null ? "–" : count(records)}</td>
    <td class="num">${water === null ? "–" : count(water)}</td>
    <td class="num">${parts[0]?.replicas.length ?? "–"}</td>
    <td>${duration(topic.configs["retention.ms"] ?? "")}</td>
    <td>${topic.configs["cleanup.policy"]}</td>
  </tr>`;
}

// readConfigs reads "name=value" lines.
function readConfigs(text) {
  const out = {};
  for (const line of text.split("\n").map((l) => l.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`A config is written name=value, not “${line}”.`);
    out[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return out;
}

function Create({ onClose }) {
  const [form, setForm] = useState({ name: "", partitions: "1", factor: "", configs: "" });
  const set = (member) => (e) => setForm({ ...form, [member]: e.target.value });
  const create = useAction(async () => {
    const body = { topic_name: form.name, configs: readConfigs(form.configs) };
    if (form.partitions) body.partitions_count = Number(form.partitions);
    if (form.factor) body.replication_factor = Number(form.factor);
    await send("POST", ["topics"], JSON.stringify(body));
    onClose();
    location.hash = place(["topics", form.name]);
  });
  return html`<${Dialog} title="Create topic" onClose=${onClose}>
    <form onSubmit=${create.run}>
      <${Problem} error=${create.error} onClose=${create.clear} />
      <${Field} label="Name" wide hint="a–z A–Z 0–9 . _ - , at most 249"><input autofocus required maxlength="249" pattern="[a-zA-Z0-9._\\-]+" spellcheck="false" autocomplete="off" value=${form.name} onInput=${set("name")} /><//>
      <div class="row">
        <${Field} label="Partitions"><input type="number" min="1" value=${form.partitions} onInput=${set("partitions")} /><//>
        <${Field} label="Replication factor"><input type="number" min="1" placeholder="broker’s default" value=${form.factor} onInput=${set("factor")} /><//>
      </div>
      <${Field} label="Configs" wide hint="One a line, for instance retention.ms=86400000"><textarea rows="3" spellcheck="false" value=${form.configs} onInput=${set("configs")}></textarea><//>
      <div class="actions"><button type="button" onClick=${onClose}>Cancel</button><button class="primary" disabled=${create.busy}>Create</button></div>
    </form>
  <//>`;
}
