import { html, useState } from "./vendor/preact-htm.js";
import { send } from "./api.js";
import { Field, PartitionChoice, Problem, place, useAction } from "./ui.js";
import { parse } from "./json.js";

const empty = { key: "", keyed: false, value: '{\n  "hello": "world"\n}', kind: "json", partition: "", acks: "-1", headers: [], id: "" };

const base64 = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

// body of the request. The value's JSON goes in as it was typed: parsing and
// printing it would change numbers.
function bodyOf(form) {
  const members = [];
  if (form.keyed) members.push(`"key":${JSON.stringify(form.key)}`);
  if (form.kind === "json") {
    parse(form.value); // else the error would point into our envelope
    members.push(`"value":${form.value.trim()}`);
  } else if (form.kind === "text") {
    members.push(`"value":${JSON.stringify(form.value)}`, `"value_encoding":"text"`);
  } else {
    members.push(`"value":null`);
  }
  if (form.partition !== "") members.push(`"partition":${Number(form.partition)}`);
  const headers = form.headers.filter((h) => h.key !== "");
  if (headers.length > 0) members.push(`"headers":${JSON.stringify(headers.map((h) => ({ key: h.key, value: base64(h.value) })))}`);
  if (form.id !== "") members.push(`"id":${JSON.stringify(form.id)}`);
  return `{"records":[{${members.join(",")}}]}`;
}

export function Produce({ topic, onDone }) {
  const [form, setForm] = useState(empty);
  const [result, setResult] = useState(null);
  const change = (member, read = (e) => e.target.value) => (e) => setForm({ ...form, [member]: read(e) });
  // No key unless one is typed; an empty string is one only when the box is ticked.
  const key = (e) => setForm({ ...form, key: e.target.value, keyed: e.target.value !== "" });
  const header = (i, member) => (e) => setForm({ ...form, headers: form.headers.map((h, j) => (i === j ? { ...h, [member]: e.target.value } : h)) });
  const act = useAction(async () => {
    setResult(null);
    let body;
    try {
      body = bodyOf(form);
    } catch (err) {
      throw err instanceof SyntaxError ? new Error(`The value is ${err.message}. Choose “text” to send it as it is.`) : err;
    }
    const answer = await send("POST", ["topics", topic.name], body, { acks: form.acks });
    setResult(parse(answer.text));
    onDone();
  });
  return html`<form class="card" onSubmit=${act.run}>
    <div class="row">
      <${Field} label="Key" wide><input spellcheck="false" autocomplete="off" placeholder=${form.keyed ? "empty string" : "no key"} value=${form.key} onInput=${key} /><//>
      <label class="check"><input type="checkbox" checked=${form.keyed} onChange=${(e) => setForm({ ...form, keyed: e.target.checked, key: e.target.checked ? form.key : "" })} /> has a key</label>
    </div>
    <${Field} label="Value" wide><textarea class="code" rows="9" spellcheck="false" disabled=${form.kind === "null"} value=${form.kind === "null" ? "" : form.value} onInput=${change("value")}></textarea><//>
    <div class="row">
      <${Field} label="Value is"><select value=${form.kind} onChange=${change("kind")}><option value="json">JSON</option><option value="text">text</option><option value="null">null (a tombstone)</option></select><//>
      <${Field} label="Partition"><${PartitionChoice} partitions=${topic.partitions} value=${form.partition} empty="by key" onChange=${(partition) => setForm({ ...form, partition })} /><//>
      <${Field} label="Acknowledged when"><select value=${form.acks} onChange=${change("acks")}><option value="-1">on disk on all in-sync replicas</option><option value="1">written by the leader</option><option value="0">queued</option></select><//>
      <${Field} label="Message id"><input spellcheck="false" autocomplete="off" placeholder="none" value=${form.id} onInput=${change("id")} /><//>
    </div>
    <fieldset><legend>Headers</legend>
      ${form.headers.map((h, i) => html`<div class="row" key=${i}>
        <input aria-label=${`Header ${i + 1} name`} placeholder="name" spellcheck="false" value=${h.key} onInput=${header(i, "key")} />
        <input aria-label=${`Header ${i + 1} value`} placeholder="value" spellcheck="false" value=${h.value} onInput=${header(i, "value")} />
        <button type="button" class="quiet" aria-label=${`Remove header ${i + 1}`} onClick=${() => setForm({ ...form, headers: form.headers.filter((_, j) => j !== i) })}>×</button>
      </div>`)}
      <button type="button" class="quiet" onClick=${() => setForm({ ...form, headers: [...form.headers, { key: "", value: "" }] })}>+ header</button>
    </fieldset>
    <${Problem} error=${act.error} onClose=${act.clear} />
    ${result && html`<${Produced} topic=${topic} result=${result} />`}
    <div class="actions"><button class="primary" disabled=${act.busy}>Produce</button></div>
  </form>`;
}

function Produced({ topic, result }) {
  const one = result.offsets?.[0];
  const part = result.partitions?.[0];
  if (!one || !part) return html`<p class="done" role="status">Done.</p>`;
  if (one.offset === null || one.offset.text === "-1") return html`<p class="done" role="status">Queued for partition ${one.partition.text}; nothing is proved yet.</p>`;
  return html`<p class="done" role="status">Written to partition ${one.partition.text} at offset${" "}<a href=${place(["topics", topic.name, "records"], { partition: one.partition.text, offset: one.offset.text })}>${one.offset.text}</a>${part.durability && html` (${part.durability})`}.</p>`;
}
