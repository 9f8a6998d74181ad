package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"highwater/replication"
	"highwater/replication/controller"
	"highwater/replication/group"
	"highwater/storage"
)

// requestError is a client's mistake that the handlers themselves found.
type requestError struct {
	code    code
	detail  string
	fix     string // "": the class's own
	faults  []fault
	members []member
}

func (e *requestError) Error() string { return "handlers: " + e.detail }

// fault is one entry of a validation error's list.
type fault struct {
	pointer string // RFC 6901, into the request's body; for NDJSON as if the lines stood in "records"
	detail  string
	code    code
}

// member is an extra member of a problem body.
type member struct {
	name  string
	value int64
}

// overloadedError: a limit on what may be held at once is reached.
type overloadedError struct{ what string }

func (e *overloadedError) Error() string { return "handlers: too many " + e.what }

var (
	errDraining = fmt.Errorf("handlers: draining: %w", replication.ErrShuttingDown)
	errPanicked = errors.New("handlers: panicked")
)

func malformed(format string, args ...any) *requestError {
	return &requestError{code: codeMalformed, detail: fmt.Sprintf(format, args...)}
}

func unprocessable(format string, args ...any) *requestError {
	return &requestError{code: codeUnprocessable, detail: fmt.Sprintf(format, args...)}
}

// place is where the request went; fixes are written with it.
type place struct {
	method    string
	base      string // "http://host:port", as the client spelled it
	topic     string // "" when the path names none, or no possible one
	partition string
	producers bool // it is /producers
	keyed     bool // it has an Idempotency-Key
	joins     bool // it names a member that joins by fetching, and no instance that was created
}

// topicURL is a path that can be pasted into a shell.
func (p place) topicURL(topic string) string {
	if !validTopicName(topic) {
		topic = p.topic
	}
	if topic == "" {
		topic = "{topic}"
	}
	return p.base + "/topics/" + topic
}

// mapping turns one kind of error into a problem. name is what the completeness
// test looks for: the package and name of an exported error.
type mapping struct {
	name string
	// say returns nil when err isn't its kind.
	say func(err error, at place) *problem
}

// is maps a sentinel.
func is(name string, target error, c code, detail, fix string) mapping {
	return mapping{name, func(err error, _ place) *problem {
		if !errors.Is(err, target) {
			return nil
		}
		return newProblem(c, detail, fix)
	}}
}

// as maps a typed error.
func as[E error](name string, say func(e E, at place) *problem) mapping {
	return mapping{name, func(err error, at place) *problem {
		var e E
		if !errors.As(err, &e) {
			return nil
		}
		return say(e, at)
	}}
}

