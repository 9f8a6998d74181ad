// The broker's own API, by addresses relative to this module: the console works
// on any port and behind a proxy's path prefix.
import { parse } from "./json.js";

const root = new URL("..", import.meta.url);

// url of an API path; `segments` are encoded, `query` members that are undefined
// or empty are left out.
export function url(segments, query = {}) {
  const u = new URL(segments.map(encodeURIComponent).join("/"), root);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") u.searchParams.set(name, value);
  }
  return u.href;
}

// Failure is an answer that is no success, or none at all.
export class Failure extends Error {
  constructor(problem) {
    super(problem.detail || problem.title);
    this.problem = problem;
  }
}

async function ask(method, address, { json, headers, signal } = {}) {
  let answer;
  try {
    answer = await fetch(address, {
      method,
      signal,
      cache: "no-store",
      headers: { Accept: "application/json", ...(json === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      body: json,
    });
  } catch (err) {
    if (err.name === "AbortError") throw err;
    throw new Failure({ title: "No answer", detail: "The broker does not answer. Is it running?" });
  }
  const text = await answer.text();
  if (answer.ok) return { text, headers: answer.headers, status: answer.status };
  let problem = { title: `HTTP ${answer.status}`, detail: text };
  try {
    problem = { ...problem, ...parse(text) };
  } catch {
    // Not our broker's answer: a proxy's page, shown as text.
  }
  throw new Failure(problem);
}

export const get = async (segments, query, options) => parse((await ask("GET", url(segments, query), options)).text);
export const getText = (segments, query, options) => ask("GET", url(segments, query), options);
export const send = (method, segments, json, query) => ask(method, url(segments, query), { json });
export const remove = (segments, query) => ask("DELETE", url(segments, query));
