package handlers

import "net/http"

// code is the error_code of the contract: the HTTP status times 100 plus a number.
type code int

const (
	codeMalformed         code = 40001
	codeForbidden         code = 40301
	codeProducerFenced    code = 40303
	codeUnknownTopic      code = 40401
	codeUnknownPartition  code = 40402
	codeUnknownInstance   code = 40403
	codeNotFound          code = 40404
	codeMethodNotAllowed  code = 40501
	codeNotAcceptable     code = 40601
	codeSlowRequest       code = 40801
	codeTopicExists       code = 40901
	codeNameTaken         code = 40902
	codeMixed             code = 40903
	codeSequenceGap       code = 40904
	codeLogTruncated      code = 40905
	codeFenced            code = 40906
	codePollRunning       code = 40907
	codeMessageReused     code = 40908
	codeGroupActive       code = 40909
	codeBelowLogStart     code = 41001
	codeUnexpectedOffset  code = 41201
	codeBodyTooLarge      code = 41301
	codeRecordTooLarge    code = 41302
	codeUnsupportedType   code = 41501
	codeAboveLogEnd       code = 41601
	codeUnprocessable     code = 42201
	codeQuota             code = 42901
	codeStorageFault      code = 50001
	codeInternal          code = 50002
	codeNoLeader          code = 50302
	codeNotEnoughReplicas code = 50303
	codeNotEnoughAfter    code = 50304
	codeShuttingDown      code = 50305
	codeOverloaded        code = 50306
	codeTimedOut          code = 50401
	codeDiskNearlyFull    code = 50701
)

func (c code) status() int { return int(c) / 100 }

// class is what is the same for every error of one code.
type class struct {
	code  code
	slug  string // of /problems/{slug}
	title string
	// kafka is the nearest name of Kafka's protocol errors.
	kafka string
	// retriable: the same request may succeed later.
	retriable bool
	// about is the text of the page under /problems/.
	about string
}

