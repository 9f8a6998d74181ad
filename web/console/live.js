import { html, useState, useEffect, useRef } from "./vendor/preact-htm.js";
import { url } from "./api.js";
import { Field, PartitionChoice, place } from "./ui.js";
import { parseRecord } from "./json.js";
import { RecordTable } from "./record.js";

// keep bounds the records a page holds: enough to look back, small enough for a
// topic of any rate.
const keep = 200;

// Live follows a topic, or one partition of it, from now on.
export function Live({ topic, query }) {
  const [records, setRecords] = useState([]);
  const [seen, setSeen] = useState(0);
  const [state, setState] = useState("connecting");
  const [paused, setPaused] = useState(false);
  const held = useRef([]);
  const partition = query.partition ?? "";
  useEffect(() => {
    setRecords([]);
    setSeen(0);
    held.current = [];
  }, [partition]);
  useEffect(() => {
    if (paused) {
      setState("paused");
      return undefined;
    }
    setState("connecting");
    const path = partition === "" ? ["topics", topic.name, "records"] : ["topics", topic.name, "partitions", partition, "records"];
    const source = new EventSource(url(path, { offset: "latest" }));
    let timer = 0;
    const show = () => {
      timer = 0;
      const fresh = held.current.splice(0).reverse();
      setSeen((n) => n + fresh.length);
      setRecords((old) => [...fresh, ...old].slice(0, keep));
    };
    source.onopen = () => setState("following");
    source.onerror = () => setState(source.readyState === EventSource.CLOSED ? "refused" : "connecting");
    source.onmessage = (event) => {
      held.current.push(parseRecord(event.data));
      // The page is drawn a few times a second, however fast records come.
      if (!timer) timer = setTimeout(show, 150);
    };
    return () => {
      source.close();
      clearTimeout(timer);
      held.current = [];
    };
  }, [topic.name, partition, paused]);
  const say = { connecting: "Connecting…", following: "Following", paused: "Paused", refused: "The broker refused the stream" }[state];
  return html`
    <form class="card inline" onSubmit=${(e) => e.preventDefault()}>
      <${Field} label="Partition"><${PartitionChoice} partitions=${topic.partitions} value=${partition} empty="all" onChange=${(to) => { location.hash = place(["topics", topic.name, "live"], { partition: to }); }} /><//>
      <button type="button" onClick=${() => setPaused(!paused)}>${paused ? "Go on from now" : "Pause"}</button>
      <button type="button" onClick=${() => { setRecords([]); setSeen(0); }}>Clear</button>
      <span class=${`health ${state === "following" ? "up" : state === "refused" ? "down" : "unknown"}`} role="status"><i aria-hidden="true"></i>${say} · ${seen} seen${seen > keep ? `, the last ${keep} shown` : ""}</span>
    </form>
    ${records.length === 0 ? html`<p class="empty card">New records show up here as they are written.</p>` : html`<${RecordTable} records=${records} partitions />`}`;
}