// mappings is THE table from errors to answers; the first that fits is taken.
var mappings = [...]mapping{
	as("handlers.requestError", func(e *requestError, _ place) *problem {
		p := newProblem(e.code, e.detail, e.fix)
		p.faults, p.members = e.faults, e.members
		return p
	}),
	as("handlers.overloadedError", func(e *overloadedError, _ place) *problem {
		return newProblem(codeOverloaded, "This broker holds too many "+e.what+" at the moment.", "Send the same request again after a pause.")
	}),
	{"group.ErrUnknownOutcome", func(err error, _ place) *problem { // before the kinds of its causes: most of those say that nothing was done
		var few *replication.NotEnoughReplicasError
		if !errors.Is(err, group.ErrUnknownOutcome) || errors.As(err, &few) && few.Appended {
			return nil
		}
		p := newProblem(codeTimedOut, "The group's coordinator was lost, or too few of its replicas were there, before it answered. What was asked for may have been done.",
			"Send the same request again: it does no harm when it was done.")
		p.unknown = true
		return p
	}},

	as("controller.UnknownTopicError", func(e *controller.UnknownTopicError, at place) *problem {
		fix := "See the topics there are: curl " + at.base + "/topics"
		if at.method != http.MethodDelete {
			fix += " — or create it: curl -X PUT " + at.topicURL(e.Topic)
		}
		return newProblem(codeUnknownTopic, "There is no topic "+shown(e.Topic)+".", fix)
	}),
	as("controller.TopicExistsError", func(e *controller.TopicExistsError, at place) *problem {
		detail := "The topic " + shown(e.Topic) + " exists already."
		if len(e.Differs) > 0 {
			detail = "The topic " + shown(e.Topic) + " exists already and differs in: " + strings.Join(e.Differs, ", ") + "."
		}
		fix := "change it with PATCH, or choose another name."
		if slices.Contains(e.Differs, "replication_factor") {
			fix = "its replication_factor stays what it is: leave that out, or choose another name."
		}
		return newProblem(codeTopicExists, detail, "Look at it: curl "+at.topicURL(e.Topic)+" — "+fix)
	}),
	as("controller.InvalidNameError", func(e *controller.InvalidNameError, _ place) *problem {
		p := newProblem(codeUnprocessable, shown(e.Topic)+" can't be used as a topic name: "+e.Reason+".",
			"Choose a name of 1 to 249 of a-z A-Z 0-9 . _ - that isn't . or .. and isn't reserved; in a path it needs no percent-encoding.")
		p.kafka = "INVALID_TOPIC_EXCEPTION"
		return p
	}),
	as("controller.InvalidConfigError", func(e *controller.InvalidConfigError, _ place) *problem {
		p := newProblem(codeUnprocessable, "The config "+shown(e.Name)+" can't be "+shown(e.Value)+". Allowed: "+e.Allowed+".", "Give one of the allowed values.")
		p.kafka = "INVALID_CONFIG"
		return p
	}),
	as("controller.ImpossibleError", func(e *controller.ImpossibleError, at place) *problem {
		p := newProblem(codeUnprocessable, "This cluster can't do that: "+e.Reason+".", "Give a number that fits. See the brokers there are: curl "+at.base+"/brokers")
		p.kafka = "INVALID_REPLICATION_FACTOR"
		return p
	}),
	{"controller.ErrOutcomeUnknown", func(err error, at place) *problem {
		if !errors.Is(err, controller.ErrOutcomeUnknown) {
			return nil
		}
		return sayUnknownProposal(at)
	}},
	as("controller.RefusedError", func(e *controller.RefusedError, at place) *problem {
		p := newProblem(codeUnprocessable, "This can't be done now: "+e.Reason+".", "See the brokers there are: curl "+at.base+"/brokers")
		p.kafka = string(e.Code)
		return p
	}),
	{"controller.ErrNoController", func(err error, at place) *problem {
		if !errors.Is(err, controller.ErrNoController) {
			return nil
		}
		return newProblem(codeNoLeader, "The cluster's metadata has no leader right now.",
			"Send the same request again after a pause. It takes most of the voters; see who leads: curl "+at.base+"/cluster")
	}},
	as("controller.ConflictError", func(e *controller.ConflictError, at place) *problem {
		return newProblem(codeTopicExists, "The topic "+shown(e.Topic)+" was changed by another request at the same time; this one changed nothing.",
			"Look at it, then send the request again: curl "+at.topicURL(e.Topic))
	}),
	as("controller.TooManyProducersError", sayTooManyProducers),
	// What only the process at its start, or another broker, can meet.
	as("controller.StaleBrokerEpochError", func(_ *controller.StaleBrokerEpochError, _ place) *problem {
		return newProblem(codeInternal, "The broker was registered anew meanwhile.", "")
	}),
	as("controller.DuplicateBrokerError", func(_ *controller.DuplicateBrokerError, _ place) *problem {
		return newProblem(codeInternal, "Another process has this broker's id.", "Give each broker a --node-id of its own.")
	}),
	as("controller.IncompatibleError", func(_ *controller.IncompatibleError, _ place) *problem {
		return newProblem(codeInternal, "The cluster's metadata is of a newer version than this broker.", "Start the newer version here.")
	}),
	as("controller.DirError", func(_ *controller.DirError, _ place) *problem {
		return newProblem(codeInternal, "The broker can't use its metadata directory.", "")
	}),
	is("controller.ErrStoreFailed", controller.ErrStoreFailed, codeStorageFault,
		"The broker's disk has failed; it stops.", "Send to another broker, or to this one after its restart."),

	as("replication.OfflineError", func(e *replication.OfflineError, _ place) *problem {
		return newProblem(codeStorageFault, fmt.Sprintf("The log of partition %s-%d can't be opened on the broker that leads it.", e.Topic, e.Partition),
			"Look at that broker's log for the cause; opening is tried again from time to time.")
	}),
	as("replication.TruncatedError", func(e *replication.TruncatedError, at place) *problem {
		p := newProblem(codeLogTruncated, fmt.Sprintf("The log of %s-%d was truncated: what was read before offset %d in leader epoch %d is no longer in it.", e.Topic, e.Partition, e.Offset, e.Epoch),
			fmt.Sprintf("Forget what was read from offset %d on and read it again: curl '%s/partitions/%d/records?offset=%d'", e.SafeOffset, at.topicURL(e.Topic), e.Partition, e.SafeOffset))
		p.members = []member{{"safe_offset", e.SafeOffset}, {"safe_leader_epoch", int64(e.SafeEpoch)}}
		return p
	}),
	as("replication.UnknownPartitionError", func(e *replication.UnknownPartitionError, at place) *problem {
		has := fmt.Sprintf("its partitions are 0 to %d", e.Count-1)
		if e.Count == 1 {
			has = "its only one is 0"
		}
		return newProblem(codeUnknownPartition, fmt.Sprintf("The topic %s has no partition %d; %s.", shown(e.Topic), e.Partition, has),
			"See the partitions there are: curl "+at.topicURL(e.Topic)+"/partitions")
	}),
	as("replication.NotLeaderError", func(e *replication.NotLeaderError, at place) *problem {
		p := newProblem(codeNoLeader, fmt.Sprintf("Partition %s-%d has no leader that this broker can reach.", e.Topic, e.Partition),
			fmt.Sprintf("Send the same request again after a pause. See the leader: curl %s/partitions/%d", at.topicURL(e.Topic), e.Partition))
		p.kafka = "NOT_LEADER_OR_FOLLOWER"
		return p
	}),
	as("replication.NotConfirmedError", func(e *replication.NotConfirmedError, at place) *problem {
		p := newProblem(codeShuttingDown, fmt.Sprintf("The leader of partition %s-%d has lost touch with the cluster and can't vouch for still being the leader.", e.Topic, e.Partition),
			fmt.Sprintf("Send the same request again after a pause; if outcome is unknown, only with ids or a producer. See the leader: curl %s/partitions/%d", at.topicURL(e.Topic), e.Partition))
		p.kafka = "NOT_LEADER_OR_FOLLOWER"
		return p
	}),
	as("replication.OffsetNotAvailableError", func(e *replication.OffsetNotAvailableError, at place) *problem {
		p := newProblem(codeNoLeader, fmt.Sprintf("The leader of partition %s-%d is new and doesn't know yet where the readable records end.", e.Topic, e.Partition),
			fmt.Sprintf("Send the same request again after a pause. See the leader: curl %s/partitions/%d", at.topicURL(e.Topic), e.Partition))
		p.kafka = "OFFSET_NOT_AVAILABLE"
		return p
	}),
	as("replication.LeaderLostError", func(e *replication.LeaderLostError, at place) *problem {
		p := newProblem(codeTimedOut, fmt.Sprintf("Broker %d, the leader of partition %s-%d, was lost before it answered. The records may be in the log.", e.Leader, e.Topic, e.Partition),
			fmt.Sprintf("Sending it again may store it twice, so read the end of the partition first: curl '%s/partitions/%d/records?offset=-1'", at.topicURL(e.Topic), e.Partition))
		p.unknown = true
		return p
	}),
	as("replication.NotEnoughReplicasError", func(e *replication.NotEnoughReplicasError, at place) *problem {
		c := codeNotEnoughReplicas
		if e.Appended {
			c = codeNotEnoughAfter
		}
		p := newProblem(c, fmt.Sprintf("Partition %s-%d has %d in-sync replicas; min.insync.replicas is %d.", e.Topic, e.Partition, e.InSync, e.Min),
			fmt.Sprintf("Send it again after a follower has caught up: curl %s/partitions/%d", at.topicURL(e.Topic), e.Partition))
		p.unknown = e.Appended
		return p
	}),
	as("replication.UnknownMessageError", sayUnknownMessage),
	as("replication.NotCompactedError", func(e *replication.NotCompactedError, at place) *problem {
		return newProblem(codeUnprocessable, "The topic "+shown(e.Topic)+" isn't compacted.",
			fmt.Sprintf(`Have it be: curl -X PATCH %s --json '{"configs":{"cleanup.policy":"compact"}}'`, at.topicURL(e.Topic)))
	}),
	as("replication.UnexpectedOffsetError", func(e *replication.UnexpectedOffsetError, at place) *problem {
		p := newProblem(codeUnexpectedOffset, fmt.Sprintf("The log of %s-%d ends at %d, not at %d. Nothing was appended.", e.Topic, e.Partition, e.Actual, e.Expected),
			fmt.Sprintf("Read what came in between: curl '%s/partitions/%d/records?offset=%d'", at.topicURL(e.Topic), e.Partition, e.Expected))
		p.members = []member{{"expected_offset", e.Expected}, {"log_end_offset", e.Actual}}
		return p
	}),
	as("replication.RecordTooLargeError", func(e *replication.RecordTooLargeError, at place) *problem {
		return newProblem(codeRecordTooLarge, fmt.Sprintf("A record has %d bytes of key, value and headers; max.message.bytes of topic %s is %d.", e.Size, shown(e.Topic), e.Most),
			fmt.Sprintf(`Raise it: curl -X PATCH %s --json '{"configs":{"max.message.bytes":"%d"}}'`, at.topicURL(e.Topic), e.Size))
	}),
	{"replication.ErrTimeout", func(err error, _ place) *problem {
		if !errors.Is(err, replication.ErrTimeout) && !errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		p := newProblem(codeTimedOut, "The acknowledgement did not come in time. The records may be in the log.",
			"Sending it again may store it twice, so read the end of the partition first; timeout_ms gives more time.")
		p.unknown = true
		return p
	}},
	is("replication.ErrShuttingDown", replication.ErrShuttingDown, codeShuttingDown,
		"This broker is shutting down.", "Send the same request to another broker, or to this one after its restart."),

	{"group.ErrNoCoordinator", func(err error, _ place) *problem {
		if !errors.Is(err, group.ErrNoCoordinator) {
			return nil
		}
		return noCoordinator("Nobody coordinates this group right now: its coordinator was lost, or is new and still learns what there is. Nothing was done.", "Send the same request again after a pause.")
	}},
	{"group.ErrPollOver", func(err error, _ place) *problem {
		if !errors.Is(err, group.ErrPollOver) {
			return nil
		}
		return noCoordinator("This poll was given up: the group's coordinator had not heard of it for too long. It has delivered nothing.", "Poll again.")
	}},
	as("group.UnknownInstanceError", func(e *group.UnknownInstanceError, at place) *problem {
		detail := "never existed in group " + shown(e.Group) + "."
		switch {
		case e.Expired > 0:
			detail = fmt.Sprintf("of group %s expired after %d ms without a request.", shown(e.Group), e.Expired.Milliseconds())
		case e.Left:
			detail = "of group " + shown(e.Group) + " was deleted."
		}
		fix := fmt.Sprintf(`Make it: curl %s/consumers/%s --json '{"name":"%s"}' — it begins at the group's committed offsets.`, at.base, e.Group, plainInstance(e.Instance))
		if at.joins {
			fix = fmt.Sprintf(`Fetch, which joins: curl '%s/consumers/%s/records?topics=…&member=%s' — it begins at the group's committed offsets. What it had before and didn't commit comes again, to it or to another member.`, at.base, e.Group, plainInstance(e.Instance))
		}
		return newProblem(codeUnknownInstance, "The consumer instance "+shown(e.Instance)+" "+detail, fix)
	}),
	as("group.UnknownGroupError", func(e *group.UnknownGroupError, at place) *problem {
		p := newProblem(codeNotFound, "There is no consumer group "+shown(e.Group)+": nobody has joined it or committed for it.", "See the groups there are: curl "+at.base+"/consumers")
		p.kafka = "GROUP_ID_NOT_FOUND"
		return p
	}),
	as("group.NameTakenError", func(e *group.NameTakenError, at place) *problem {
		return newProblem(codeNameTaken, "A consumer instance "+shown(e.Name)+" lives in group "+shown(e.Group)+".",
			fmt.Sprintf("Choose another name, or take it over: curl -X PUT %s/consumers/%s/instances/%s", at.base, e.Group, plainInstance(e.Name)))
	}),
	as("group.MixedError", func(e *group.MixedError, at place) *problem {
		return newProblem(codeMixed, "The instance "+shown(e.Instance)+" has a subscription or assignments already, and can't have both.",
			fmt.Sprintf(`End the one first: curl -X DELETE %s/consumers/%s/instances/%s/subscription, or POST {"partitions":[]} to …/assignments.`, at.base, e.Group, e.Instance))
	}),
	as("group.NotSubscribedError", func(e *group.NotSubscribedError, at place) *problem {
		return newProblem(codeUnprocessable, "The instance "+shown(e.Instance)+" has neither a subscription nor assignments: there is nothing to read.",
			fmt.Sprintf(`Subscribe first: curl %s/consumers/%s/instances/%s/subscription --json '{"topics":["…"]}'`, at.base, e.Group, e.Instance))
	}),
	as("group.FencedError", func(e *group.FencedError, at place) *problem {
		p := newProblem(codeFenced, fmt.Sprintf("The instance %s was taken over by %s. Nothing was changed.", shown(e.Instance), shown(e.Newest)),
			"Stop this worker, or take the name over again with PUT.")
		if e.Partition != nil {
			p = newProblem(codeFenced, fmt.Sprintf("The instance %s doesn't have partition %s-%d in generation %d of the group: it belongs to another member, or to nobody yet. Nothing was changed.", shown(e.Instance), e.Partition.Topic, e.Partition.Partition, e.Generation),
				"Drop what was read of it and poll again; whoever has the partition now has read the same records.")
			p.members = []member{{"partition", int64(e.Partition.Partition)}}
		}
		p.members = append(p.members, member{"generation", int64(e.Generation)})
		return p
	}),
	as("group.PollRunningError", func(e *group.PollRunningError, _ place) *problem {
		return newProblem(codePollRunning, "Another poll of "+shown(e.Instance)+" is under way.", "One poll at a time: wait for its answer. Workers that poll side by side need names of their own.")
	}),
	as("group.PositionsLostError", func(e *group.PositionsLostError, _ place) *problem {
		return newProblem(codeFenced, "What "+shown(e.Instance)+" was delivered last isn't known: the group's coordinator changed, or this commit comes after a later answer. Nothing was committed.",
			"Commit with offsets in the body, or poll again: the records after the last commit come once more.")
	}),
	as("group.UnassignedError", func(e *group.UnassignedError, _ place) *problem {
		p := newProblem(codeUnknownPartition, fmt.Sprintf("Partition %s-%d isn't assigned to the instance %s.", e.Partition.Topic, e.Partition.Partition, shown(e.Instance)),
			"See what is: GET …/assignments.")
		if e.Pending {
			p.detail += " Its assignment is pending: it gets partitions when it polls."
			p.fix = "Poll first (GET …/records?timeout=0), then seek."
		}
		return p
	}),
	as("group.ActiveError", func(e *group.ActiveError, at place) *problem {
		return newProblem(codeGroupActive, fmt.Sprintf("Group %s has %d active members.", shown(e.Group), e.Members),
			fmt.Sprintf("See them: curl %[1]s/consumers/%[2]s — then stop them and wait until they have expired, or end each: curl -X DELETE %[1]s/consumers/%[2]s/instances/{instance_id}", at.base, e.Group))
	}),
	as("group.TooManyError", func(e *group.TooManyError, _ place) *problem {
		return newProblem(codeQuota, fmt.Sprintf("A group can't have more than %d %s.", e.Limit, e.What), "Share the work among several groups, or delete what is not needed.")
	}),
	as("group.RecordError", func(_ *group.RecordError, _ place) *problem {
		return newProblem(codeInternal, "What is stored of this group can't be read by this broker.", "Look at the coordinator's log; it may take a newer version.")
	}),
	as("group.InvalidError", func(e *group.InvalidError, _ place) *problem {
		return newProblem(codeUnprocessable, "No group can do that: "+e.Reason+".", "")
	}),

	as("storage.MessageReusedError", sayReused),
	as("storage.SequenceGapError", sayGap),
	as("storage.UnknownProducerError", sayUnknownProducer),
	as("storage.ProducerFencedError", sayProducerFenced),
	is("storage.ErrStale", storage.ErrStale, codeNoLeader,
		"The partition's log changed while the request was on its way to it; nothing was written.", "Send the same request again."),
	as("storage.OffsetOutOfRangeError", func(e *storage.OffsetOutOfRangeError, at place) *problem {
		c, detail := codeAboveLogEnd, fmt.Sprintf("Offset %d is above the end: the readable range is %d to %d.", e.Offset, e.Start, e.End)
		offset := e.End
		if e.Offset < e.Start {
			c, detail = codeBelowLogStart, fmt.Sprintf("Offset %d is below the log start: the readable range is %d to %d.", e.Offset, e.Start, e.End)
			offset = e.Start
		}
		partition := at.partition
		if partition == "" {
			partition = "0"
		}
		fix := fmt.Sprintf("Go on at %d: curl '%s/partitions/%s/records?offset=%d'", offset, at.topicURL(""), partition, offset)
		if at.method == http.MethodDelete {
			fix = fmt.Sprintf("Give at most %d, or high_watermark, as before_offset. See the offsets: curl %s/partitions/%s/offsets", e.End, at.topicURL(""), partition)
		}
		p := newProblem(c, detail, fix)
		p.members = []member{{"log_start_offset", e.Start}, {"high_watermark", e.End}}
		return p
	}),
	as("storage.CorruptError", func(_ *storage.CorruptError, _ place) *problem {
		return newProblem(codeStorageFault, "The stored bytes at this offset are damaged. Records before and after them can be read.",
			"Read on after the damaged range, and look at the broker's log for its extent.")
	}),
	as("storage.ReplicaBatchError", func(_ *storage.ReplicaBatchError, _ place) *problem {
		return newProblem(codeInternal, "A batch from another broker was refused.", "")
	}),
	as("storage.FailedError", func(_ *storage.FailedError, _ place) *problem {
		p := newProblem(codeStorageFault, "The broker's disk has failed; it stops.", "Send to another broker, or to this one after its restart.")
		p.unknown = true
		return p
	}),
	is("storage.ErrDiskNearlyFull", storage.ErrDiskNearlyFull, codeDiskNearlyFull,
		"The broker's disk is nearly full; nothing was written.", "Free space: shorten retention.ms, delete records or topics, then send again."),
	is("storage.ErrTooManyFiles", storage.ErrTooManyFiles, codeOverloaded,
		"The broker has no file descriptor left; nothing was written.", "Send the same request again after a pause, or raise the broker's descriptor limit."),
	is("storage.ErrBacklogged", storage.ErrBacklogged, codeOverloaded,
		"The partition's disk is so far behind that it takes nothing more right now; nothing was written.", "Send the same request again after a pause."),
	is("storage.ErrClosed", storage.ErrClosed, codeShuttingDown,
		"This broker is shutting down.", "Send the same request to another broker, or to this one after its restart."),
	is("storage.ErrBatchTooLarge", storage.ErrBatchTooLarge, codeRecordTooLarge,
		"The records for one partition are larger than a batch may be.", "Send them in several requests."),
	as("storage.LockedError", func(_ *storage.LockedError, _ place) *problem {
		return newProblem(codeInternal, "Another process holds the broker's data directory.", "")
	}),
	is("storage.ErrLocked", storage.ErrLocked, codeInternal, "The broker can't use its data directory.", ""),
	as("storage.IdentityError", func(_ *storage.IdentityError, _ place) *problem {
		return newProblem(codeInternal, "The broker's data directory belongs to another broker or cluster.", "")
	}),
	as("storage.FormatVersionError", func(_ *storage.FormatVersionError, _ place) *problem {
		return newProblem(codeInternal, "The broker's data directory is of a newer version than the broker.", "")
	}),
}

