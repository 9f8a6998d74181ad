package controller

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The topic configs: Kafka's names and meanings, plus dedupe.window.ms and
// dedupe.window.count.
const (
	ConfigCleanupPolicy     = "cleanup.policy"
	ConfigCompressionType   = "compression.type"
	ConfigDedupeWindowCount = "dedupe.window.count"
	ConfigDedupeWindowMs    = "dedupe.window.ms"
	ConfigDeleteRetentionMs = "delete.retention.ms"
	ConfigMaxCompactionLag  = "max.compaction.lag.ms"
	ConfigMaxMessageBytes   = "max.message.bytes"
	ConfigTimestampType     = "message.timestamp.type"
	ConfigMinDirtyRatio     = "min.cleanable.dirty.ratio"
	ConfigMinCompactionLag  = "min.compaction.lag.ms"
	ConfigMinInSyncReplicas = "min.insync.replicas"
	ConfigRetentionBytes    = "retention.bytes"
	ConfigRetentionMs       = "retention.ms"
	ConfigSegmentBytes      = "segment.bytes"
	ConfigSegmentMs         = "segment.ms"
	ConfigUncleanElection   = "unclean.leader.election.enable"
)

// configKind is one line of the table of configs.
type configKind struct {
	name         string
	defaultValue string
	// min and max bound a number, both inclusive; max 0 says that it isn't one.
	min, max int64
	// words are the allowed values of what isn't a number.
	words []string
	// nonZero: 0 is no allowed number.
	nonZero bool
	// ratio: a decimal fraction from 0 to 1.
	ratio bool
	// allowed tells a person what may be given.
	allowed string
}

const (
	// minSegmentBytes keeps a segment larger than its own overhead.
	minSegmentBytes = 1 << 10
	// maxSegmentBytes is Kafka's: positions in a segment fit in 32 bits.
	maxSegmentBytes = math.MaxInt32
	// maxMaxMessageBytes is the default limit of a whole request body: a larger
	// record could not be sent.
	maxMaxMessageBytes = 128 << 20
	// noDedupeLimit, as dedupe.window.ms: as long as the record is kept; as
	// dedupe.window.count: however many.
	noDedupeLimit = -1
	// maxMinInSyncReplicas is a plain sanity bound.
	maxMinInSyncReplicas = 1000
)

// configTable lists every config, in the order of names. It is read only.
var configTable = []configKind{
	{name: ConfigCleanupPolicy, defaultValue: "delete", words: []string{"delete", "compact", "compact,delete"},
		allowed: "delete, compact or compact,delete"},
	{name: ConfigCompressionType, defaultValue: "producer", words: []string{"producer", "uncompressed", "gzip", "zstd"},
		allowed: "producer, uncompressed, gzip or zstd"},
	{name: ConfigDedupeWindowCount, defaultValue: "1000000", min: noDedupeLimit, max: math.MaxInt64, nonZero: true,
		allowed: "-1 (no limit) or a number of message ids of each partition from 1 on"},
	{name: ConfigDedupeWindowMs, defaultValue: "3600000", min: -1, max: math.MaxInt64,
		allowed: "-1 (as long as the record is kept) or milliseconds from 0 on"},
	{name: ConfigDeleteRetentionMs, defaultValue: "86400000", min: 0, max: math.MaxInt64,
		allowed: "milliseconds from 0 on"},
	{name: ConfigMaxCompactionLag, defaultValue: "9223372036854775807", min: 1, max: math.MaxInt64,
		allowed: "milliseconds from 1 on"},
	{name: ConfigMaxMessageBytes, defaultValue: "1048576", min: 1, max: maxMaxMessageBytes,
		allowed: "bytes from 1 to 134217728"},
	{name: ConfigTimestampType, defaultValue: "CreateTime", words: []string{"CreateTime", "LogAppendTime"},
		allowed: "CreateTime or LogAppendTime"},
	{name: ConfigMinDirtyRatio, defaultValue: "0.5", ratio: true,
		allowed: "a decimal fraction from 0 to 1, like 0.5"},
	{name: ConfigMinCompactionLag, defaultValue: "0", min: 0, max: math.MaxInt64,
		allowed: "milliseconds from 0 on"},
	{name: ConfigMinInSyncReplicas, min: 1, max: maxMinInSyncReplicas,
		allowed: "a number from 1 to the replication factor"},
	{name: ConfigRetentionBytes, defaultValue: "-1", min: -1, max: math.MaxInt64,
		allowed: "-1 (no limit) or bytes of each partition from 0 on"},
	{name: ConfigRetentionMs, defaultValue: "604800000", min: -1, max: math.MaxInt64,
		allowed: "-1 (no limit) or milliseconds from 0 on"},
	{name: ConfigSegmentBytes, defaultValue: "134217728", min: minSegmentBytes, max: maxSegmentBytes,
		allowed: "bytes from 1024 to 2147483647"},
	{name: ConfigSegmentMs, defaultValue: "604800000", min: 1, max: math.MaxInt64,
		allowed: "milliseconds from 1 on"},
	{name: ConfigUncleanElection, defaultValue: "false", words: []string{"true", "false"},
		allowed: "true or false"},
}

