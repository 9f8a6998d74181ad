package group

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"time"

	"highwater/replication/controller"
)

// maxInstructions bounds a compiled pattern, and with it the time that a name takes.
const maxInstructions = 5_000

// CheckPattern tells whether topics can be subscribed to by this pattern, in RE2's
// syntax: nil or an *InvalidError.
func CheckPattern(pattern string) error {
	_, err := compile(pattern)
	return err
}

// compile makes a matcher for whole names. Errors: *InvalidError.
func compile(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > maxPattern {
		return nil, &InvalidError{Reason: fmt.Sprintf("a topic pattern has at most %d characters", maxPattern)}
	}
	// By itself first: "a)(b" is none, though it would be one between parentheses.
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, &InvalidError{Reason: "topic pattern: " + err.Error()}
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil || len(prog.Inst) > maxInstructions {
		return nil, &InvalidError{Reason: "the topic pattern is too complex"}
	}
	whole, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	if err != nil {
		return nil, &InvalidError{Reason: "topic pattern: " + err.Error()}
	}
	return whole, nil
}

func (v *memberValue) subscribed() bool { return v.pattern != "" || len(v.topics) > 0 }

func (v *memberValue) sameSubscription(w *memberValue) bool {
	return v.pattern == w.pattern && slices.Equal(v.topics, w.topics)
}

// subscription is what a call subscribes to, checked, in order and each topic once.
func subscription(names []string, pattern string) ([]string, error) {
	if len(names) > 0 && pattern != "" {
		return nil, &InvalidError{Reason: "a subscription has topics or a pattern, not both"}
	}
	if len(names) > maxTopics {
		return nil, &TooManyError{What: "topics in a subscription", Limit: maxTopics}
	}
	for _, name := range names {
		if err := controller.CheckTopicName(name); err != nil {
			return nil, err
		}
	}
	if pattern != "" {
		if err := CheckPattern(pattern); err != nil {
			return nil, err
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return slices.Compact(sorted), nil
}

func (s *state) subscribe(now time.Time, topics Topics, c *Subscribe) (*Answer, error) {
	m, err := s.request(now, c.Instance)
	if err != nil {
		return nil, err
	}
	if len(c.Topics) == 0 && c.Pattern == "" {
		s.unsubscribe(topics, m)
		return &Answer{}, nil
	}
	if err := s.subscribeTo(topics, m, c.Topics, c.Pattern); err != nil {
		return nil, err
	}
	s.reconcile(topics)
	s.tell(m)
	return &Answer{}, nil
}

// subscribeTo gives a member a subscription. What it owns beyond that it gives back
// with its next poll. Errors: *MixedError, *InvalidError, *TooManyError.
func (s *state) subscribeTo(topics Topics, m *member, names []string, pattern string) error {
	sorted, err := subscription(names, pattern)
	if err != nil {
		return err
	}
	if len(m.v.assigned) > 0 && !m.v.inherited {
		return &MixedError{Group: s.group, Instance: m.instance()}
	}
	v := *m.v
	v.index, v.inherited = topics.Index(), false
	v.topics, v.pattern, v.assigned = sorted, pattern, nil
	if m.v.sameSubscription(&v) && len(m.v.assigned) == 0 && !m.v.inherited {
		return nil
	}
	n := 0
	for _, t := range matching(topics, &v) {
		n += int(t.Partitions)
	}
	if n > maxPartitions {
		return &TooManyError{What: "partitions in a subscription", Limit: maxPartitions}
	}
	s.putMember(m.name, &v)
	return nil
}

// unsubscribe ends subscription and assignments: the member reads nothing more, and
// what it owned is free.
func (s *state) unsubscribe(topics Topics, m *member) {
	if !m.v.subscribed() && len(m.v.assigned) == 0 && !m.v.inherited {
		return
	}
	v := *m.v
	v.index, v.inherited = topics.Index(), false
	v.topics, v.pattern, v.assigned, v.owned = nil, "", nil, nil
	s.putMember(m.name, &v)
	m.change()
}

func (s *state) assign(now time.Time, topics Topics, c *Assign) (*Answer, error) {
	m, err := s.request(now, c.Instance)
	if err != nil {
		return nil, err
	}
	if m.v.subscribed() && !m.v.inherited {
		return nil, &MixedError{Group: s.group, Instance: m.instance()}
	}
	if len(c.Partitions) > maxPartitions {
		return nil, &TooManyError{What: "partitions in an assignment", Limit: maxPartitions}
	}
	var parts []part
	for _, tp := range c.Partitions {
		if tp.Partition < 0 {
			return nil, &InvalidError{Reason: "a partition is below 0"}
		}
		parts = append(parts, part{topic: tp.TopicID, partition: tp.Partition})
	}
	slices.SortFunc(parts, part.compare)
	parts = slices.Compact(parts)
	if slices.Equal(parts, m.v.assigned) && !m.v.inherited {
		return &Answer{}, nil
	}
	v := *m.v
	v.index, v.inherited = topics.Index(), false
	v.topics, v.pattern, v.assigned, v.owned = nil, "", parts, nil
	s.putMember(m.name, &v)
	m.change()
	return &Answer{}, nil
}

// matching lists the topics that there are of a member's subscription.
func matching(topics Topics, v *memberValue) []TopicInfo {
	var all []TopicInfo
	for _, name := range v.topics {
		if t, ok := topics.Topic(name); ok {
			all = append(all, t)
		}
	}
	if v.pattern == "" {
		return all
	}
	re, err := compile(v.pattern)
	if err != nil {
		return nil // it was checked; a later version may be stricter
	}
	for t := range topics.All() {
		if re.MatchString(t.Name) {
			all = append(all, t)
		}
	}
	return all
}
