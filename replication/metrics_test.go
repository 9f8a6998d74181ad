package replication

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"highwater/replication/controller"
)

// gather returns every series as name{label values} → value.
func gather(t *testing.T, n *node) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(n.Collector()); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				key += "/" + l.GetValue()
			}
			out[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

func TestMetricsTellOfTopicsAndForgetDeletedOnes(t *testing.T) {
	n := startNode(t)
	n.create("a", 2)
	n.create("gone", 1)
	n.mustAppend(AcksAll, "a", 1, "x", "y")
	n.mustAppend(AcksLeader, "a", 1, "z")
	n.mustAppend(AcksAll, "gone", 0, "x")
	n.waitVisible("a", 1, 3)
	m := gather(t, n)
	for name, want := range map[string]float64{
		"highwater_topic_appends_total/a":          2,
		"highwater_topic_records_total/a":          3,
		"highwater_topic_appends_total/gone":       1,
		"highwater_partition_high_watermark/1/a":   3,
		"highwater_partition_log_end_offset/1/a":   3,
		"highwater_partition_log_end_offset/0/a":   0,
		"highwater_partitions":                     3,
		"highwater_leader_partitions":              3,
		"highwater_under_replicated_partitions":    0,
		"highwater_offline_partitions":             0,
		"highwater_produce_wait_seconds":           2,
		"highwater_partition_log_start_offset/1/a": 0,
	} {
		labels := strings.Split(name, "/")
		if len(labels) == 3 { // labels come sorted by their names: partition, topic
			name = labels[0] + "/" + labels[1] + "/" + labels[2]
		}
		if got, ok := m[name]; !ok || got != want {
			t.Errorf("%s is %v (%v), want %v", name, got, ok, want)
		}
	}
	if m["highwater_topic_bytes_total/a"] < 100 || m["highwater_topic_size_bytes/a"] != m["highwater_topic_bytes_total/a"] || m["highwater_sync_seconds"] < 1 || m["highwater_metadata_index"] < 3 {
		t.Errorf("%v", m)
	}
	n.must(n.DeleteTopic(context.Background(), "gone"))
	for name := range gather(t, n) {
		if strings.HasSuffix(name, "/gone") {
			t.Errorf("H58: %s is still there", name)
		}
	}
}

func TestH58_SeriesAreBounded(t *testing.T) {
	n := startNode(t)
	n.create("a", maxPartitionSeries+1)
	for name := range gather(t, n) {
		if strings.HasPrefix(name, "highwater_partition_") {
			t.Fatalf("%s, with %d partitions", name, maxPartitionSeries+1)
		}
	}
	if got := gather(t, n)["highwater_partitions"]; got != maxPartitionSeries+1 {
		t.Errorf("%v partitions", got)
	}
	if err := controller.CheckTopicName("*"); err == nil {
		t.Error("the sum's label can be a topic's name")
	}
}
