// Uses the types that openapi-typescript makes of the document; tsc --strict
// checks that they say what a client needs.
import type { components, paths } from "./openapi";

type Record = components["schemas"]["Record"];
type Produce = paths["/topics/{topic}"]["post"];
type Fetch = paths["/topics/{topic}/partitions/{partition}/records"]["get"];

const body: Produce["requestBody"]["content"]["application/json"] = {
  records: [{ key: "k1", value: { n: [1, null, "x"] }, headers: [{ key: "trace", value: "YWJj" }] }, { value: null }],
};
const acks: NonNullable<Produce["parameters"]["query"]>["acks"] = "-1";
const records: Fetch["responses"][200]["content"]["application/json"] = [];
const first: Record | undefined = records[0];
const next: number | undefined = first === undefined ? undefined : first.offset + 1;
const problem: Fetch["responses"][416]["content"]["application/problem+json"] | undefined = undefined;

export const used = [body, acks, records, next, problem];