// classes is every code that this broker answers with, ascending.
var classes = [...]class{
	{codeMalformed, "malformed-request", "Malformed request", "INVALID_REQUEST", false,
		"The request breaks the rules of HTTP, JSON or this API's parameters. Nothing was done. The detail says which part, and at which byte or line."},
	{codeForbidden, "forbidden", "Not allowed", "CLUSTER_AUTHORIZATION_FAILED", false,
		"This path is not for clients. Paths under /internal/ are for the brokers of one cluster, who share a secret."},
	{codeProducerFenced, "producer-fenced", "Producer fenced", "INVALID_PRODUCER_EPOCH", false,
		"A newer epoch of this producer has taken over: somebody else began with the same transactional_id. Nothing was written. current_epoch tells which epoch may write."},
	{codeUnknownTopic, "unknown-topic", "Unknown topic", "UNKNOWN_TOPIC_OR_PARTITION", false,
		"No topic has this name. Create it with PUT /topics/{topic}, or start the broker with --auto-create-topics."},
	{codeUnknownPartition, "unknown-partition", "Unknown partition", "UNKNOWN_TOPIC_OR_PARTITION", false,
		"The topic is there, but has no partition of this number. Partitions are numbered from 0; GET /topics/{topic} lists them."},
	{codeUnknownInstance, "unknown-instance", "Unknown consumer instance", "UNKNOWN_MEMBER_ID", false,
		"The group has no living consumer instance of this name. It was silent for longer than consumer.instance.timeout.ms, was deleted, or never existed: the detail says which. Nothing was changed."},
	{codeNotFound, "not-found", "Not found", "INVALID_REQUEST", false,
		"Nothing is under this path. GET /openapi.json lists every path of this broker."},
	{codeMethodNotAllowed, "method-not-allowed", "Method not allowed", "INVALID_REQUEST", false,
		"The path is right, the method is not. The Allow header lists the methods that work."},
	{codeNotAcceptable, "not-acceptable", "Not acceptable", "INVALID_REQUEST", false,
		"The answer can't be given in any of the types that Accept allows. The detail lists the types there are."},
	{codeSlowRequest, "request-timeout", "Request body too slow", "REQUEST_TIMED_OUT", true,
		"The request's body came too slowly or stopped. Nothing was written; the connection is closed."},
	{codeTopicExists, "topic-exists", "Topic exists", "TOPIC_ALREADY_EXISTS", false,
		"A topic of this name exists and is not what the request asks for."},
	{codeNameTaken, "instance-name-taken", "Consumer instance exists", "INVALID_REQUEST", false,
		"A consumer instance of this name lives in the group. PUT …/instances/{name} takes it over."},
	{codeMixed, "subscription-and-assignment", "Subscription and assignment mixed", "INVALID_REQUEST", false,
		"An instance either subscribes to topics, whose partitions the group shares out, or is assigned partitions by hand. It can't do both."},
	{codeSequenceGap, "sequence-gap", "Sequence gap", "OUT_OF_ORDER_SEQUENCE_NUMBER", false,
		"The batch is not the one that comes next from this producer in this partition, and none of its last five either. Nothing was written. expected_sequence tells what comes next; a producer that the partition doesn't know begins with 0."},
	{codeLogTruncated, "log-truncated", "Log was truncated", "FENCED_LEADER_EPOCH", false,
		"Records that you have read were removed by an unclean change of leader. Decide where to go on: the answer says where the histories part."},
	{codeFenced, "fenced-member", "Fenced member", "FENCED_MEMBER_EPOCH", false,
		"The partition belongs to another member by now, or a newer incarnation has taken the name over. Nothing was changed. Drop what was read and poll again."},
	{codePollRunning, "concurrent-poll", "Concurrent poll", "INVALID_REQUEST", true,
		"An instance polls once at a time: two answers side by side would have no order. Wait for the other one."},
	{codeMessageReused, "message-id-reused", "Message id reused", "INVALID_REQUEST", false,
		"A message id (id, Message-Id, Idempotency-Key) stands for one message. This one belongs to another, with other content, that came first: first_offset tells where it is. Nothing of the request was written to that partition."},
	{codeGroupActive, "group-active", "Group has active members", "NON_EMPTY_GROUP", false,
		"This can be done only while the group has no members: they would go on from where they are."},
	{codeBelowLogStart, "offset-below-log-start", "Offset below log start", "OFFSET_OUT_OF_RANGE", false,
		"The records at this offset were removed by retention or by DELETE …/records. log_start_offset is the first one that is left."},
	{codeUnexpectedOffset, "unexpected-offset", "Expected offset does not match", "INVALID_REQUEST", false,
		"expected_offset was given, and the log does not end there. Somebody else has appended: read what came, then decide."},
	{codeBodyTooLarge, "body-too-large", "Request body too large", "MESSAGE_TOO_LARGE", false,
		"The body, after decompression, is above --max-request-bytes. Send it in several requests."},
	{codeRecordTooLarge, "record-too-large", "Record too large", "MESSAGE_TOO_LARGE", false,
		"A record's key, value and headers together are above the topic's max.message.bytes."},
	{codeUnsupportedType, "unsupported-media-type", "Unsupported media type", "INVALID_REQUEST", false,
		"The body's Content-Type or Content-Encoding is not one that this resource reads. The detail lists those it does."},
	{codeAboveLogEnd, "offset-above-end", "Offset above the end", "OFFSET_OUT_OF_RANGE", false,
		"The offset is beyond the last record that may be read. high_watermark is the end; a fetch there waits for the next record."},
	{codeUnprocessable, "unprocessable", "Cannot be processed", "INVALID_REQUEST", false,
		"The request is well-formed, but asks for something that cannot be. errors lists every fault with a JSON pointer. Nothing was written."},
	{codeQuota, "quota-exceeded", "Quota exceeded", "POLICY_VIOLATION", true,
		"A limit is reached that keeps one client from taking what all need. The detail names it."},
	{codeStorageFault, "storage-fault", "Storage fault", "KAFKA_STORAGE_ERROR", false,
		"The disk returned other bytes than were written, or refused to write. Records before and after the damage are still served."},
	{codeInternal, "internal-error", "Internal error", "UNKNOWN_SERVER_ERROR", false,
		"A fault of the broker, not of the request. Its log has a line with the request id."},
	{codeNoLeader, "no-leader", "No leader right now", "LEADER_NOT_AVAILABLE", true,
		"The partition, or the cluster's metadata, has no leader at this moment. One is elected within seconds. Nothing was written."},
	{codeNotEnoughReplicas, "not-enough-replicas", "Not enough in-sync replicas", "NOT_ENOUGH_REPLICAS", true,
		"Fewer replicas are in sync than min.insync.replicas asks for. Nothing was written."},
	{codeNotEnoughAfter, "not-enough-replicas-after-append", "Not enough in-sync replicas after the append", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", true,
		"The records were appended, then too few replicas were in sync to promise that they survive. They may."},
	{codeShuttingDown, "shutting-down", "Broker is shutting down or cut off", "BROKER_NOT_AVAILABLE", true,
		"This broker is shutting down, or the partition's leader has lost touch with the cluster. outcome says whether something may have been written; another broker, or this one later, will answer."},
	{codeOverloaded, "overloaded", "Broker is overloaded", "THROTTLING_QUOTA_EXCEEDED", true,
		"A limit on what is held at once, waiting requests or bytes of request bodies, is reached. Nothing was written; wait as Retry-After says."},
	{codeTimedOut, "timed-out", "Timed out", "REQUEST_TIMED_OUT", true,
		"The answer did not come in time, or whoever had to give it was lost. What was asked for may have been done: look before sending it again."},
	{codeDiskNearlyFull, "disk-nearly-full", "Disk nearly full", "KAFKA_STORAGE_ERROR", true,
		"The broker's disk is nearly full: produce is refused, reads and deletes work. Free space by shorter retention, DELETE …/records or deleting topics."},
}

// classOf finds a code's class; every code constant has one (a test checks it).
func classOf(c code) *class {
	for i := range classes {
		if classes[i].code == c {
			return &classes[i]
		}
	}
	panic("handlers: code without a class: " + http.StatusText(c.status()))
}

func classBySlug(slug string) *class {
	for i := range classes {
		if classes[i].slug == slug {
			return &classes[i]
		}
	}
	return nil
}