// explain finds the answer to err. What no mapping knows is an internal error
// whose text stays in the log.
func explain(err error, at place) *problem {
	for i := range mappings {
		if p := mappings[i].say(err, at); p != nil {
			return p
		}
	}
	p := newProblem(codeInternal, "The broker failed to do this. Its log has the cause under this request's X-Request-Id.", "If it stays so, report it with the request id.")
	p.unknown = true
	return p
}

// where tells explain what the request was about.
func (a *api) where(r *http.Request) place {
	at := place{method: r.Method, base: a.baseURL(r)}
	segments := splitPath(r)
	if len(segments) >= 2 && segments[0] == "topics" && validTopicName(segments[1]) {
		at.topic = segments[1]
	}
	if len(segments) >= 4 && segments[2] == "partitions" && validTopicName(segments[3]) {
		at.partition = segments[3]
	}
	at.keyed = r.Header["Idempotency-Key"] != nil
	at.producers = len(segments) == 1 && segments[0] == "producers"
	at.joins = len(segments) == 3 && segments[0] == "consumers"
	return at
}

func noCoordinator(detail, fix string) *problem {
	p := newProblem(codeNoLeader, detail, fix)
	p.kafka = "COORDINATOR_NOT_AVAILABLE"
	return p
}

// plainInstance is a member's name without the incarnation.
func plainInstance(instance string) string {
	name, _, _ := strings.Cut(instance, "~")
	return name
}