// ConfigNames lists the names of all topic configs in order.
func ConfigNames() []string {
	names := make([]string, len(configTable))
	for i := range configTable {
		names[i] = configTable[i].name
	}
	return names
}

func findConfig(name string) (*configKind, bool) {
	i, ok := slices.BinarySearchFunc(configTable, name, func(k configKind, name string) int { return strings.Compare(k.name, name) })
	if !ok {
		return nil, false
	}
	return &configTable[i], true
}

// CheckConfig tells whether a topic may have this config with this value: nil or
// an *InvalidConfigError. Values are compared as text, so each number has one
// spelling: plain decimal digits, no sign but that of -1.
func CheckConfig(name, value string) error {
	k, ok := findConfig(name)
	if !ok {
		return &InvalidConfigError{Name: name, Value: value, Allowed: "there is no such config; known are " + strings.Join(ConfigNames(), ", ")}
	}
	if k.ratio {
		if _, ok := parseRatio(value); !ok {
			return &InvalidConfigError{Name: name, Value: value, Allowed: k.allowed}
		}
		return nil
	}
	if k.max == 0 {
		if !slices.Contains(k.words, value) {
			return &InvalidConfigError{Name: name, Value: value, Allowed: k.allowed}
		}
		return nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != value || n < k.min || n > k.max || n == 0 && k.nonZero {
		return &InvalidConfigError{Name: name, Value: value, Allowed: k.allowed}
	}
	return nil
}

// maxRatioDigits bounds the digits behind the point of a ratio.
const maxRatioDigits = 9

// parseRatio reads a decimal fraction from 0 to 1: 0, 1, or 0 or 1 with digits behind a point.
func parseRatio(value string) (float64, bool) {
	whole, fraction, pointed := strings.Cut(value, ".")
	if whole != "0" && whole != "1" || pointed && (fraction == "" || len(fraction) > maxRatioDigits) || strings.Trim(fraction, "0123456789") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(value, 64)
	return f, err == nil && f <= 1
}

// CheckConfigs is CheckConfig of all, in the order of names: nil, or the joined
// *InvalidConfigErrors.
func CheckConfigs(configs map[string]string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		errs = append(errs, CheckConfig(name, configs[name]))
	}
	return errors.Join(errs...)
}

// ConfigDefaults are a broker's answers, by config name, to what a topic leaves
// open; what they leave open the table answers.
type ConfigDefaults map[string]string

// EffectiveConfigs are all configs of a topic as they hold: what was set, else
// the broker's default, else the table's.
func (t *Topic) EffectiveConfigs(defaults ConfigDefaults) map[string]string {
	out := make(map[string]string, len(configTable))
	for i := range configTable {
		name := configTable[i].name
		out[name] = t.effective(name, defaults)
	}
	return out
}

