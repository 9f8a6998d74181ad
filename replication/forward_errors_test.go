package replication

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"highwater/replication/controller"
	"highwater/replication/wire"
	"highwater/storage"
)

// stayHome are the exported errors that no answer to another broker can hold, each
// with the reason.
var stayHome = map[string]string{
	"storage.ErrLocked":                "start of a process",
	"storage.LockedError":              "start of a process",
	"storage.IdentityError":            "start of a process",
	"storage.FormatVersionError":       "start of a process",
	"storage.ReplicaBatchError":        "a follower's own",
	"storage.ErrStale":                 "an append's own: it looks again",
	"replication.NotCompactedError":    "an operator asks one broker, and no other",
	"controller.ErrNoController":       "a change of metadata, which the controller forwards itself",
	"controller.ErrOutcomeUnknown":     "as that",
	"controller.TopicExistsError":      "as that",
	"controller.InvalidNameError":      "as that",
	"controller.InvalidConfigError":    "as that",
	"controller.ImpossibleError":       "as that",
	"controller.ConflictError":         "as that",
	"controller.RefusedError":          "as that",
	"controller.StaleBrokerEpochError": "as that",
	"controller.ErrStoreFailed":        "the quorum member's own",
	"controller.TooManyProducersError": "as that",
	"controller.DirError":              "start of a process",
	"controller.IncompatibleError":     "start of a process",
	"controller.DuplicateBrokerError":  "start of a process",
}

// exportedErrors lists the Err… variables and …Error types of a package.
func exportedErrors(t *testing.T, dir string) (out []string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					if name := s.Names[0].Name; gen.Tok == token.VAR && strings.HasPrefix(name, "Err") {
						out = append(out, f.Name.Name+"."+name)
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

func TestEveryErrorTravels(t *testing.T) {
	known := map[string]bool{}
	for _, k := range errorKinds {
		known[k.Name] = true
	}
	found := slices.Concat(exportedErrors(t, "../storage"), exportedErrors(t, "."), exportedErrors(t, "controller"))
	if len(found) < 25 {
		t.Fatalf("found only %v: the search is broken", found)
	}
	for _, name := range found {
		if !known[name] && stayHome[name] == "" {
			t.Errorf("%s is neither in the table of errors that travel nor among those that stay", name)
		}
		if known[name] && stayHome[name] != "" {
			t.Errorf("%s is in both", name)
		}
	}
	for name := range stayHome {
		if !slices.Contains(found, name) {
			t.Errorf("%s is gone", name)
		}
	}
}

func TestErrorsArriveAsTheyWereSent(t *testing.T) {
	plain := errors.New("plain")
	seen := map[string]bool{}
	for _, want := range []error{
		&controller.UnknownTopicError{Topic: "t"},
		&UnknownPartitionError{Topic: "t", Partition: 3, Count: 2},
		&NotLeaderError{Topic: "t", Partition: 1, Leader: -1, Epoch: 4},
		&NotEnoughReplicasError{Topic: "t", Partition: 1, InSync: 1, Min: 2, Appended: true},
		&NotConfirmedError{Topic: "t", Partition: 1},
		&OffsetNotAvailableError{Topic: "t", Partition: 1},
		&UnexpectedOffsetError{Topic: "t", Partition: 1, Expected: 5, Actual: 1 << 60},
		&RecordTooLargeError{Topic: "t", Size: 5, Most: 4},
		&TruncatedError{Topic: "t", Partition: 1, Offset: 9, Epoch: 2, SafeOffset: 7, SafeEpoch: -1},
		&OfflineError{Topic: "t", Partition: 1, Cause: plain},
		&LeaderLostError{Topic: "t", Partition: 1, Leader: 3, Cause: plain},
		ErrTimeout,
		ErrShuttingDown,
		&storage.OffsetOutOfRangeError{Offset: 1 << 61, Start: 2, End: 3},
		&storage.CorruptError{Path: "p", Position: 4, Reason: "r"},
		&storage.FailedError{Cause: plain},
		&storage.MessageReusedError{Record: 2, ID: "m", Offset: 1 << 61},
		&storage.SequenceGapError{ProducerID: 1 << 60, Epoch: 3, Expected: 7, Got: 9},
		&storage.UnknownProducerError{ProducerID: 5},
		&storage.ProducerFencedError{ProducerID: 5, Epoch: 1, Current: 2},
		&UnknownMessageError{Topic: "t", ID: "m", Partition: 3, Offset: -1},
		storage.ErrDiskNearlyFull,
		storage.ErrTooManyFiles,
		storage.ErrBacklogged,
		storage.ErrBatchTooLarge,
		storage.ErrClosed,
	} {
		// Over the network: by way of a message's bytes.
		sent := &wire.JSON[wire.DeleteRecordsAnswer]{V: &wire.DeleteRecordsAnswer{Version: wire.Version, Error: encodeError(fmt.Errorf("room: %w", want))}}
		got := &wire.JSON[wire.DeleteRecordsAnswer]{}
		if err := wire.DecodeBody(wire.AppendFrame(nil, sent), got); err != nil {
			t.Fatal(err)
		}
		seen[got.V.Error.Kind] = true
		if err := decodeError(got.V.Error); !reflect.DeepEqual(err, want) {
			t.Errorf("%#v arrived as %#v", want, err)
		}
	}
	for _, k := range errorKinds {
		if !seen[k.Name] {
			t.Errorf("no error of this table is a %s", k.Name)
		}
	}
	if err := decodeError(encodeError(errors.New("of a newer version"))); !strings.Contains(err.Error(), "of a newer version") {
		t.Error(err)
	}
	if decodeError(encodeError(nil)) != nil {
		t.Error("nil is an error")
	}
}
