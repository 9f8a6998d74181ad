package handlers

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"highwater/replication"
	"highwater/replication/controller"
	"highwater/replication/group"
	"highwater/storage"
)

// exportedErrors lists the Err… variables and …Error types of a package's files.
func exportedErrors(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	must(t, err)
	var out []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		must(t, err)
		for _, decl := range f.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range s.Names {
						if gen.Tok == token.VAR && name.IsExported() && strings.HasPrefix(name.Name, "Err") {
							out = append(out, f.Name.Name+"."+name.Name)
						}
					}
				case *ast.TypeSpec:
					if s.Name.IsExported() && strings.HasSuffix(s.Name.Name, "Error") {
						out = append(out, f.Name.Name+"."+s.Name.Name)
					}
				}
			}
		}
	}
	return out
}

func TestEveryExportedErrorIsInTheTable(t *testing.T) {
	var mapped []string
	for _, m := range mappings {
		mapped = append(mapped, m.name)
	}
	var found []string
	for _, dir := range []string{"../storage", "../replication", "../replication/controller", "../replication/group", "."} {
		found = append(found, exportedErrors(t, dir)...)
	}
	if len(found) < 15 {
		t.Fatalf("found only %v: the search is broken", found)
	}
	for _, name := range found {
		if !slices.Contains(mapped, name) {
			t.Errorf("%s is in no line of the table of errors.go", name)
		}
	}
	for _, name := range mapped {
		if !strings.HasPrefix(name, "handlers.") && !slices.Contains(found, name) {
			t.Errorf("the table has %s, which is gone", name)
		}
	}
}

func TestClassesAreComplete(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "classes.go", nil, 0)
	must(t, err)
	codes := 0
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok && len(s.Names) == 1 && strings.HasPrefix(s.Names[0].Name, "code") && len(s.Values) == 1 {
			codes++
		}
		return true
	})
	if codes != len(classes) {
		t.Errorf("%d codes, %d classes", codes, len(classes))
	}
	slugs := map[string]bool{}
	for i, c := range classes {
		if i > 0 && classes[i-1].code >= c.code {
			t.Errorf("class %d stands behind %d", c.code, classes[i-1].code)
		}
		if slugs[c.slug] || c.title == "" || c.about == "" || c.kafka == "" || http.StatusText(c.code.status()) == "" {
			t.Errorf("class %+v", c)
		}
		slugs[c.slug] = true
	}
}

