import { html, useState, useEffect } from "./vendor/preact-htm.js";
import { getText } from "./api.js";
import { Field, Loading, PartitionChoice, Problem, place, useLoad } from "./ui.js";
import { parseRecords } from "./json.js";
import { RecordTable } from "./record.js";

const counts = ["25", "50", "100", "500"];

// partitionOf the query, else the first that holds records.
function partitionOf(topic, query) {
  if (query.partition !== undefined) return query.partition;
  const full = topic.partitions.find((p) => p.high_watermark && p.high_watermark.text !== p.log_start_offset?.text);
  return (full || topic.partitions[0]).partition.text;
}

// Browse reads one partition from an offset, a time or the end.
export function Browse({ topic, query }) {
  const [partition] = useState(() => partitionOf(topic, query));
  const at = { partition: query.partition ?? partition, offset: query.offset, timestamp: query.timestamp, count: query.count ?? "50" };
  if (at.offset === undefined && at.timestamp === undefined) at.offset = "-" + at.count; // the newest
  const key = JSON.stringify(at);
  const page = useLoad(async (signal) => {
    const answer = await getText(["topics", topic.name, "partitions", at.partition, "records"],
      { offset: at.timestamp === undefined ? at.offset : undefined, timestamp: at.timestamp, count: at.count }, { signal });
    return {
      records: parseRecords(answer.text),
      next: answer.headers.get("Highwater-Next-Offset"),
      start: answer.headers.get("Highwater-Log-Start-Offset"),
      end: answer.headers.get("Highwater-High-Watermark"),
    };
  }, key);
  const go = (change) => {
    location.hash = place(["topics", topic.name, "records"], { partition: at.partition, count: at.count, ...change });
  };
  return html`
    <${Bar} topic=${topic} at=${at} go=${go} reload=${page.reload} />
    <${Problem} error=${page.error} />
    ${page.loading && html`<${Loading} what="records" />`}
    ${page.data && html`<${Page} page=${page.data} at=${at} go=${go} />`}`;
}

function Page({ page, at, go }) {
  const { records, next, start, end } = page;
  const first = records.length > 0 ? BigInt(records[0].offset.text) : next === null ? null : BigInt(next);
  const back = first !== null && start !== null && first > BigInt(start);
  const before = () => {
    const to = first - BigInt(at.count);
    go({ offset: String(to < BigInt(start) ? BigInt(start) : to) });
  };
  return html`
    ${records.length === 0 ? html`<p class="empty card">No records here${end !== null && end === start ? ": the partition is empty." : "."}</p>` : html`<${RecordTable} records=${records} />`}
    <nav class="pages" aria-label="Records">
      <button disabled=${!back} onClick=${() => go({ offset: "earliest" })}>Oldest</button>
      <button disabled=${!back} onClick=${before}>Older</button>
      <span>${records.length > 0 ? html`offsets ${records[0].offset.text}–${records[records.length - 1].offset.text}` : "nothing"} of ${start}–${end}</span>
      <button disabled=${next === null || end === null || next === end} onClick=${() => go({ offset: next })}>Newer</button>
      <button disabled=${next === null || end === null || next === end} onClick=${() => go({})}>Newest</button>
    </nav>`;
}

// Bar is the form that says what to read.
function Bar({ topic, at, go, reload }) {
  const kind = at.timestamp !== undefined ? "time" : at.offset === "earliest" ? "oldest" : /^-/.test(at.offset) ? "newest" : "offset";
  const [form, setForm] = useState({});
  useEffect(() => setForm({ kind, offset: kind === "offset" ? at.offset : "0", time: kind === "time" ? localTime(at.timestamp) : "" }), [JSON.stringify(at)]);
  const submit = (e) => {
    e.preventDefault();
    const where = { newest: {}, oldest: { offset: "earliest" }, offset: { offset: form.offset }, time: { timestamp: String(new Date(form.time).getTime()) } }[form.kind];
    const to = place(["topics", topic.name, "records"], { partition: at.partition, count: at.count, ...where });
    if (location.hash === to) reload();
    else location.hash = to;
  };
  return html`<form class="card inline" onSubmit=${submit}>
    <${Field} label="Partition"><${PartitionChoice} partitions=${topic.partitions} value=${at.partition} onChange=${(partition) => go({ partition })} /><//>
    <${Field} label="From"><select value=${form.kind} onChange=${(e) => setForm({ ...form, kind: e.target.value })}>
      <option value="newest">the newest</option><option value="oldest">the oldest</option><option value="offset">an offset</option><option value="time">a time</option></select><//>
    ${form.kind === "offset" && html`<${Field} label="Offset"><input required inputmode="numeric" pattern="[0-9]{1,19}" value=${form.offset} onInput=${(e) => setForm({ ...form, offset: e.target.value })} /><//>`}
    ${form.kind === "time" && html`<${Field} label="Time"><input required type="datetime-local" step="1" value=${form.time} onInput=${(e) => setForm({ ...form, time: e.target.value })} /><//>`}
    <${Field} label="Count"><select value=${at.count} onChange=${(e) => go({ count: e.target.value, offset: kind === "newest" ? undefined : at.offset, timestamp: at.timestamp })}>
      ${counts.map((n) => html`<option key=${n} value=${n}>${n}</option>`)}</select><//>
    <button class="primary">Read</button>
  </form>`;
}

function localTime(ms) {
  const d = new Date(Number(ms));
  return Number.isNaN(d.getTime()) ? "" : new Date(d.getTime() - d.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}