func (t *Topic) effective(name string, defaults ConfigDefaults) string {
	if v, ok := t.Configs[name]; ok {
		return v
	}
	if name == ConfigMinInSyncReplicas && t.MinInSync > 0 {
		return strconv.Itoa(t.MinInSync)
	}
	if v, ok := defaults[name]; ok {
		return v
	}
	if name == ConfigMinInSyncReplicas {
		return strconv.Itoa(defaultMinInSync(t.ReplicationFactor))
	}
	if name == ConfigDedupeWindowCount && t.effective(ConfigDedupeWindowMs, defaults) == strconv.Itoa(noDedupeLimit) {
		// Who asks for ids to be known as long as the record is there means all of them.
		return strconv.Itoa(noDedupeLimit)
	}
	k, _ := findConfig(name)
	return k.defaultValue
}

// TopicConfig is a topic's effective configs as the values they stand for.
type TopicConfig struct {
	MinInSyncReplicas int
	RetentionMs       int64 // -1: no limit
	RetentionBytes    int64 // of each partition; -1: no limit
	SegmentBytes      int64
	SegmentMs         int64
	MaxMessageBytes   int   // of one record: key, value and headers
	DedupeWindowMs    int64 // 0: ids are not looked at; -1: as long as the record is kept
	DedupeWindowCount int64 // message ids of each partition; -1: no limit
	Compact           bool  // cleanup.policy has compact: every record needs a key
	Delete            bool  // cleanup.policy has delete: retention holds
	MinDirtyRatio     float64
	MinCompactionLag  int64 // ms
	MaxCompactionLag  int64 // ms; the largest number: no limit
	DeleteRetentionMs int64
	Compression       string // producer, uncompressed, gzip or zstd
	LogAppendTime     bool
	UncleanElection   bool
}

// Config reads the effective configs. Values were checked when they were set;
// one that an older version allowed and this one doesn't falls back to the
// table's default.
func (t *Topic) Config(defaults ConfigDefaults) *TopicConfig {
	text := func(name string) string {
		v := t.effective(name, defaults)
		if CheckConfig(name, v) != nil {
			v = (&Topic{ReplicationFactor: t.ReplicationFactor}).effective(name, nil)
		}
		return v
	}
	number := func(name string) int64 {
		n, err := strconv.ParseInt(text(name), 10, 64)
		if err != nil {
			panic(fmt.Sprintf("controller: config %s: the table's default is no number: %v", name, err))
		}
		return n
	}
	policy := text(ConfigCleanupPolicy)
	ratio, _ := parseRatio(text(ConfigMinDirtyRatio)) // text has checked it
	return &TopicConfig{
		MinInSyncReplicas: int(number(ConfigMinInSyncReplicas)),
		RetentionMs:       number(ConfigRetentionMs),
		RetentionBytes:    number(ConfigRetentionBytes),
		SegmentBytes:      number(ConfigSegmentBytes),
		SegmentMs:         number(ConfigSegmentMs),
		MaxMessageBytes:   int(number(ConfigMaxMessageBytes)),
		DedupeWindowMs:    number(ConfigDedupeWindowMs),
		DedupeWindowCount: number(ConfigDedupeWindowCount),
		Compact:           strings.Contains(policy, "compact"),
		Delete:            strings.Contains(policy, "delete"),
		MinDirtyRatio:     ratio,
		MinCompactionLag:  number(ConfigMinCompactionLag),
		MaxCompactionLag:  number(ConfigMaxCompactionLag),
		DeleteRetentionMs: number(ConfigDeleteRetentionMs),
		Compression:       text(ConfigCompressionType),
		LogAppendTime:     text(ConfigTimestampType) == "LogAppendTime",
		UncleanElection:   text(ConfigUncleanElection) == "true",
	}
}
