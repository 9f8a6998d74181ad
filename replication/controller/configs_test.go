package controller

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestConfigValues(t *testing.T) {
	for _, c := range []struct {
		name string
		good []string
		bad  []string
	}{
		{ConfigCleanupPolicy, []string{"delete", "compact", "compact,delete"}, []string{"", "Delete", "compact, delete", "delete,compact", "none"}},
		{ConfigCompressionType, []string{"producer", "uncompressed", "gzip", "zstd"}, []string{"lz4", "snappy", "none", ""}},
		{ConfigTimestampType, []string{"CreateTime", "LogAppendTime"}, []string{"createtime", ""}},
		{ConfigUncleanElection, []string{"true", "false"}, []string{"True", "1", ""}},
		{ConfigMinInSyncReplicas, []string{"1", "2", "1000"}, []string{"0", "-1", "1001", "one"}},
		{ConfigMaxMessageBytes, []string{"1", "1048576", "134217728"}, []string{"0", "-1", "134217729"}},
		{ConfigRetentionMs, []string{"-1", "0", "9223372036854775807"}, []string{"-2", "9223372036854775808", "1e3", "5s"}},
		{ConfigRetentionBytes, []string{"-1", "0"}, []string{"-2", ""}},
		{ConfigSegmentBytes, []string{"1024", "2147483647"}, []string{"1023", "2147483648", "-1"}},
		{ConfigSegmentMs, []string{"1", "604800000"}, []string{"0", "-1"}},
		{ConfigDeleteRetentionMs, []string{"0", "86400000", "9223372036854775807"}, []string{"-1"}},
		{ConfigMinCompactionLag, []string{"0", "60000"}, []string{"-1"}},
		{ConfigMaxCompactionLag, []string{"1", "9223372036854775807"}, []string{"0", "-1"}},
		{ConfigDedupeWindowCount, []string{"-1", "1", "1000000"}, []string{"-2", "0", "1.0", ""}},
		{ConfigDedupeWindowMs, []string{"-1", "0", "3600000"}, []string{"-2"}},
	} {
		for _, v := range c.good {
			if err := CheckConfig(c.name, v); err != nil {
				t.Errorf("%s=%s: %v", c.name, v, err)
			}
		}
		for _, v := range append(c.bad, "+1", "01", " 1", "1 ", "0x1", "-0", "1.0") {
			invalid := (*InvalidConfigError)(nil)
			if err := CheckConfig(c.name, v); !errors.As(err, &invalid) || invalid.Name != c.name || invalid.Value != v || invalid.Allowed == "" {
				t.Errorf("%s=%q: %v", c.name, v, err)
			}
		}
	}
	invalid := (*InvalidConfigError)(nil)
	if err := CheckConfig("segment.byte", "1"); !errors.As(err, &invalid) || !strings.Contains(invalid.Allowed, "segment.bytes") {
		t.Errorf("an unknown config doesn't name the known ones: %v", err)
	}
}

func TestConfigRatio(t *testing.T) {
	for value, want := range map[string]float64{"0": 0, "1": 1, "0.5": 0.5, "1.0": 1, "0.123456789": 0.123456789} {
		if err := CheckConfig(ConfigMinDirtyRatio, value); err != nil {
			t.Errorf("%s: %v", value, err)
		}
		topic := &Topic{Configs: map[string]string{ConfigMinDirtyRatio: value}}
		if got := topic.Config(nil).MinDirtyRatio; got != want {
			t.Errorf("%s is read as %v", value, got)
		}
	}
	for _, value := range []string{"", "-0.1", "1.1", "2", "0.", ".5", "00.5", "0.5e0", "+0.5", "0,5", "0.1234567890", "NaN", "1.000000001"} {
		if CheckConfig(ConfigMinDirtyRatio, value) == nil {
			t.Errorf("%q is allowed", value)
		}
	}
}

