// Small parts that the pages share. Everything is rendered as text nodes: what a
// record, key, header or error holds never becomes markup.
import { html, useState, useEffect, useRef, useCallback } from "./vendor/preact-htm.js";

// useLoad runs `load` at once, again when `key` changes or reload is called, and
// every `every` ms while the page is looked at; seldomer when an answer takes long,
// as that of a topic with thousands of partitions. The last good answer stays shown.
export function useLoad(load, key, every = 0) {
  const [state, setState] = useState({ key: null, data: null, error: null });
  const [turn, setTurn] = useState(0);
  const reload = useCallback(() => setTurn((n) => n + 1), []);
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const run = async () => {
      const began = performance.now();
      try {
        const data = await load(stop.signal);
        if (!stop.signal.aborted) setState({ key, data, error: null });
      } catch (error) {
        if (!stop.signal.aborted) setState((s) => ({ key, data: s.key === key ? s.data : null, error }));
      }
      if (every && !stop.signal.aborted) timer = setTimeout(tick, Math.max(every, 20 * (performance.now() - began)));
    };
    const tick = () => (document.hidden ? (timer = setTimeout(tick, every)) : run());
    run();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key, turn, every]);
  const current = state.key === key ? state : { data: null, error: null };
  return { ...current, loading: current.data === null && current.error === null, reload };
}

// Problem shows an error as the broker says it, with what to do next.
export function Problem({ error, onClose }) {
  if (!error) return null;
  const p = error.problem || { title: error.name, detail: error.message };
  const faults = Array.isArray(p.errors) ? p.errors : [];
  return html`<div class="problem" role="alert">
    <strong>${String(p.title)}</strong>
    <p>${String(p.detail ?? "")}</p>
    ${faults.length > 0 && html`<ul>${faults.map((f) => html`<li><code>${String(f.pointer)}</code> ${String(f.detail)}</li>`)}</ul>`}
    ${p.fix && html`<p class="fix">${String(p.fix)}</p>`}
    ${onClose && html`<button class="quiet close" aria-label="Dismiss" onClick=${onClose}>×</button>`}
  </div>`;
}

export function Loading({ what }) {
  return html`<p class="empty" aria-live="polite">Loading ${what}…</p>`;
}

// Dialog is modal while it is mounted; Escape and the backdrop close it.
export function Dialog({ title, onClose, children }) {
  const ref = useRef(null);
  useEffect(() => {
    ref.current.showModal();
  }, []);
  return html`<dialog ref=${ref} aria-label=${title} onClose=${onClose} onMouseDown=${(e) => e.target === ref.current && ref.current.close()}>
    <div class="dialog">
      <h2>${title}</h2>
      ${children}
    </div>
  </dialog>`;
}

// useAction gives a handler that runs one thing at a time and keeps its error.
export function useAction(act) {
  const [state, setState] = useState({ busy: false, error: null });
  const run = async (event) => {
    event?.preventDefault();
    if (state.busy) return;
    setState({ busy: true, error: null });
    try {
      await act();
      setState({ busy: false, error: null });
    } catch (error) {
      setState({ busy: false, error });
    }
  };
  return { ...state, run, clear: () => setState({ busy: false, error: null }) };
}

export function Field({ label, hint, children, wide }) {
  return html`<label class=${wide ? "field wide" : "field"}><span>${label}</span>${children}${hint && html`<small>${hint}</small>`}</label>`;
}

// listed bounds the partitions that a list of choices or a page of a table holds.
export const listed = 200;

// PartitionChoice is a list, or a number where a list would be too long.
export function PartitionChoice({ partitions, value, empty, onChange }) {
  const change = (e) => onChange(e.target.value);
  if (partitions.length > listed) {
    return html`<input type="number" min="0" max=${partitions.length - 1} placeholder=${empty} value=${value} onChange=${change} />`;
  }
  return html`<select value=${value} onChange=${change}>
    ${empty && html`<option value="">${empty}</option>`}
    ${partitions.map((p) => html`<option key=${p.partition.text} value=${p.partition.text}>${p.partition.text}</option>`)}</select>`;
}

export function Figure({ label, value, note }) {
  return html`<div class="figure"><dt>${label}</dt><dd>${value}</dd>${note && html`<small>${note}</small>`}</div>`;
}

// go to another place of the console: "#/topics/orders?offset=5".
export function place(segments, query = {}) {
  const pairs = Object.entries(query).filter(([, v]) => v !== undefined && v !== null && v !== "");
  const tail = pairs.map(([k, v]) => `${encodeURIComponent(k)}=${encodeURIComponent(v)}`).join("&");
  return "#/" + segments.map(encodeURIComponent).join("/") + (tail ? "?" + tail : "");
}

export function readPlace(hash) {
  const [path, tail = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const decode = (s) => {
    try {
      return decodeURIComponent(s);
    } catch {
      return s;
    }
  };
  return { segments: path.split("/").filter(Boolean).map(decode), query: Object.fromEntries(new URLSearchParams(tail)) };
}
