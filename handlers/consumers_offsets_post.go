package handlers

import (
	"context"
	"math"
	"net/http"

	"highwater/replication/group"
)

// postConsumerOffsets commits.
//
//	@ID				commit
//	@Summary		Commit offsets
//	@Description	Without a body: all that the instance's answers have delivered. With one: `offset` is the next offset to read (with --commit-offset-meaning=last-processed the last one that was processed), `next_offset` always the next one. It is answered when a majority that survives has it. All or nothing: an offset above the high watermark is 416, a partition that the instance doesn't have is 409, and then nothing is changed. A commit may go back.
//	@Description	The instance itself goes on from its position, whatever it commits; the commit is where the next owner begins.
//	@Tags			consumers
//	@Param			group		path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Param			instance	path	string	true	"Instance"	minlength(1)	maxlength(275)	example(c1)
//	@Param			body		body	schema.CommitRequest	false	"Offsets; none: all that was delivered."
//	@Success		204	"Committed."
//	@x-media-request	{"application/json":"CommitRequest","application/vnd.kafka.v2+json":"CommitRequest"}
//	@x-errors		[40401,40402,40403,40906,40907,41301,41501,41601,42201,50001,50302,50303,50304,50305,50401,50701]
//	@Router			/consumers/{group}/instances/{instance}/offsets [post]
func (a *api) postConsumerOffsets(w http.ResponseWriter, r *http.Request) error {
	name, instance, err := groupInstance(r)
	if err != nil {
		return err
	}
	if err := queryParams(r).err(); err != nil {
		return err
	}
	return a.commit(w, r, name, instance)
}

// commit has an instance commit what the body says.
func (a *api) commit(w http.ResponseWriter, r *http.Request, name, instance string) error {
	body, err := a.controlBody(w, r, true, "offsets")
	if err != nil {
		return err
	}
	commit := &group.Commit{Instance: instance, All: body.absent}
	ctx, cancel := a.groupContext(r)
	defer cancel()
	if !commit.All {
		entries := body.entries("offsets", entryOffset)
		if a.cfg.CommitMeaning == CommitLast {
			body.countOn(entries)
		}
		if err := body.err(); err != nil {
			return err
		}
		if commit.Offsets, err = a.commitOffsets(ctx, entries); err != nil {
			return a.orOfInstance(ctx, name, instance, err)
		}
	} else if commit.Answered, err = a.lastAnswer(ctx, name, instance); err != nil {
		return err
	}
	if _, err := a.askGroup(ctx, &group.Call{Group: name, Commit: commit}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// lastAnswer is the answer for which a commit without a body stands. Asked for first,
// it keeps a commit that is held up on its way from committing what came later.
func (a *api) lastAnswer(ctx context.Context, name, instance string) (*uint64, error) {
	answer, err := a.askGroup(ctx, &group.Call{Group: name, Member: &group.MemberQuery{Instance: instance, Answered: true}})
	if err != nil {
		return nil, err
	}
	return &answer.Member.Answered, nil
}

// countOn makes offsets of processed records those of the next ones.
func (c *controlBody) countOn(entries []entry) {
	for i := range entries {
		switch e := &entries[i]; {
		case e.asNext:
		case e.offset == math.MaxInt64:
			c.faultf(e.at+"/offset", "There is no offset after it.")
		default:
			e.offset++
		}
	}
}

// commitOffsets makes sure that each offset may be committed: none is above its high
// watermark. Below the log start it may be; there is nothing there to be skipped.
func (a *api) commitOffsets(ctx context.Context, entries []entry) ([]group.CommitOffset, error) {
	list, err := a.partitionsOf(ctx, entries)
	if err != nil {
		return nil, err
	}
	out := make([]group.CommitOffset, len(list))
	return out, eachOf(len(list), func(i int) error {
		e := &entries[i]
		epoch, outside, err := a.place(ctx, list[i], e.offset)
		switch {
		case err != nil:
			return err
		case outside != nil && outside.Offset > outside.End:
			return outsideError(e, outside)
		}
		out[i] = group.CommitOffset{Position: group.Position{TopicPartition: list[i], Offset: e.offset, LeaderEpoch: epoch}, Metadata: e.metadata}
		return nil
	})
}