// everyError has one of each kind, wrapped as rooms wrap, and what a client must see.
var everyError = []struct {
	err     error
	code    int
	outcome string // on a route that writes
	kafka   string
	fix     string // a part of it
}{
	{&controller.UnknownTopicError{Topic: "orders"}, 40401, "not_written", "UNKNOWN_TOPIC_OR_PARTITION", "curl -X PUT http://broker:9/topics/orders"},
	{&controller.TopicExistsError{Topic: "orders"}, 40901, "not_written", "TOPIC_ALREADY_EXISTS", "curl http://broker:9/topics/orders"},
	{&controller.TopicExistsError{Topic: "orders", Differs: []string{"partitions"}}, 40901, "not_written", "TOPIC_ALREADY_EXISTS", "PATCH"},
	{&controller.TopicExistsError{Topic: "orders", Differs: []string{"partitions", "replication_factor"}}, 40901, "not_written", "TOPIC_ALREADY_EXISTS", "stays what it is"},
	{&controller.InvalidNameError{Topic: "a b"}, 42201, "not_written", "INVALID_TOPIC_EXCEPTION", ""},
	{&controller.InvalidConfigError{Name: "x", Value: "y", Allowed: "z"}, 42201, "not_written", "INVALID_CONFIG", ""},
	{&controller.ImpossibleError{Reason: "2 replicas on 1 broker"}, 42201, "not_written", "INVALID_REPLICATION_FACTOR", "/brokers"},
	{&controller.RefusedError{Code: "INELIGIBLE_REPLICA", Reason: "broker 3 is not up"}, 42201, "not_written", "INELIGIBLE_REPLICA", "/brokers"},
	{&controller.TooManyProducersError{Limit: 9}, 42901, "not_written", "POLICY_VIOLATION", "without a transactional_id"},
	{&storage.MessageReusedError{ID: "x", Offset: 5}, 40908, "not_written", "INVALID_REQUEST", "/topics/orders/partitions/2/records?offset=5&count=1"},
	{&storage.MessageReusedError{ID: "x", Offset: -1}, 40908, "not_written", "INVALID_REQUEST", "id of its own"},
	{&storage.SequenceGapError{ProducerID: 1, Expected: 7, Got: 9}, 40904, "not_written", "OUT_OF_ORDER_SEQUENCE_NUMBER", "base_sequence 7"},
	{&storage.UnknownProducerError{ProducerID: 1}, 40904, "not_written", "UNKNOWN_PRODUCER_ID", "-X POST http://broker:9/producers"},
	{&storage.ProducerFencedError{ProducerID: 1, Current: 2}, 40303, "not_written", "INVALID_PRODUCER_EPOCH", "http://broker:9/producers"},
	{storage.ErrStale, 50302, "not_written", "LEADER_NOT_AVAILABLE", "again"},
	{controller.ErrNoController, 50302, "not_written", "LEADER_NOT_AVAILABLE", "curl http://broker:9/cluster"},
	{&replication.UnknownPartitionError{Topic: "orders", Partition: 7, Count: 3}, 40402, "not_written", "UNKNOWN_TOPIC_OR_PARTITION", "/topics/orders/partitions"},
	{&replication.NotLeaderError{Topic: "orders", Partition: 1, Leader: -1}, 50302, "not_written", "NOT_LEADER_OR_FOLLOWER", "/topics/orders/partitions/1"},
	{&replication.NotConfirmedError{Topic: "orders", Partition: 1}, 50305, "not_written", "NOT_LEADER_OR_FOLLOWER", "/topics/orders/partitions/1"},
	{&replication.OffsetNotAvailableError{Topic: "orders", Partition: 1}, 50302, "not_written", "OFFSET_NOT_AVAILABLE", "/topics/orders/partitions/1"},
	{&replication.LeaderLostError{Topic: "orders", Partition: 1, Leader: 2, Cause: errors.New("read tcp 10.0.0.1:2: secret")}, 50401, "unknown", "REQUEST_TIMED_OUT", "/topics/orders/partitions/1"},
	{&replication.NotEnoughReplicasError{Topic: "orders", InSync: 1, Min: 2}, 50303, "not_written", "NOT_ENOUGH_REPLICAS", "/topics/orders/partitions/0"},
	{&replication.NotEnoughReplicasError{Topic: "orders", InSync: 1, Min: 2, Appended: true}, 50304, "unknown", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", ""},
	{&replication.UnknownMessageError{Topic: "orders", ID: "x", Partition: -1, Offset: -1}, 40404, "not_written", "INVALID_REQUEST", "send it again with the same id"},
	{&replication.UnknownMessageError{Topic: "orders", ID: "x", Partition: 1, Offset: 7}, 40404, "not_written", "INVALID_REQUEST", "/topics/orders/partitions/1/offsets"},
	{&replication.NotCompactedError{Topic: "orders"}, 42201, "not_written", "INVALID_REQUEST", "-X PATCH http://broker:9/topics/orders"},
	{&replication.UnexpectedOffsetError{Topic: "orders", Expected: 1, Actual: 5}, 41201, "not_written", "INVALID_REQUEST", "records?offset=1"},
	{&replication.RecordTooLargeError{Topic: "orders", Size: 11, Most: 10}, 41302, "not_written", "MESSAGE_TOO_LARGE", "-X PATCH http://broker:9/topics/orders"},
	{replication.ErrTimeout, 50401, "unknown", "REQUEST_TIMED_OUT", ""},
	{replication.ErrShuttingDown, 50305, "not_written", "BROKER_NOT_AVAILABLE", ""},
	{&storage.OffsetOutOfRangeError{Offset: 1, Start: 5, End: 9}, 41001, "not_written", "OFFSET_OUT_OF_RANGE", "records?offset=5"},
	{&storage.OffsetOutOfRangeError{Offset: 10, Start: 5, End: 9}, 41601, "not_written", "OFFSET_OUT_OF_RANGE", "/topics/orders/partitions/2/records?offset=9"},
	{&storage.CorruptError{Path: "/var/lib/x/0.log", Position: 5, Reason: "secret bytes"}, 50001, "not_written", "KAFKA_STORAGE_ERROR", ""},
	{&storage.ReplicaBatchError{Offset: 5, Corrupt: true, Reason: "secret bytes"}, 50002, "not_written", "UNKNOWN_SERVER_ERROR", ""},
	{&storage.FailedError{Cause: errors.New("write /var/lib/x/0.log: input/output error")}, 50001, "unknown", "KAFKA_STORAGE_ERROR", ""},
	{storage.ErrDiskNearlyFull, 50701, "not_written", "KAFKA_STORAGE_ERROR", ""},
	{storage.ErrTooManyFiles, 50306, "not_written", "THROTTLING_QUOTA_EXCEEDED", ""},
	{storage.ErrBacklogged, 50306, "not_written", "THROTTLING_QUOTA_EXCEEDED", "after a pause"},
	{storage.ErrClosed, 50305, "not_written", "BROKER_NOT_AVAILABLE", ""},
	{storage.ErrBatchTooLarge, 41302, "not_written", "MESSAGE_TOO_LARGE", ""},
	{&controller.ConflictError{Topic: "orders"}, 40901, "not_written", "TOPIC_ALREADY_EXISTS", "/topics/orders"},
	{controller.ErrOutcomeUnknown, 50401, "unknown", "REQUEST_TIMED_OUT", "/topics"},
	{&controller.StaleBrokerEpochError{}, 50002, "not_written", "UNKNOWN_SERVER_ERROR", ""},
	{&controller.DuplicateBrokerError{}, 50002, "not_written", "UNKNOWN_SERVER_ERROR", "--node-id"},
	{&controller.IncompatibleError{}, 50002, "not_written", "UNKNOWN_SERVER_ERROR", ""},
	{&controller.DirError{Dir: "/var/lib/x"}, 50002, "not_written", "UNKNOWN_SERVER_ERROR", ""},
	{controller.ErrStoreFailed, 50001, "not_written", "KAFKA_STORAGE_ERROR", ""},
	{&replication.OfflineError{Topic: "orders", Cause: errors.New("open /var/lib/x: too many open files")}, 50001, "not_written", "KAFKA_STORAGE_ERROR", ""},
	{&replication.TruncatedError{Topic: "orders", Offset: 9, Epoch: 2, SafeOffset: 7, SafeEpoch: 1}, 40905, "not_written", "FENCED_LEADER_EPOCH", "records?offset=7"},
	{&storage.IdentityError{Dir: "/var/lib/x"}, 50002, "not_written", "UNKNOWN_SERVER_ERROR", ""},
	{&storage.FormatVersionError{Dir: "/var/lib/x"}, 50002, "not_written", "UNKNOWN_SERVER_ERROR", ""},
	{&storage.LockedError{Path: "/var/lib/x"}, 50002, "not_written", "UNKNOWN_SERVER_ERROR", ""},
	{storage.ErrLocked, 50002, "not_written", "UNKNOWN_SERVER_ERROR", ""},
	{group.ErrNoCoordinator, 50302, "not_written", "COORDINATOR_NOT_AVAILABLE", ""},
	{group.ErrUnknownOutcome, 50401, "unknown", "REQUEST_TIMED_OUT", "no harm"},
	// What may have been done stays so, whatever was the cause (V17).
	{fmt.Errorf("%w: %w", group.ErrUnknownOutcome, &replication.NotConfirmedError{Topic: "__consumer_offsets", Partition: 1}), 50401, "unknown", "REQUEST_TIMED_OUT", "no harm"},
	{fmt.Errorf("%w: %w", group.ErrUnknownOutcome, &replication.NotLeaderError{Topic: "__consumer_offsets", Partition: 1}), 50401, "unknown", "REQUEST_TIMED_OUT", "no harm"},
	{fmt.Errorf("%w: %w", group.ErrUnknownOutcome, replication.ErrShuttingDown), 50401, "unknown", "REQUEST_TIMED_OUT", "no harm"},
	{fmt.Errorf("%w: %w", group.ErrUnknownOutcome, &replication.NotEnoughReplicasError{Topic: "orders", InSync: 1, Min: 2, Appended: true}), 50304, "unknown", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", ""},
	{group.ErrPollOver, 50302, "not_written", "COORDINATOR_NOT_AVAILABLE", "Poll again"},
	{&group.UnknownInstanceError{Group: "g", Instance: "c1~2"}, 40403, "not_written", "UNKNOWN_MEMBER_ID", `/consumers/g --json '{"name":"c1"}'`},
	{&group.UnknownInstanceError{Group: "g", Instance: "c1", Expired: time.Second}, 40403, "not_written", "UNKNOWN_MEMBER_ID", "/consumers/g"},
	{&group.UnknownInstanceError{Group: "g", Instance: "c1", Left: true}, 40403, "not_written", "UNKNOWN_MEMBER_ID", "/consumers/g"},
	{&group.UnknownGroupError{Group: "g"}, 40404, "not_written", "GROUP_ID_NOT_FOUND", "curl http://broker:9/consumers"},
	{&group.NameTakenError{Group: "g", Name: "c1"}, 40902, "not_written", "INVALID_REQUEST", "-X PUT http://broker:9/consumers/g/instances/c1"},
	{&group.MixedError{Group: "g", Instance: "c1"}, 40903, "not_written", "INVALID_REQUEST", "-X DELETE http://broker:9/consumers/g/instances/c1/subscription"},
	{&group.NotSubscribedError{Group: "g", Instance: "c1"}, 42201, "not_written", "INVALID_REQUEST", "/consumers/g/instances/c1/subscription"},
	{&group.FencedError{Group: "g", Instance: "c1~1", Newest: "c1~2"}, 40906, "not_written", "FENCED_MEMBER_EPOCH", "PUT"},
	{&group.FencedError{Group: "g", Instance: "c1", Partition: &group.TopicPartition{Topic: "orders"}}, 40906, "not_written", "FENCED_MEMBER_EPOCH", "poll again"},
	{&group.PollRunningError{Group: "g", Instance: "c1"}, 40907, "not_written", "INVALID_REQUEST", "One poll at a time"},
	{&group.PositionsLostError{Group: "g", Instance: "c1"}, 40906, "not_written", "FENCED_MEMBER_EPOCH", "offsets in the body"},
	{&group.UnassignedError{Group: "g", Instance: "c1"}, 40402, "not_written", "UNKNOWN_TOPIC_OR_PARTITION", "assignments"},
	{&group.UnassignedError{Group: "g", Instance: "c1", Pending: true}, 40402, "not_written", "UNKNOWN_TOPIC_OR_PARTITION", "Poll first"},
	{&group.ActiveError{Group: "g", Members: 2}, 40909, "not_written", "NON_EMPTY_GROUP", "curl http://broker:9/consumers/g"},
	{&group.TooManyError{What: "members", Limit: 1000}, 42901, "not_written", "POLICY_VIOLATION", ""},
	{&group.RecordError{}, 50002, "not_written", "UNKNOWN_SERVER_ERROR", ""},
	{&group.InvalidError{Reason: "no name"}, 42201, "not_written", "INVALID_REQUEST", ""},
	{errors.New("open /var/lib/x/secret: boom"), 50002, "unknown", "UNKNOWN_SERVER_ERROR", ""},
	{&overloadedError{what: "waiting requests"}, 50306, "not_written", "THROTTLING_QUOTA_EXCEEDED", ""},
	{malformed("x"), 40001, "not_written", "INVALID_REQUEST", ""},
}

func TestEveryErrorBecomesItsProblem(t *testing.T) {
	a := newAPI(Config{Logger: zerolog.Nop()})
	said := map[string]bool{}
	for _, c := range everyError {
		for _, writes := range []bool{true, false} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "http://broker:9/topics/orders/partitions/2/records", nil)
			a.fail(&exchange{ResponseWriter: w, writes: writes}, r, fmt.Errorf("room: wrapped: %w", c.err))
			p := answer{t: t, status: w.Code, header: w.Header(), body: w.Body.Bytes()}.problem(c.code)
			want := c.outcome
			if !writes {
				want = ""
			}
			if p.Outcome != want || p.KafkaError != c.kafka || !strings.Contains(p.Fix, c.fix) {
				t.Errorf("%v: %+v", c.err, p)
			}
			if text := w.Body.String(); strings.Contains(text, "/var/lib") || strings.Contains(text, "secret") || strings.Contains(text, "room: ") || strings.Contains(text, "storage:") {
				t.Errorf("%v: leaks: %s", c.err, text)
			}
			if hint := w.Header().Get("Retry-After"); (hint != "") != (c.code/100 == 503 || c.code/100 == 429) {
				t.Errorf("%v: Retry-After %q", c.err, hint)
			}
			for _, m := range mappings {
				if m.say(c.err, place{}) != nil {
					said[m.name] = true
					break
				}
			}
		}
	}
	for _, m := range mappings {
		if !said[m.name] {
			t.Errorf("no error of this table reaches %s", m.name)
		}
	}
}

