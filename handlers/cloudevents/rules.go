package cloudevents

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// ValidName says whether an attribute may have that name: lower-case letters and
// digits, and not the reserved one.
func ValidName(name []byte) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return len(name) > 0 && string(name) != "data"
}

const nameRule = "An attribute's name is lower-case letters a to z and digits, and not data."

// AttributeFault says why value can't be the attribute's, "" when it can.
func AttributeFault(name, value []byte) string {
	if text := stringFault(value); text != "" {
		return text
	}
	switch string(name) {
	case "specversion":
		if string(value) != SpecVersion {
			return "It must be \"" + SpecVersion + "\", the only version that is known here."
		}
	case "id", "type", "subject", "partitionkey":
		if len(value) == 0 {
			return "It can't be empty."
		}
	case "source":
		return uriFault(value, false)
	case "dataschema":
		return uriFault(value, true)
	case "time":
		if !validTime(value) {
			return "It must be a time of RFC 3339, such as 2026-01-31T12:00:00Z."
		}
	}
	return ""
}

// stringFault says why b is no String of the specification's type system.
func stringFault(b []byte) string {
	for i := 0; i < len(b); {
		if c := b[i]; c < utf8.RuneSelf {
			if c < 0x20 || c == 0x7f {
				return "It holds a control character."
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return "It is not UTF-8."
		case r <= 0x9f:
			return "It holds a control character."
		case r >= 0xfdd0 && r <= 0xfdef, r&0xfffe == 0xfffe:
			return "It holds a code point that Unicode calls a noncharacter."
		}
		i += n
	}
	return ""
}

// validInteger says whether text is an Integer: no fraction, no exponent, 32 bits.
func validInteger(text []byte) bool {
	digits := bytes.TrimPrefix(text, []byte{'-'})
	if len(digits) == 0 || len(digits) > 10 || digits[0] == '0' && len(digits) > 1 {
		return false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	_, err := strconv.ParseInt(string(text), 10, 32)
	return err == nil
}

// IsBare says whether text can stand in JSON as a Boolean or an Integer.
func IsBare(text []byte) bool {
	return string(text) == "true" || string(text) == "false" || validInteger(text)
}

// validTime is RFC 3339's date-time, with the days that the months have. A leap
// second is let through where there can be one: in the last minute of a day in UTC.
func validTime(b []byte) bool {
	const shortest = len("2006-01-02T15:04:05Z")
	if len(b) < shortest || b[4] != '-' || b[7] != '-' || b[10] != 'T' && b[10] != 't' || b[13] != ':' || b[16] != ':' {
		return false
	}
	year, month, day := number(b[0:4]), number(b[5:7]), number(b[8:10])
	hour, minute, second := number(b[11:13]), number(b[14:16]), number(b[17:19])
	if year < 0 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60 {
		return false
	}
	rest := b[19:]
	if rest[0] == '.' {
		n := 1
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		if n == 1 {
			return false
		}
		rest = rest[n:]
	}
	offset, ok := zone(rest)
	const minutesOfDay = 24 * 60
	utc := (hour*60 + minute - offset + minutesOfDay) % minutesOfDay
	return ok && (second < 60 || utc == minutesOfDay-1)
}

// zone reads Z or ±hh:mm as minutes.
func zone(b []byte) (minutes int, ok bool) {
	if len(b) == 1 && (b[0] == 'Z' || b[0] == 'z') {
		return 0, true
	}
	if len(b) != len("+00:00") || b[0] != '+' && b[0] != '-' || b[3] != ':' {
		return 0, false
	}
	h, m := number(b[1:3]), number(b[4:6])
	if h < 0 || h > 23 || m < 0 || m > 59 {
		return 0, false
	}
	minutes = h*60 + m
	if b[0] == '-' {
		minutes = -minutes
	}
	return minutes, true
}

// number is what the digits say, -1 when there are others.
func number(digits []byte) int {
	n := 0
	for _, c := range digits {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// IsExtension says whether an attribute may be something else than a string: none of
// the specification's own may, nor partitionkey.
func IsExtension(name []byte) bool {
	return rank(name) == rank(nil) && string(name) != "datacontenttype" && string(name) != "partitionkey"
}