func TestConfigTableIsSoundAndSorted(t *testing.T) {
	if !slices.IsSorted(ConfigNames()) || len(ConfigNames()) != 16 {
		t.Errorf("names: %v", ConfigNames())
	}
	effective := (&Topic{ReplicationFactor: 1}).EffectiveConfigs(nil)
	if !slices.Equal(slices.Sorted(maps.Keys(effective)), ConfigNames()) {
		t.Errorf("effective: %v", effective)
	}
	if err := CheckConfigs(effective); err != nil {
		t.Errorf("a default isn't allowed: %v", err)
	}
	want := TopicConfig{MinInSyncReplicas: 1, RetentionMs: 604800000, RetentionBytes: -1, SegmentBytes: 128 << 20, SegmentMs: 604800000,
		MaxMessageBytes: 1 << 20, DedupeWindowMs: 3600000, DedupeWindowCount: 1000000, Delete: true, MinDirtyRatio: 0.5, MaxCompactionLag: math.MaxInt64, DeleteRetentionMs: 86400000, Compression: "producer"}
	if got := (&Topic{ReplicationFactor: 1}).Config(nil); *got != want {
		t.Errorf("defaults are %+v", *got)
	}
}

func TestConfigsComeFromTopicThenBrokerThenTable(t *testing.T) {
	topic := &Topic{ReplicationFactor: 3, Configs: map[string]string{ConfigRetentionMs: "5", ConfigCleanupPolicy: "compact,delete",
		ConfigTimestampType: "LogAppendTime", ConfigUncleanElection: "true", ConfigCompressionType: "zstd"}}
	defaults := ConfigDefaults{ConfigRetentionMs: "6", ConfigSegmentBytes: "4096", ConfigMinInSyncReplicas: "1"}
	if got := topic.Config(nil).MinInSyncReplicas; got != 2 {
		t.Errorf("three replicas: min.insync.replicas %d", got)
	}
	if got := (&Topic{ReplicationFactor: 2}).Config(nil).MinInSyncReplicas; got != 1 {
		t.Errorf("two replicas: min.insync.replicas %d", got)
	}
	c := topic.Config(defaults)
	if c.RetentionMs != 5 || c.SegmentBytes != 4096 || c.MinInSyncReplicas != 1 || !c.Compact || !c.Delete || !c.LogAppendTime || !c.UncleanElection || c.Compression != "zstd" {
		t.Errorf("%+v", *c)
	}
	topic.Configs[ConfigCleanupPolicy] = "compact"
	if c := topic.Config(nil); !c.Compact || c.Delete {
		t.Errorf("compact alone: %+v", *c)
	}
	// What an older version let in and this one doesn't know how to read.
	topic.Configs[ConfigSegmentBytes] = "12"
	if c := topic.Config(nil); c.SegmentBytes != 128<<20 {
		t.Errorf("segment.bytes=12 is read as %d", c.SegmentBytes)
	}
}

// dedupe.window.count: a topic that keeps ids as long as their records keeps all of
// them, unless it says how many.
func TestHowManyIDsATopicRemembers(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want int64
	}{
		{nil, 1_000_000},
		{map[string]string{ConfigDedupeWindowMs: "5"}, 1_000_000},
		{map[string]string{ConfigDedupeWindowMs: "-1"}, -1},
		{map[string]string{ConfigDedupeWindowMs: "-1", ConfigDedupeWindowCount: "7"}, 7},
		{map[string]string{ConfigDedupeWindowCount: "-1"}, -1},
	} {
		topic := &Topic{ReplicationFactor: 1, Configs: c.set}
		if got := topic.Config(nil).DedupeWindowCount; got != c.want {
			t.Errorf("%v: %d, want %d", c.set, got, c.want)
		}
	}
}

func TestCreateTopicRequests(t *testing.T) {
	req := func(edit func(*CreateTopicRequest)) *CreateTopicRequest {
		r := &CreateTopicRequest{Name: "t", Partitions: 3, ReplicationFactor: 2, Configs: map[string]string{ConfigMinInSyncReplicas: "2"}}
		edit(r)
		return r
	}
	if err := req(func(*CreateTopicRequest) {}).Check(2); err != nil {
		t.Fatal(err)
	}
	var impossible *ImpossibleError
	for name, c := range map[string]struct {
		req  *CreateTopicRequest
		says []string
	}{
		"factor over brokers":  {req(func(r *CreateTopicRequest) { r.ReplicationFactor = 4 }), []string{"4", "2"}},
		"no factor":            {req(func(r *CreateTopicRequest) { r.ReplicationFactor = 0 }), []string{"0"}},
		"min over factor":      {req(func(r *CreateTopicRequest) { r.Configs[ConfigMinInSyncReplicas] = "3" }), []string{"3", "2"}},
		"no partitions":        {req(func(r *CreateTopicRequest) { r.Partitions = 0 }), []string{"0"}},
		"too many partitions":  {req(func(r *CreateTopicRequest) { r.Partitions = maxPartitions + 1 }), []string{strconv.Itoa(maxPartitions + 1)}},
		"negative partitions":  {req(func(r *CreateTopicRequest) { r.Partitions = -1 }), []string{"-1"}},
		"overflowing factor":   {req(func(r *CreateTopicRequest) { r.ReplicationFactor = math.MaxInt }), nil},
		"negative replication": {req(func(r *CreateTopicRequest) { r.ReplicationFactor = -3 }), []string{"-3"}},
	} {
		err := c.req.Check(2)
		if !errors.As(err, &impossible) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, part := range c.says {
			if !strings.Contains(impossible.Reason, part) {
				t.Errorf("%s: %q doesn't name %s", name, impossible.Reason, part)
			}
		}
	}
	if err := req(func(r *CreateTopicRequest) { r.Configs = map[string]string{"a": "1", "b": "2"} }).Check(2); err == nil || !strings.Contains(err.Error(), `a="1"`) || !strings.Contains(err.Error(), `b="2"`) {
		t.Errorf("not every fault is told: %v", err)
	}
}

