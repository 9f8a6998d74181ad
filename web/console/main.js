import "./vendor/preact-htm.js";