func TestProblemPages(t *testing.T) {
	b := startBroker(t)
	for i := range classes {
		c := &classes[i]
		path := "/problems/" + c.slug
		var page struct {
			Type      string `json:"type"`
			ErrorCode int    `json:"error_code"`
			About     string `json:"about"`
		}
		if b.get(path).want(200).into(&page); page.Type != path || page.ErrorCode != int(c.code) || page.About == "" {
			t.Errorf("%s: %+v", path, page)
		}
	}
	html := b.get("/problems/not-found", accept("text/html,application/xhtml+xml,*/*;q=0.8")).want(200)
	if !strings.HasPrefix(html.header.Get("Content-Type"), "text/html") || !strings.Contains(string(html.body), "<h1>Not found</h1>") {
		t.Errorf("page %q %s", html.header.Get("Content-Type"), html.body)
	}
	if got := b.get("/problems/not-found", accept("text/plain")).want(200).header.Get("Content-Type"); !strings.HasPrefix(got, "text/plain") {
		t.Errorf("labelled %q", got)
	}
	b.get("/problems/not-found", accept("image/png")).problem(40601)
	b.get("/problems/nope").problem(40404)
	// The type of any error leads to its page.
	b.get(b.get("/nope").problem(40404).Type).want(200)
}

func TestProblemTextIsSafeJSON(t *testing.T) {
	b := startBroker(t)
	for _, path := range []string{"/topics/%22%3E%3Cscript%3E", "/topics/" + strings.Repeat("%E2%82%AC", 300), "/topics/t?" + strings.Repeat("x", 3000) + "=1", "/topics/t?%FF%FE=1", "/topics/t?%E2%82=1", "/topics/t?a%00b=1"} {
		a := b.post(path, "{}")
		if a.status < 400 || a.status >= 500 || !json.Valid(a.body) || len(a.body) > 4000 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		if got := a.header.Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("X-Content-Type-Options %q", got)
		}
	}
}
