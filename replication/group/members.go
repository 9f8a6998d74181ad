package group

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CheckName tells whether a group or an instance may have this name: nil or an
// *InvalidError.
func CheckName(name string) error {
	if name == "" || len(name) > maxName {
		return &InvalidError{Reason: fmt.Sprintf("a name has 1 to %d characters", maxName)}
	}
	if name == "." || name == ".." {
		return &InvalidError{Reason: `a name may not be "." or ".."`}
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return &InvalidError{Reason: "a name has only a-z, A-Z, 0-9, '.', '_' and '-'"}
		}
	}
	return nil
}

// An instance is a name, for the newest incarnation whichever it is, or one
// incarnation of it: c1~2.
func instanceOf(name string, incarnation int32) string {
	return name + "~" + strconv.Itoa(int(incarnation))
}

// parseInstance gives the name and the incarnation, 0: the newest.
func parseInstance(instance string) (name string, incarnation int32, ok bool) {
	name, number, numbered := strings.Cut(instance, "~")
	if !numbered {
		return name, 0, true
	}
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != number {
		return "", 0, false
	}
	return name, int32(n), true
}

// instance is the member's id, as it was told.
func (m *member) instance() string {
	if m.v.numbered {
		return instanceOf(m.name, m.v.incarnation)
	}
	return m.name
}

func (s *state) byName() []*member {
	all := make([]*member, 0, len(s.members))
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		all = append(all, s.members[name])
	}
	return all
}

// lookup finds a living member. Errors: *UnknownInstanceError, *FencedError.
func (s *state) lookup(instance string) (*member, error) {
	name, incarnation, ok := parseInstance(instance)
	unknown := &UnknownInstanceError{Group: s.group, Instance: instance}
	if !ok {
		return nil, unknown
	}
	m, gone := s.members[name], s.gone[name]
	newest := int32(0)
	switch {
	case m != nil:
		newest = m.v.incarnation
	case gone != nil:
		newest = gone.incarnation
	}
	if s.mutation.has(noIncarnation) && m != nil {
		return m, nil
	}
	switch {
	case incarnation > newest:
		return nil, unknown
	case incarnation > 0 && incarnation < newest:
		return nil, &FencedError{Group: s.group, Instance: instance, Generation: s.generation(), Newest: instanceOf(name, newest)}
	case m != nil:
		return m, nil
	case gone != nil:
		unknown.Left = gone.status == left
		unknown.Expired = gone.silent
	}
	return nil, unknown
}

// request finds the member whose request came: a sign of life.
func (s *state) request(now time.Time, instance string) (*member, error) {
	m, err := s.lookup(instance)
	if err == nil {
		m.heard = now
	}
	return m, err
}

func (s *state) create(now time.Time, topics Topics, call *Call) (*Answer, error) {
	name := call.Create.Name
	if name == "" {
		name = madeUp(call)
	}
	m, err := s.newMember(now, topics, call, name, call.Create.Options, call.Create.TakeOver)
	if err != nil {
		return nil, err
	}
	return &Answer{Instance: m.instance()}, nil
}

// madeUp is the name of a member that was given none: the same for the same call.
func madeUp(call *Call) string { return "consumer-" + call.ID.String() }

// newMember makes a member, or the next incarnation of one. Errors: *InvalidError,
// *NameTakenError, *TooManyError.
func (s *state) newMember(now time.Time, topics Topics, call *Call, name string, options Options, takeOver bool) (*member, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := options.check(); err != nil {
		return nil, err
	}
	v := &memberValue{incarnation: 1, numbered: takeOver, call: call.ID, index: topics.Index(), options: options}
	if s.meta != nil {
		v.incarnation = s.meta.floor + 1
	}
	m, gone := s.members[name], s.gone[name]
	switch {
	case m != nil && m.v.call == call.ID:
		return m, nil
	case m != nil && !takeOver:
		return nil, &NameTakenError{Group: s.group, Name: name}
	case m != nil:
		v.incarnation = m.v.incarnation + 1
		s.inherit(v, m.v)
	case len(s.members) >= maxMembers:
		return nil, &TooManyError{What: "members of a group", Limit: maxMembers}
	case gone != nil:
		v.incarnation = gone.incarnation + 1
	}
	s.found()
	s.putMember(name, v)
	m = s.members[name]
	m.heard = now
	s.expect(m)
	return m, nil
}

// inherit gives a new incarnation what the former one had (KIP-345): its partitions
// stay where they are, but what it committed for them no longer counts as theirs.
func (s *state) inherit(v, former *memberValue) {
	meta := *s.meta
	meta.generation++
	s.putMeta(&meta)
	v.inherited = true
	v.pattern, v.topics, v.assigned = former.pattern, former.topics, former.assigned
	v.owned = slices.Clone(former.owned)
	for i := range v.owned {
		v.owned[i].generation = meta.generation
	}
}

func (o *Options) check() error {
	switch {
	case !slices.Contains(resets[:], o.Reset):
		return &InvalidError{Reason: "reset is earliest, latest or none"}
	case o.SessionTimeout < time.Millisecond || o.RequestTimeout < 0 || o.MinBytes < 0 || o.MinBytes > 1<<30:
		return &InvalidError{Reason: "an option is out of range"}
	case len(o.Format) > maxName || len(o.Isolation) > maxName:
		return &InvalidError{Reason: "an option is too long"}
	}
	// As the record has them, so that they are the same after a load.
	o.RequestTimeout = o.RequestTimeout.Truncate(time.Millisecond)
	o.SessionTimeout = o.SessionTimeout.Truncate(time.Millisecond)
	return nil
}

func (s *state) leave(now time.Time, topics Topics, call *Call) (*Answer, error) {
	m, err := s.lookup(call.Leave.Instance)
	if err != nil {
		name, _, _ := parseInstance(call.Leave.Instance)
		if gone := s.gone[name]; gone != nil && gone.status == left && gone.call == call.ID {
			return &Answer{}, nil
		}
		return nil, err
	}
	s.bury(now, topics, m, &memberValue{status: left, call: call.ID})
	return &Answer{}, nil
}

// bury ends a member; what is remembered of it is completed here.
func (s *state) bury(now time.Time, topics Topics, m *member, v *memberValue) {
	v.incarnation, v.numbered, v.index = m.v.incarnation, m.v.numbered, topics.Index()
	v.at = now.UTC().Truncate(time.Millisecond)
	v.silent = v.silent.Truncate(time.Millisecond)
	s.putMember(m.name, v)
	for len(s.gone) > maxGone {
		s.forgetOldest()
	}
}

// forgetOldest forgets the member that is gone for the longest.
func (s *state) forgetOldest() {
	name := slices.MinFunc(slices.Collect(maps.Keys(s.gone)), func(a, b string) int {
		if c := s.gone[a].at.Compare(s.gone[b].at); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	// Nobody holds the number of an incarnation that never was called by it.
	if v := s.gone[name]; (v.numbered || v.incarnation > 1) && v.incarnation > s.meta.floor {
		meta := *s.meta
		meta.floor = v.incarnation
		s.putMeta(&meta)
	}
	s.putMember(name, nil)
}
