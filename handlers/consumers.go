package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"highwater/replication/group"
)

// groupWait bounds what is asked of a group's coordinator, a new one being elected
// meanwhile included; with nobody to answer by then it is 50302.
const groupWait = 10 * time.Second

// CommitMeaning says what the member offset of a commit is.
type CommitMeaning bool

const (
	// CommitNext: the offset of the next record to read, as in Kafka.
	CommitNext CommitMeaning = false
	// CommitLast: the offset of the last record that was processed, as in
	// Confluent's REST proxy; the broker adds one.
	CommitLast CommitMeaning = true
)

// consumerRoutes are the routes of consumer groups.
func (a *api) consumerRoutes() []route {
	const (
		one      = "/consumers/{group}"
		instance = one + "/instances/{instance}"
	)
	return []route{
		{method: http.MethodGet, pattern: "/consumers", handle: a.listGroups},
		{method: http.MethodGet, pattern: one, handle: a.getGroup},
		{method: http.MethodPost, pattern: one, handle: a.postConsumer, writes: true},
		{method: http.MethodDelete, pattern: one, handle: a.deleteGroup, writes: true},
		{method: http.MethodGet, pattern: one + "/records", handle: a.consume},
		{method: http.MethodGet, pattern: one + "/offsets", handle: a.getGroupOffsets},
		{method: http.MethodPost, pattern: one + "/offsets", handle: a.postGroupOffsets, writes: true, frequent: true},
		{method: http.MethodPut, pattern: one + "/offsets", handle: a.putGroupOffsets, writes: true},

		{method: http.MethodPut, pattern: instance, handle: a.putConsumer, writes: true},
		{method: http.MethodDelete, pattern: instance, handle: a.deleteConsumer, writes: true},
		{method: http.MethodGet, pattern: instance + "/subscription", handle: a.getSubscription},
		{method: http.MethodPost, pattern: instance + "/subscription", handle: a.postSubscription, writes: true},
		{method: http.MethodDelete, pattern: instance + "/subscription", handle: a.deleteSubscription, writes: true},
		{method: http.MethodGet, pattern: instance + "/assignments", handle: a.getAssignments},
		{method: http.MethodPost, pattern: instance + "/assignments", handle: a.postAssignments, writes: true},
		{method: http.MethodGet, pattern: instance + "/records", handle: a.getConsumerRecords},
		{method: http.MethodGet, pattern: instance + "/offsets", handle: a.getConsumerOffsets, readsBody: true},
		{method: http.MethodPost, pattern: instance + "/offsets", handle: a.postConsumerOffsets, writes: true, frequent: true},
		{method: http.MethodPost, pattern: instance + "/positions", handle: a.postPositions},
		{method: http.MethodPost, pattern: instance + "/positions/beginning", handle: a.postBeginning},
		{method: http.MethodPost, pattern: instance + "/positions/end", handle: a.postEnd},
	}
}

// maxGroupNameBytes bounds names of groups and instances.
const maxGroupNameBytes = 255

// validGroupName says whether name can be that of a group or a member: it stands in
// paths, log lines and keys.
func validGroupName(name string) bool {
	return name != "" && len(name) <= maxGroupNameBytes && name != "." && name != ".." && !strings.Contains(name, "~") && isUnreserved(name)
}

func isUnreserved(name string) bool {
	for i := range len(name) {
		if !unreserved(name[i]) {
			return false
		}
	}
	return true
}

func badName(what, name string) *requestError {
	e := unprocessable("%s can't be used as the name of %s.", shown(name), what)
	e.fix = "Choose a name of 1 to 255 of a-z A-Z 0-9 . _ - that isn't . or .. for it."
	return e
}

// groupName is the path's {group}, checked.
func groupName(r *http.Request) (string, error) {
	name := pathSegment(r, "group")
	if !validGroupName(name) {
		return "", badName("a group", name)
	}
	return name, nil
}

// groupInstance reads {group} and {instance}. An instance is a member's name, or one
// of its incarnations (c1~2).
func groupInstance(r *http.Request) (name, instance string, err error) {
	if name, err = groupName(r); err != nil {
		return "", "", err
	}
	instance = pathSegment(r, "instance")
	plain, _, _ := strings.Cut(instance, "~")
	if !validGroupName(plain) || !isUnreserved(instance) {
		return "", "", badName("a consumer instance", instance)
	}
	return name, instance, nil
}

// groupContext is that of a call to a coordinator. What changes something is not
// ended by the client's leaving.
func (a *api) groupContext(r *http.Request) (context.Context, context.CancelFunc) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return context.WithTimeout(r.Context(), groupWait)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), groupWait)
	stop := context.AfterFunc(a.cfg.LastCall, cancel)
	return ctx, func() { stop(); cancel() }
}

// askGroup has the group's coordinator do a call.
func (a *api) askGroup(ctx context.Context, call *group.Call) (*group.Answer, error) {
	call.ID = uuid.New()
	answer, err := a.cfg.Groups.Do(ctx, call)
	return answer, groupError(ctx, err)
}

// groupError: time that ran out without an answer is said as what it means.
func groupError(ctx context.Context, err error) error {
	switch {
	case err == nil, errors.Is(err, group.ErrUnknownOutcome), errors.Is(err, group.ErrNoCoordinator):
		return err
	case ctx.Err() != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		return group.ErrUnknownOutcome
	}
	return err
}

// done does a call whose answer has no content.
func (a *api) done(w http.ResponseWriter, r *http.Request, call *group.Call) error {
	ctx, cancel := a.groupContext(r)
	defer cancel()
	if _, err := a.askGroup(ctx, call); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// member asks what an instance is.
func (a *api) member(ctx context.Context, name, instance string) (*group.MemberInfo, error) {
	answer, err := a.askGroup(ctx, &group.Call{Group: name, Member: &group.MemberQuery{Instance: instance}})
	if err != nil {
		return nil, err
	}
	return answer.Member, nil
}

// answerDialect is answerJSON, labelled as the dialect when Accept names that.
func answerDialect(w http.ResponseWriter, r *http.Request, v any) error {
	if dialectType(r) != typeKafka {
		return answerJSON(w, r, http.StatusOK, v)
	}
	body, err := jsonBody(v)
	if err != nil {
		return err
	}
	w.Header()["Cache-Control"] = []string{"no-store"}
	return writeBody(w, r, typeKafka, body)
}

// jsonBody is v as an answer's body.
func jsonBody(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
