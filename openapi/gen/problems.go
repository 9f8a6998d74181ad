package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// errorsAttribute lists the error codes that an operation can answer with:
// `@x-errors [40001,40401]`. The status is the code divided by 100.
const errorsAttribute = "x-errors"

// everywhere are the codes that any operation can answer with. 40001 is also that
// of a broken body that a GET brings.
var everywhere = []int{40001, 50002}

// meaningOf an error code, as every answer's `error_code` carries it.
func meaningOf(code int) string {
	return map[int]string{
		40001: "malformed body or parameter",
		40101: "not authenticated",
		40301: "not allowed",
		40303: "producer fenced",
		40401: "unknown topic",
		40402: "unknown partition",
		40403: "unknown consumer instance",
		40404: "unknown path, group, broker or message id",
		40501: "method not allowed",
		40601: "no representation that `Accept` allows",
		40801: "request body came too slowly",
		40901: "topic exists and differs",
		40902: "an instance of this name lives",
		40903: "subscription and assignments mixed",
		40904: "sequence gap, or unknown producer",
		40905: "log was truncated since that leader epoch",
		40906: "fenced member, or old generation",
		40907: "another poll of the instance is under way",
		40909: "the group has active members",
		40908: "message id reused with other content",
		41001: "offset below the log start",
		41201: "`expected_offset` is not the log end",
		41301: "request body too large",
		41302: "record too large",
		41501: "unsupported media type",
		41601: "offset above the end",
		42201: "valid JSON that cannot be processed",
		42901: "quota or rate exceeded",
		50001: "storage fault on this broker",
		50002: "internal error of this broker",
		50302: "no leader or coordinator right now",
		50303: "not enough in-sync replicas, nothing appended",
		50304: "not enough in-sync replicas, appended",
		50305: "the broker is shutting down, or the leader has lost touch with the cluster",
		50306: "the broker holds too many requests or bytes right now",
		50401: "timed out; may have been done",
		50701: "disk nearly full: produce refused, reads and deletes work",
	}[code]
}

func applyErrors(doc *openapi3.T, op *openapi3.Operation) error {
	listed, _ := op.Extensions[errorsAttribute].([]any)
	codes := slices.Clone(everywhere)
	for _, v := range listed {
		f, ok := v.(float64)
		if !ok || meaningOf(int(f)) == "" {
			return fmt.Errorf("@%s: %v is no known error code", errorsAttribute, v)
		}
		codes = append(codes, int(f))
	}
	slices.Sort(codes)
	byStatus := map[int][]string{}
	for _, code := range slices.Compact(codes) {
		byStatus[code/100] = append(byStatus[code/100], fmt.Sprintf("`%d` %s", code, meaningOf(code)))
	}
	schema, err := schemaNamed(doc, "Problem")
	if err != nil {
		return err
	}
	for status, meanings := range byStatus {
		description := strings.Join(meanings, "; ") + "."
		r := openapi3.NewResponse().WithDescription(description)
		r.Content = openapi3.Content{problemMedia: {Schema: schema}}
		if slices.Contains([]int{429, 503}, status) {
			r.Headers = openapi3.Headers{"Retry-After": {Value: &openapi3.Header{Parameter: openapi3.Parameter{
				Description: "Seconds to wait before the next try.", Schema: openapi3.NewInt64Schema().NewRef(),
			}}}}
		}
		op.Responses.Set(strconv.Itoa(status), &openapi3.ResponseRef{Value: r})
	}
	op.Extensions = without(op.Extensions, errorsAttribute)
	return nil
}
