import { html, useState } from "./vendor/preact-htm.js";
import { indent } from "./json.js";
import { bytes, shown, shownKey, time } from "./format.js";

// previewLength bounds what a closed row holds of a value.
const previewLength = 240;

function Kind({ part }) {
  if (part.kind === "null") return html`<span class="tag">null</span>`;
  if (part.kind === "json") return null;
  return html`<span class="tag">${part.kind}</span>`;
}

// RecordTable lists records; a row opens to its whole value, headers and id.
export function RecordTable({ records, partitions }) {
  return html`<section class="card flush"><div class="scroll"><table class="records">
    <thead><tr><th><span class="hidden">Open</span></th>${partitions && html`<th class="num">Part.</th>`}<th class="num">Offset</th><th class="time">Time</th><th>Key</th><th>Value</th></tr></thead>
    <tbody>${records.map((r) => html`<${RecordRow} key=${`${r.partition}:${r.offset}`} record=${r} partitions=${partitions} />`)}</tbody>
  </table></div></section>`;
}

function RecordRow({ record, partitions }) {
  const [open, setOpen] = useState(false);
  const key = shownKey(record.key, record.key_encoding);
  const value = shown(record.value, record.value_encoding);
  const toggle = () => setOpen(!open);
  return html`
    <tr class=${open ? "open" : ""}>
      <td><button class="quiet turn" aria-expanded=${String(open)} aria-label=${`Record ${record.offset}`} onClick=${toggle}><span aria-hidden="true">›</span></button></td>
      ${partitions && html`<td class="num">${record.partition.text}</td>`}
      <td class="num offset">${record.offset.text}</td>
      <td class="time">${time(record.timestamp.text)}</td>
      <td class="key">${key.kind !== "text" && html`<${Kind} part=${key} />`}<code>${key.text.slice(0, previewLength)}</code></td>
      <td class="value" onClick=${toggle}><${Kind} part=${value} /><code>${value.text.slice(0, previewLength)}${value.text.length > previewLength ? "…" : ""}</code></td>
    </tr>
    ${open && html`<tr class="detail"><td colspan=${partitions ? 6 : 5}><${Detail} record=${record} shownKey=${key} value=${value} /></td></tr>`}`;
}

function Detail({ record, shownKey: key, value }) {
  const [raw, setRaw] = useState(false);
  const text = value.kind === "json" && !raw ? indent(value.text) : value.text;
  const headers = record.headers || [];
  return html`<div class="record">
    <div class="row spread">
      <h3>Value <small>${value.kind}</small></h3>
      <span>${value.kind === "json" && html`<button class="quiet" aria-pressed=${String(raw)} onClick=${() => setRaw(!raw)}>${raw ? "Lay out" : "As sent"}</button>`}
      ${navigator.clipboard && html`<button class="quiet" onClick=${() => navigator.clipboard.writeText(value.text)}>Copy</button>`}</span>
    </div>
    <pre tabindex="0">${value.kind === "null" ? "null (a tombstone)" : text}</pre>
    <dl class="facts">
      <dt>Key</dt><dd>${key.kind === "null" ? html`<span class="dim">none</span>` : html`<code>${key.text}</code> <small>${key.kind}</small>`}</dd>
      <dt>Partition</dt><dd>${record.partition.text}</dd>
      <dt>Offset</dt><dd>${record.offset.text}</dd>
      <dt>Timestamp</dt><dd>${record.timestamp.text} <small>${time(record.timestamp.text)}</small></dd>
      ${record.id !== undefined && html`<dt>Message id</dt><dd><code>${record.id}</code></dd>`}
    </dl>
    ${headers.length > 0 && html`<h3>Headers</h3><div class="scroll"><table class="headers"><tbody>${headers.map((h) => html`<${HeaderRow} header=${h} />`)}</tbody></table></div>`}
  </div>`;
}

function HeaderRow({ header }) {
  if (header.value === null) return html`<tr><th scope="row"><code>${header.key}</code></th><td class="dim">null</td></tr>`;
  const b = bytes(header.value);
  return html`<tr><th scope="row"><code>${header.key}</code></th>
    <td>${b.text === null ? html`<code>${header.value}</code> <small>binary, ${b.size} B, as base64</small>` : html`<code>${b.text}</code>`}</td></tr>`;
}
