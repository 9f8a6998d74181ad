package controller

import "slices"

// maxTopicName is Kafka's bound, in bytes: name-partition must fit in a file name.
const maxTopicName = 249

// internalTopics are the topics that Highwater keeps for itself: never made,
// changed or deleted by a client, and listed only on demand. It is read only.
var internalTopics = []string{"__consumer_offsets", "__txn"}

// IsInternalTopic tells whether the name is one that Highwater keeps for itself.
func IsInternalTopic(name string) bool { return slices.Contains(internalTopics, name) }

// CheckTopicName tells whether a client may give a topic this name: nil or an
// *InvalidNameError.
func CheckTopicName(name string) error {
	switch {
	case name == "":
		return &InvalidNameError{Topic: name, Reason: "it is empty"}
	case len(name) > maxTopicName:
		return &InvalidNameError{Topic: name[:maxTopicName] + "…", Reason: "it is longer than 249 characters"}
	case name == "." || name == "..":
		return &InvalidNameError{Topic: name, Reason: `it may not be "." or ".."`}
	case IsInternalTopic(name):
		return &InvalidNameError{Topic: name, Reason: "it is reserved for internal use"}
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return &InvalidNameError{Topic: name, Reason: "only a-z, A-Z, 0-9, '.', '_' and '-' are allowed"}
		}
	}
	return nil
}
