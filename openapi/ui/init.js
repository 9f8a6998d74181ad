// Starts Swagger UI on this broker's own document. All addresses are relative to
// this script, so the page works on any port and behind a proxy's path prefix.
"use strict";

(function () {
  const root = new URL("..", document.currentScript.src);

  // Pretty-prints JSON text without parsing it: JSON.parse rounds numbers beyond 2^53.
  function indent(text) {
    let out = "", depth = 0, inString = false;
    const line = () => "\n" + "  ".repeat(depth);
    for (let i = 0; i < text.length; i++) {
      const c = text[i];
      if (inString) {
        out += c;
        if (c === "\\") out += text[++i] ?? "";
        else if (c === '"') inString = false;
      } else if (c === '"') {
        inString = true;
        out += c;
      } else if (c === "{" || c === "[") {
        const rest = /^\s*[}\]]/.exec(text.slice(i + 1, i + 64));
        if (rest) {
          out += c + rest[0].trim();
          i += rest[0].length;
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
      } else if (!/\s/.test(c)) {
        out += c;
      }
    }
    return out;
  }

  // Swagger UI would parse a JSON answer and print it anew.
  const exactNumbers = () => ({
    wrapComponents: {
      responseBody: (Original, system) => (props) => {
        const json = /json\b/i.test(props.contentType || "") && !/ndjson/i.test(props.contentType);
        const exact = json && typeof props.content === "string" ? { contentType: "text/plain", content: indent(props.content) } : {};
        return system.React.createElement(Original, { ...props, ...exact });
      },
    },
  });

  // Swagger UI fills every field that has an example or a default, also optional
  // ones, and would send them all. Here those stand in the description instead.
  function leaveOptionalEmpty(spec) {
    for (const item of Object.values(spec.paths)) {
      for (const operation of Object.values(item)) {
        for (const p of operation.parameters || []) {
          if (p.required) continue;
          const said = [["Default", p.schema?.default], ["Example", p.example]].filter(([, v]) => v !== undefined);
          p.description = [p.description, ...said.map(([name, v]) => `${name}: \`${v}\``)].join("  \n");
          delete p.example;
          delete p.schema?.default;
        }
      }
    }
  }

  // Swagger UI proposes the first media type of a body; the document has them in the
  // order of the alphabet, where CloudEvents come before plain JSON.
  function putPlainJSONFirst(spec) {
    for (const item of Object.values(spec.paths)) {
      for (const operation of Object.values(item)) {
        for (const body of [operation.requestBody, ...Object.values(operation.responses || {})]) {
          const plain = body?.content?.["application/json"];
          if (plain) body.content = { "application/json": plain, ...body.content };
        }
      }
    }
  }

  function start(spec) {
    leaveOptionalEmpty(spec);
    putPlainJSONFirst(spec);
    // The requests go to where this page came from, whatever prefix a proxy gives it.
    spec.servers = [{ url: root.href.replace(/\/$/, "") }];
    window.ui = SwaggerUIBundle({
      spec,
      dom_id: "#ui",
      deepLinking: true,
      docExpansion: "list",
      defaultModelsExpandDepth: 0,
      displayRequestDuration: true,
      tryItOutEnabled: true,
      validatorUrl: null, // else every load would ask an outside service
      presets: [SwaggerUIBundle.presets.apis],
      plugins: [exactNumbers],
      layout: "BaseLayout",
    });
  }

  fetch(new URL("openapi.json", root))
    .then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error("HTTP " + answer.status))))
    .then(start)
    .catch((err) => {
      document.getElementById("ui").textContent = "openapi.json could not be loaded: " + err.message;
    });
})();