func TestH51_TopicNames(t *testing.T) {
	for _, name := range []string{"a", "A.b_c-9", "...", "_", "-", strings.Repeat("x", 249), "__consumer", "consumer_offsets"} {
		if err := CheckTopicName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", "../x", "a/b", `a\b`, "a b", "é", "a\x00", "a%2f", "a:b", "/etc/x", strings.Repeat("x", 250),
		"__consumer_offsets", "__txn", "a\n", "*"} {
		invalid := (*InvalidNameError)(nil)
		if err := CheckTopicName(name); !errors.As(err, &invalid) || invalid.Reason == "" {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestDiffersComparesOnlyWhatWasAsked(t *testing.T) {
	topic := &Topic{Name: "t", ReplicationFactor: 1, Partitions: make([]Partition, 3), Configs: map[string]string{ConfigRetentionMs: "5"}}
	for name, c := range map[string]struct {
		req  CreateTopicRequest
		want []string
	}{
		"nothing":                {CreateTopicRequest{}, nil},
		"all the same":           {CreateTopicRequest{Partitions: 3, ReplicationFactor: 1, Configs: map[string]string{ConfigRetentionMs: "5"}}, nil},
		"a default spelled out":  {CreateTopicRequest{Configs: map[string]string{ConfigSegmentMs: "604800000"}}, nil},
		"broker's default":       {CreateTopicRequest{Configs: map[string]string{ConfigMaxMessageBytes: "77"}}, nil},
		"partitions":             {CreateTopicRequest{Partitions: 4}, []string{"partitions"}},
		"factor":                 {CreateTopicRequest{ReplicationFactor: 2}, []string{"replication_factor"}},
		"a set config":           {CreateTopicRequest{Configs: map[string]string{ConfigRetentionMs: "6"}}, []string{"configs.retention.ms"}},
		"a default, otherwise":   {CreateTopicRequest{Configs: map[string]string{ConfigSegmentMs: "1"}}, []string{"configs.segment.ms"}},
		"a config unknown to us": {CreateTopicRequest{Partitions: 1, Configs: map[string]string{"zz": "1"}}, []string{"configs.zz", "partitions"}},
	} {
		if got := topic.Differs(c.req, ConfigDefaults{ConfigMaxMessageBytes: "77"}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestAssignmentIsEvenAndDistinct(t *testing.T) {
	for n := 1; n <= 6; n++ {
		brokers := []int32{10, 20, 30, 40, 50, 60}[:n]
		for factor := 1; factor <= n; factor++ {
			leads, holds := map[int32]int{}, map[int32]int{}
			all := assign(brokers, 5, 12*n, factor)
			for _, replicas := range all {
				if len(replicas) != factor || len(slices.Compact(slices.Sorted(slices.Values(replicas)))) != factor {
					t.Fatalf("%d brokers, factor %d: %v", n, factor, replicas)
				}
				leads[replicas[0]]++
				for _, id := range replicas {
					holds[id]++
				}
			}
			for _, id := range brokers {
				if leads[id] != 12 || holds[id] < 12*factor-factor || holds[id] > 12*factor+factor {
					t.Errorf("%d brokers, factor %d: %d leads %d and holds %d", n, factor, id, leads[id], holds[id])
				}
			}
		}
	}
}
