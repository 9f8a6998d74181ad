package handlers

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"highwater/replication/group"
)

// maxSubscribedTopics bounds a subscription's record.
const maxSubscribedTopics = 1000

// postSubscription replaces an instance's subscription.
//
//	@ID				subscribe
//	@Summary		Subscribe an instance
//	@Description	The group shares the partitions of these topics among those who subscribe to them. It replaces the subscription before. Topics that are not there yet, or get partitions, are taken up as soon as they are; an empty list ends the subscription. An instance with assignments of its own is 409.
//	@Tags			consumers
//	@Param			group		path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Param			instance	path	string	true	"Instance"	minlength(1)	maxlength(275)	example(c1)
//	@Param			body		body	schema.Subscribe	true	"Topics, or a pattern."
//	@Success		204	"Subscribed."
//	@x-media-request	{"application/json":"Subscribe","application/vnd.kafka.v2+json":"Subscribe"}
//	@x-errors		[40403,40903,40906,41301,41501,42201,42901,50302,50303,50304,50305,50401,50701]
//	@Router			/consumers/{group}/instances/{instance}/subscription [post]
func (a *api) postSubscription(w http.ResponseWriter, r *http.Request) error {
	name, instance, err := groupInstance(r)
	if err != nil {
		return err
	}
	if err := queryParams(r).err(); err != nil {
		return err
	}
	body, err := a.controlBody(w, r, false, "topics", "topic_pattern")
	if err != nil {
		return err
	}
	s := &group.Subscribe{Instance: instance}
	topics, pattern := body.value("topics"), body.value("topic_pattern")
	switch {
	case topics == nil && pattern == nil:
		body.faultf("", `Neither topics nor topic_pattern is there: {"topics":["orders"]}, or {"topic_pattern":"order.*"}.`)
	case topics != nil && pattern != nil:
		body.faultf("/topic_pattern", "topics and topic_pattern exclude each other; give one of them.")
	case topics != nil:
		s.Topics = body.topicList("topics")
	default:
		s.Pattern = body.text("topic_pattern")
		if fault := patternFault(s.Pattern); fault != "" && len(body.faults) == 0 {
			body.faultf("/topic_pattern", "%s", fault)
		}
	}
	if err := body.err(); err != nil {
		return err
	}
	return a.done(w, r, &group.Call{Group: name, Subscribe: s})
}

// patternFault says why a pattern is none, "" when it is one.
func patternFault(pattern string) string {
	if pattern == "" {
		return "It is empty."
	}
	var invalid *group.InvalidError
	if errors.As(group.CheckPattern(pattern), &invalid) {
		return "It is no pattern: " + shownBare(invalid.Reason) + "."
	}
	return ""
}

// topicList is a list of topic names, each counted once.
func (c *controlBody) topicList(name string) []string {
	var out []string
	for i, v := range c.list(name) {
		at := "/" + name + "/" + strconv.Itoa(i)
		if v.Kind() != '"' {
			c.faultf(at, "It is %s, and must be a topic's name.", kindName(v.Kind()))
			continue
		}
		topic := unquoted(v)
		if !validTopicName(topic) {
			c.faultf(at, "%s can't be a topic's name.", shown(topic))
			continue
		}
		if !slices.Contains(out, topic) {
			out = append(out, topic)
		}
	}
	if len(out) > maxSubscribedTopics {
		c.faultf("/"+name, "These are more than %d topics; a topic_pattern may do.", maxSubscribedTopics)
	}
	return out
}

// list is the elements of a member that must be an array.
func (c *controlBody) list(name string) []jsontext.Value {
	v := c.value(name)
	if v == nil || v.Kind() != '[' {
		kind := "missing"
		if v != nil {
			kind = kindName(v.Kind())
		}
		c.faultf("/"+name, "It is %s, and must be an array.", kind)
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	if _, err := dec.ReadToken(); err != nil {
		panic(err) // it was found valid
	}
	var out []jsontext.Value
	for dec.PeekKind() != ']' {
		element, err := dec.ReadValue()
		if err != nil {
			panic(err) // it was found valid
		}
		out = append(out, element.Clone())
	}
	return out
}
