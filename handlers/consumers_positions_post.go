package handlers

import (
	"context"
	"net/http"

	"highwater/replication"
	"highwater/replication/group"
)

// postPositions moves where an instance reads on.
//
//	@ID				seek
//	@Summary		Seek
//	@Description	Sets where the instance reads on in partitions that it has: at `offset`, or at the first record at or after `timestamp` (milliseconds, RFC 3339, or back from now like -15m; the end when there is none). It moves no committed offset. All or nothing: when one of them is not its, is below the log start (410) or above the end (416), none has moved.
//	@Tags			consumers
//	@Param			group		path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Param			instance	path	string	true	"Instance"	minlength(1)	maxlength(275)	example(c1)
//	@Param			body		body	schema.SeekRequest	true	"Where to go on."
//	@Success		204	"Moved."
//	@x-media-request	{"application/json":"SeekRequest","application/vnd.kafka.v2+json":"SeekRequest"}
//	@x-errors		[40401,40402,40403,40906,40907,41001,41301,41501,41601,42201,50001,50302,50303,50701]
//	@Router			/consumers/{group}/instances/{instance}/positions [post]
func (a *api) postPositions(w http.ResponseWriter, r *http.Request) error {
	name, instance, err := groupInstance(r)
	if err != nil {
		return err
	}
	if err := queryParams(r).err(); err != nil {
		return err
	}
	body, err := a.controlBody(w, r, false, "offsets")
	if err != nil {
		return err
	}
	entries := body.entries("offsets", entryPlace)
	if err := body.err(); err != nil {
		return err
	}
	ctx, cancel := a.groupContext(r)
	defer cancel()
	list, err := a.partitionsOf(ctx, entries)
	if err != nil {
		return a.orOfInstance(ctx, name, instance, err)
	}
	return a.seek(ctx, w, name, instance, list, func(i int) (group.Position, error) { return a.seekPlace(ctx, list[i], &entries[i]) })
}

// seekPlace is where one entry wants to read on.
func (a *api) seekPlace(ctx context.Context, tp group.TopicPartition, e *entry) (group.Position, error) {
	to := group.Position{TopicPartition: tp, Offset: e.offset, LeaderEpoch: -1}
	if e.timestamp != nil {
		o, err := a.cfg.Broker.Offsets(ctx, tp.Topic, tp.Partition, e.timestamp)
		if err != nil {
			return to, err
		}
		if to.Offset = o.End; o.TimestampFound {
			to.Offset = o.ForTimestamp
		}
	}
	epoch, outside, err := a.place(ctx, tp, to.Offset)
	switch {
	case err != nil:
		return to, err
	case outside != nil && e.timestamp == nil:
		return to, outsideError(e, outside)
	}
	to.LeaderEpoch = epoch
	return to, nil
}

// seek finds the places and has the instance go there.
func (a *api) seek(ctx context.Context, w http.ResponseWriter, name, instance string, list []group.TopicPartition, where func(i int) (group.Position, error)) error {
	seek := &group.Seek{Instance: instance, To: make([]group.Position, len(list))}
	err := eachOf(len(list), func(i int) (err error) {
		seek.To[i], err = where(i)
		return err
	})
	if err != nil {
		return a.orOfInstance(ctx, name, instance, err)
	}
	if _, err := a.askGroup(ctx, &group.Call{Group: name, Seek: seek}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// postBeginning moves an instance to the beginning of partitions.
//
//	@ID				seekToBeginning
//	@Summary		Seek to the beginning
//	@Description	Of these partitions, or without a body of all that the instance has. As a seek, all or nothing.
//	@Tags			consumers
//	@Param			group		path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Param			instance	path	string	true	"Instance"	minlength(1)	maxlength(275)	example(c1)
//	@Param			body		body	schema.Assignments	false	"The partitions; none: all that it has."
//	@Success		204	"Moved."
//	@x-media-request	{"application/json":"Assignments","application/vnd.kafka.v2+json":"Assignments"}
//	@x-errors		[40401,40402,40403,40906,40907,41301,41501,42201,50001,50302,50303,50701]
//	@Router			/consumers/{group}/instances/{instance}/positions/beginning [post]
func (a *api) postBeginning(w http.ResponseWriter, r *http.Request) error {
	return a.seekToEdge(w, r, func(o *replication.Offsets) int64 { return o.Beginning })
}

// postEnd moves an instance to the end of partitions.
//
//	@ID				seekToEnd
//	@Summary		Seek to the end
//	@Description	Of these partitions, or without a body of all that the instance has: it reads what comes from now on. As a seek, all or nothing.
//	@Tags			consumers
//	@Param			group		path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Param			instance	path	string	true	"Instance"	minlength(1)	maxlength(275)	example(c1)
//	@Param			body		body	schema.Assignments	false	"The partitions; none: all that it has."
//	@Success		204	"Moved."
//	@x-media-request	{"application/json":"Assignments","application/vnd.kafka.v2+json":"Assignments"}
//	@x-errors		[40401,40402,40403,40906,40907,41301,41501,42201,50001,50302,50303,50701]
//	@Router			/consumers/{group}/instances/{instance}/positions/end [post]
func (a *api) postEnd(w http.ResponseWriter, r *http.Request) error {
	return a.seekToEdge(w, r, func(o *replication.Offsets) int64 { return o.End })
}

// seekToEdge moves the partitions of the body, or all, to one of their ends.
func (a *api) seekToEdge(w http.ResponseWriter, r *http.Request, edge func(o *replication.Offsets) int64) error {
	name, instance, err := groupInstance(r)
	if err != nil {
		return err
	}
	if err := queryParams(r).err(); err != nil {
		return err
	}
	body, err := a.controlBody(w, r, true, "partitions")
	if err != nil {
		return err
	}
	ctx, cancel := a.groupContext(r)
	defer cancel()
	var list []group.TopicPartition
	if body.absent {
		m, err := a.member(ctx, name, instance)
		if err != nil {
			return err
		}
		list = m.Assignments
	} else {
		entries := body.entries("partitions", entryNames)
		if err := body.err(); err != nil {
			return err
		}
		if list, err = a.partitionsOf(ctx, entries); err != nil {
			return a.orOfInstance(ctx, name, instance, err)
		}
	}
	return a.seek(ctx, w, name, instance, list, func(i int) (group.Position, error) {
		to := group.Position{TopicPartition: list[i], LeaderEpoch: -1}
		o, err := a.cfg.Broker.Offsets(ctx, to.Topic, to.Partition, nil)
		if err != nil {
			return to, err
		}
		to.Offset = edge(&o)
		to.LeaderEpoch, _, err = a.place(ctx, to.TopicPartition, to.Offset)
		return to, err
	})
}
