package handlers

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"highwater/replication/group"
)

// Bounds of a member's options.
const (
	// defaultRequestTimeout is the dialect's: how long a poll without a timeout waits.
	defaultRequestTimeout = time.Second
	// defaultSessionTimeout is the dialect's: a member that is silent for so long is
	// removed.
	defaultSessionTimeout = 300 * time.Second
	// A shorter session would end between two requests of a busy client; a longer one
	// holds partitions of a dead client for more than a day.
	minSessionTimeout = time.Second
	maxSessionTimeout = 24 * time.Hour
)

// Embedded formats of the dialect, and their media types.
const (
	formatNameJSON   = "json"
	formatNameBinary = "binary"
	formatNameText   = "text"
)

// optionNames are the members of a body that makes a consumer.
var optionNames = []string{"name", "format", "auto.offset.reset", "auto.commit.enable", "enable.auto.commit", "fetch.min.bytes",
	"consumer.request.timeout.ms", "consumer.instance.timeout.ms", "isolation.level"}

func defaultOptions() group.Options {
	return group.Options{Reset: group.ResetEarliest, MinBytes: 1, RequestTimeout: defaultRequestTimeout, SessionTimeout: defaultSessionTimeout, Isolation: "read_committed"}
}

// createBody reads a body that makes a consumer; it may be missing. Options are
// strings, numbers or booleans: their text counts.
func (a *api) createBody(w http.ResponseWriter, r *http.Request) (*group.Create, error) {
	body, err := a.controlBody(w, r, true, optionNames...)
	if err != nil {
		return nil, err
	}
	out := &group.Create{Name: body.name("name", "a consumer instance"), Options: defaultOptions()}
	o := &out.Options
	o.Format = body.choice("format", "", formatNameJSON, formatNameBinary, formatNameText)
	o.Reset = body.choice("auto.offset.reset", o.Reset, group.ResetEarliest, group.ResetLatest, group.ResetNone)
	o.AutoCommit = body.autoCommit()
	// -1 is the dialect's way to say "the default".
	o.MinBytes = int(max(body.number("fetch.min.bytes", 1, -1, math.MaxInt64, maxFetchBytes), 1))
	o.RequestTimeout = time.Duration(body.number("consumer.request.timeout.ms", o.RequestTimeout.Milliseconds(), 0, math.MaxInt64, maxWait.Milliseconds())) * time.Millisecond
	o.SessionTimeout = time.Duration(body.number("consumer.instance.timeout.ms", o.SessionTimeout.Milliseconds(), minSessionTimeout.Milliseconds(), maxSessionTimeout.Milliseconds(), math.MaxInt64)) * time.Millisecond
	o.Isolation = body.choice("isolation.level", o.Isolation, "read_committed", "read_uncommitted")
	return out, body.err()
}

// name is a member that names a group or an instance, "" when it is absent.
func (c *controlBody) name(member, what string) string {
	if v := c.value(member); v == nil || v.Kind() == 'n' {
		return ""
	}
	text := c.text(member)
	if len(c.faults) == 0 && !validGroupName(text) {
		c.faultf("/"+member, "%s", badName(what, text).detail+" It is 1 to 255 of a-z A-Z 0-9 . _ - and neither . nor ...")
	}
	return text
}

// option is a member's text: that of a string, or the spelling of a number or
// boolean. An absent one and null are none.
func (c *controlBody) option(name string) (string, bool) {
	v := c.value(name)
	switch {
	case v == nil || v.Kind() == 'n':
		return "", false
	case v.Kind() == '"':
		return unquoted(v), true
	case v.Kind() == '{' || v.Kind() == '[':
		c.faultf("/"+name, "It is %s, and must be a string, a number or a boolean.", kindName(v.Kind()))
		return "", false
	}
	return string(v), true
}

// choice is an option of a closed set.
func (c *controlBody) choice(name, def string, allowed ...string) string {
	text, ok := c.option(name)
	if !ok {
		return def
	}
	if !slices.Contains(allowed, text) {
		c.faultf("/"+name, "%s is not one of: %s.", shown(text), strings.Join(allowed, ", "))
		return def
	}
	return text
}

// number is an option that is a whole number from low to high; above most it counts
// as that.
func (c *controlBody) number(name string, def, low, high, most int64) int64 {
	text, ok := c.option(name)
	if !ok {
		return def
	}
	n, ok := parseInteger(text)
	if !ok || n < low || n > high {
		bounds := "of at least %d"
		args := []any{low}
		if high < math.MaxInt64 {
			bounds, args = "from %d to %d", []any{low, high}
		}
		c.faultf("/"+name, "It must be a whole number "+bounds+" in plain digits.", args...)
		return def
	}
	return min(n, most)
}

// autoCommit is the option with two names.
func (c *controlBody) autoCommit() bool {
	old, hasOld := c.option("auto.commit.enable")
	current, hasCurrent := c.option("enable.auto.commit")
	if hasOld && hasCurrent && old != current {
		c.faultf("/enable.auto.commit", "auto.commit.enable is the same option, and says otherwise; give one of them.")
	}
	on := c.choice("auto.commit.enable", "false", "true", "false") == "true"
	return c.choice("enable.auto.commit", "false", "true", "false") == "true" || on
}
