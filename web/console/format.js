// How figures and bytes are said.

export const count = (n) => BigInt(n).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");

// records of a partition that can be read; its offsets are Num or null.
export function recordsOf(p) {
  if (p.high_watermark === null || p.log_start_offset === null) return null;
  return BigInt(p.high_watermark.text) - BigInt(p.log_start_offset.text);
}

export function sum(numbers) {
  return numbers.some((n) => n === null) ? null : numbers.reduce((a, b) => a + b, 0n);
}

export function time(ms) {
  const d = new Date(Number(ms));
  if (Number.isNaN(d.getTime())) return String(ms);
  const two = (n) => String(n).padStart(2, "0");
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}.${String(d.getMilliseconds()).padStart(3, "0")}`;
}

// duration of a config in milliseconds, as people say it.
export function duration(ms) {
  if (ms === "-1") return "for ever";
  const n = Number(ms);
  for (const [size, name] of [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]]) {
    if (n >= size && n % size === 0) return `${n / size} ${name}`;
  }
  return `${ms} ms`;
}

// bytes decodes base64; text is null when they are no UTF-8.
export function bytes(base64) {
  const raw = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  try {
    return { size: raw.length, text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(raw) };
  } catch {
    return { size: raw.length, text: null };
  }
}

// shown turns a record's key or value into what a person reads: `text`, the kind
// it is, and whether it is JSON that can be laid out.
export function shown(part, encoding) {
  if (!part || part.json === "null") return { kind: "null", text: "" };
  if (encoding === "text") return { kind: "text", text: JSON.parse(part.json) };
  if (encoding === "base64") {
    const b = bytes(JSON.parse(part.json));
    return { kind: `binary, ${b.size} B`, text: JSON.parse(part.json) };
  }
  return { kind: "json", text: part.json };
}

// shownKey: a plain key comes as a JSON string and is its text.
export function shownKey(part, encoding) {
  const s = shown(part, encoding);
  return s.kind === "json" && s.text.startsWith('"') ? { kind: "text", text: JSON.parse(s.text) } : s;
}
