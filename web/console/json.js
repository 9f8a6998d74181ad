// JSON without loss. JSON.parse turns every number into a double, so 2^53+1 and
// `1.0` come out changed; here a number stays the text that the broker sent.

// Num is a number by its text.
export class Num {
  constructor(text) {
    this.text = text;
  }
  toString() {
    return this.text;
  }
}

const space = /[ \t\r\n]*/y;
const number = /-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/y;

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  skip() {
    space.lastIndex = this.at;
    space.test(this.text);
    this.at = space.lastIndex;
  }

  fail() {
    throw new SyntaxError(`not JSON at character ${this.at}`);
  }

  take(c) {
    if (this.text[this.at] !== c) this.fail();
    this.at++;
  }

  string() {
    const start = this.at;
    this.take('"');
    for (;;) {
      const c = this.text[this.at++];
      if (c === undefined) this.fail();
      if (c === "\\") this.at++;
      if (c === '"') return JSON.parse(this.text.slice(start, this.at));
    }
  }

  // list reads what stands between open and close, one `item` at a time.
  list(open, close, item) {
    this.take(open);
    this.skip();
    if (this.text[this.at] === close) {
      this.at++;
      return;
    }
    for (;;) {
      item();
      this.skip();
      if (this.text[this.at] === close) {
        this.at++;
        return;
      }
      this.take(",");
      this.skip();
    }
  }

  // value reads a value of which `member` may replace the members.
  value(member = () => this.value()) {
    this.skip();
    switch (this.text[this.at]) {
      case "{": {
        const out = {};
        this.list("{", "}", () => {
          const name = this.string();
          this.skip();
          this.take(":");
          this.skip();
          // Not out[name] = …: a member called __proto__ is a member like others.
          Object.defineProperty(out, name, { value: member(name), enumerable: true, configurable: true, writable: true });
        });
        return out;
      }
      case "[": {
        const out = [];
        this.list("[", "]", () => out.push(this.value()));
        return out;
      }
      case '"':
        return this.string();
      default:
        return this.word();
    }
  }

  word() {
    for (const [text, value] of [["null", null], ["true", true], ["false", false]]) {
      if (this.text.startsWith(text, this.at)) {
        this.at += text.length;
        return value;
      }
    }
    number.lastIndex = this.at;
    const found = number.exec(this.text);
    if (!found) this.fail();
    this.at = number.lastIndex;
    return new Num(found[0]);
  }

  // raw is the text of the next value, unread.
  raw() {
    const start = this.at;
    this.value();
    return this.text.slice(start, this.at);
  }

  record() {
    return this.value((name) => (name === "value" || name === "key" ? { json: this.raw() } : this.value()));
  }

  end(value) {
    this.skip();
    if (this.at !== this.text.length) this.fail();
    return value;
  }
}

// parse reads a document; its numbers are Num.
export function parse(text) {
  const r = new Reader(text);
  return r.end(r.value());
}

// parseRecord reads one record; `key` and `value` are {json: their own text}.
export function parseRecord(text) {
  const r = new Reader(text);
  r.skip();
  return r.end(r.record());
}

// parseRecords reads an array of records.
export function parseRecords(text) {
  const r = new Reader(text);
  const out = [];
  r.skip();
  r.list("[", "]", () => out.push(r.record()));
  return r.end(out);
}

// indent lays JSON text out without touching a token of it.
export function indent(text) {
  let out = "";
  let depth = 0;
  const line = () => "\n" + "  ".repeat(depth);
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (c === '"') {
      const start = i++;
      while (i < text.length && text[i] !== '"') i += text[i] === "\\" ? 2 : 1;
      out += text.slice(start, i + 1);
    } else if (c === "{" || c === "[") {
      let next = i + 1;
      while (" \t\r\n".includes(text[next])) next++;
      if (text[next] === "}" || text[next] === "]") {
        out += c + text[next];
        i = next;
      } else {
        depth++;
        out += c + line();
      }
    } else if (c === "}" || c === "]") {
      depth--;
      out += line() + c;
    } else if (c === ",") {
      out += c + line();
    } else if (c === ":") {
      out += ": ";
    } else if (!" \t\r\n".includes(c)) {
      out += c;
    }
  }
  return out;
}
