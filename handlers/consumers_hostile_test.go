package handlers

import (
	"net/http"
	"testing"
)

// Records of anybody but the coordinator in its topic, or records that are missing
// there, would take the groups of a partition away for good.
func TestTheTopicOfGroupsIsNobodysToChange(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.stock("t", 0, 3)
	path := b.subscriber("g", `{"name":"c"}`, "t")
	b.pollUntil(path, 3)
	b.post(path+"/offsets", nil).want(204)

	const internal = "/topics/__consumer_offsets"
	b.post(internal, `{"records":[{"key":"a2V5","value":"dmFsdWU="}]}`, header("Content-Type", "application/vnd.kafka.binary.v2+json")).want(422).problem(42201)
	b.post(internal+"/records?key=k", "value", header("Content-Type", "text/plain")).want(422).problem(42201)
	for _, partition := range []string{"0", "1", "2", "3", "4", "5", "6", "7"} {
		b.post(internal+"/partitions/"+partition, `{"records":[{"key":"k","value":"v"}]}`).want(422).problem(42201)
		b.post(internal+"/partitions/"+partition+"/records?key=k", "value").want(422).problem(42201)
		b.do(http.MethodDelete, internal+"/partitions/"+partition+"/records?before_offset=high_watermark", nil).want(422).problem(42201)
	}
	if got := b.committedOf("g", "t"); got != "0:3" {
		t.Errorf("committed %s", got)
	}
}
