"""What OpenAPI can't say about valid requests, for schemathesis' generator."""

import schemathesis

# Topics that check-openapi.sh has made: one with records in it, and one to change.
TOPIC, PARTITIONS = "fixture", 2
CHANGED = "changed"


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.hook
def before_call(context, case, kwargs):
    # A tail never ends, and a long wait only costs time.
    query = case.query or {}
    if str(query.get("follow", "")).lower() == "true":
        query["follow"] = "false"
    if case.meta is None or case.meta.generation.mode.value != "positive":
        return
    if "timeout" in query:
        query["timeout"] = 10
    if case.headers and "Prefer" in case.headers:
        case.headers["Prefer"] = "wait=0"
    # Valid names mostly name nothing; deletes go on doing so, not to lose the fixture.
    path = case.path_parameters or {}
    if "topic" in path and case.method != "DELETE":
        path["topic"] = CHANGED if case.method == "PATCH" else TOPIC
        if "partition" in path:
            path["partition"] = int(path["partition"]) % PARTITIONS
    if case.media_type == "application/x-ndjson":
        case.body = '{"key":"k","value":[1]}\n{"value":null}\n'
    # An event has its own id and says itself what its data are.
    if str(case.media_type).startswith("application/cloudevents"):
        for name in ("Message-Id", "Idempotency-Key"):
            (case.headers or {}).pop(name, None)
        for name in ("key_format", "value_format", "key", "partition", "timestamp"):
            query.pop(name, None)
    if case.method == "POST":  # a producer is named by three members together, where the body is no JSON
        for name in ("producer_id", "producer_epoch", "base_sequence"):
            query.pop(name, None)
    if "id" in path:  # no control characters
        path["id"] = "order-4711"
    if "slug" in path:
        path["slug"] = "unknown-topic"
    # Parameters that exclude each other, or give another one its meaning.
    if "timestamp" in query or "position" in query:
        query.pop("offset", None)
    if "position" in query:
        query.pop("timestamp", None)
        query["position"] = "0:0,1:0"  # each partition once, and none beyond its end
    if "group" in path and "partition" in query and "topic" not in query:
        query["topic"] = TOPIC  # a partition of which topic?
    if "member" in query and case.method != "POST":
        query["topics"] = TOPIC
        query.pop("topic_pattern", None)
    if "key" in query:
        query.pop("key_format", None)
    if case.headers and "Message-Id" in case.headers:
        case.headers.pop("Idempotency-Key", None)
