// The console: a page on top of the broker's public API.
import { html, render, useState, useEffect } from "./vendor/preact-htm.js";
import { get } from "./api.js";
import { place, readPlace, useLoad } from "./ui.js";
import { Topics } from "./topics.js";
import { Topic } from "./topic.js";
import { Group, Groups } from "./groups.js";
import { Cluster } from "./cluster.js";

function usePlace() {
  const [at, setAt] = useState(() => readPlace(location.hash));
  useEffect(() => {
    const read = () => setAt(readPlace(location.hash));
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, []);
  return at;
}

function Health() {
  const ready = useLoad((signal) => get(["cluster"], {}, { signal }), "cluster", 5000);
  const state = ready.error ? "down" : ready.data ? "up" : "unknown";
  const say = { up: "Broker answers", down: "Broker does not answer", unknown: "Asking the broker" }[state];
  return html`<span class=${`health ${state}`} role="status"><i aria-hidden="true"></i>${say}</span>`;
}

function Page({ at }) {
  const [first, name, tab] = at.segments;
  if (first === undefined || (first === "topics" && name === undefined)) return html`<${Topics} query=${at.query} />`;
  if (first === "topics") return html`<${Topic} key=${name} name=${name} tab=${tab || "records"} query=${at.query} />`;
  if (first === "groups" && name === undefined) return html`<${Groups} />`;
  if (first === "groups") return html`<${Group} key=${name} name=${name} />`;
  if (first === "cluster") return html`<${Cluster} />`;
  return html`<section class="card"><h1>Nothing here</h1><p>There is no page of this name. <a href=${place(["topics"])}>See the topics.</a></p></section>`;
}

function App() {
  const at = usePlace();
  const here = at.segments[0] || "topics";
  useEffect(() => {
    document.title = [...at.segments.slice(0, 2).reverse(), "Highwater"].join(" · ");
  }, [at.segments.join("/")]);
  const current = (name) => (here === name ? "page" : undefined);
  return html`
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById("main").focus(); }}>Skip to content</a>
    <header class="bar">
      <a class="home" href=${place(["topics"])}><img src=${new URL("icon.svg", import.meta.url).href} alt="" width="24" height="24" /> Highwater</a>
      <nav aria-label="Main">
        <a href=${place(["topics"])} aria-current=${current("topics")}>Topics</a>
        <a href=${place(["groups"])} aria-current=${current("groups")}>Groups</a>
        <a href=${place(["cluster"])} aria-current=${current("cluster")}>Cluster</a>
        <a href=${new URL("../docs/", import.meta.url).href}>API docs</a>
      </nav>
      <${Health} />
    </header>
    <main id="main" tabindex="-1"><${Page} at=${at} /></main>`;
}

render(html`<${App} />`, document.getElementById("app"));
