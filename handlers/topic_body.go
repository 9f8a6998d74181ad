package handlers

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/render"

	"highwater/replication"
	"highwater/replication/controller"
)

// topicView is a topic as clients see it.
type topicView struct {
	Name       string            `json:"name"`
	TopicID    string            `json:"topic_id"`
	Configs    map[string]string `json:"configs"`
	Dedupe     *topicDedupeView  `json:"dedupe"`
	Partitions []partitionView   `json:"partitions"`
}

// partitionView is a partition as clients see it. The ends are null when there
// is no leader to tell them.
type partitionView struct {
	Partition      int32         `json:"partition"`
	Leader         int32         `json:"leader"`
	LeaderEpoch    int32         `json:"leader_epoch"`
	ISR            []int32       `json:"isr"`
	LogStartOffset *int64        `json:"log_start_offset"`
	HighWatermark  *int64        `json:"high_watermark"`
	LogEndOffset   *int64        `json:"log_end_offset"`
	Dedupe         *dedupeView   `json:"dedupe"`
	Replicas       []replicaView `json:"replicas"`
}

type replicaView struct {
	Broker         int32 `json:"broker"`
	Leader         bool  `json:"leader"`
	InSync         bool  `json:"in_sync"`
	LogEndOffset   int64 `json:"log_end_offset"`
	Lag            int64 `json:"lag"`
	LastCaughtUpMs int64 `json:"last_caught_up_ms"`
}

// viewTopic asks for everything that clients see of a topic.
func (a *api) viewTopic(r *http.Request, t *controller.Topic) (*topicView, error) {
	v := &topicView{Name: t.Name, TopicID: t.ID.String(), Configs: t.EffectiveConfigs(a.cfg.Broker.ConfigDefaults())}
	statuses, err := a.cfg.Broker.Partitions(r.Context(), t.Name)
	if err != nil {
		return nil, err
	}
	v.Partitions = make([]partitionView, len(statuses))
	for i := range statuses {
		v.Partitions[i] = viewOf(&statuses[i])
	}
	v.Dedupe = sumDedupe(t.Config(a.cfg.Broker.ConfigDefaults()), v.Partitions)
	return v, nil
}

func (a *api) viewPartition(r *http.Request, topic string, num int32) (partitionView, error) {
	s, err := a.cfg.Broker.PartitionStatus(r.Context(), topic, num)
	if err != nil {
		return partitionView{}, err
	}
	return viewOf(&s), nil
}

func viewOf(s *replication.PartitionStatus) partitionView {
	v := partitionView{Partition: s.Partition, Leader: s.Leader, LeaderEpoch: s.LeaderEpoch, ISR: s.ISR, Replicas: make([]replicaView, len(s.Replicas))}
	if v.ISR == nil {
		v.ISR = []int32{}
	}
	if s.LogEndOffset >= 0 { // else nobody who knows could be asked
		v.LogStartOffset, v.HighWatermark, v.LogEndOffset = &s.LogStartOffset, &s.HighWatermark, &s.LogEndOffset
	}
	v.Dedupe = viewOfDedupe(s.Dedupe)
	for i, rep := range s.Replicas {
		v.Replicas[i] = replicaView(rep)
	}
	return v
}

// answerJSON is for control answers, which are small and not hot.
func answerJSON(w http.ResponseWriter, r *http.Request, status int, v any) error {
	w.Header()["Cache-Control"] = []string{"no-store"}
	render.Status(r, status)
	render.JSON(w, r, v)
	return nil
}

// topicRequest is what a body asks of a topic; zero fields are left to the
// defaults.
func topicRequest(c *controlBody, name, partitions string) (controller.CreateTopicRequest, error) {
	req := controller.CreateTopicRequest{Name: name,
		Partitions:        int(c.integer(partitions, 0, 1, math.MaxInt32)),
		ReplicationFactor: int(c.integer("replication_factor", 0, 1, math.MaxInt16)),
		Configs:           map[string]string{}}
	for config, value := range c.configs("configs") {
		if value != nil { // null: the default
			req.Configs[config] = *value
		}
	}
	if err := c.err(); err != nil {
		return req, err
	}
	return req, checkConfigs("/configs", req.Configs)
}

// checkConfigs tells every fault of the configs at once.
func checkConfigs(pointer string, configs map[string]string) error {
	c := &controlBody{}
	known := controller.ConfigNames()
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		if !slices.Contains(known, name) {
			mean := ""
			if near := nearest(name, known); near != "" {
				mean = "; did you mean " + near + "?"
			}
			c.faultf(pointer+"/"+pointerEscape(name), "There is no such config%s Known: %s.", cmp.Or(mean, "."), strings.Join(known, ", "))
			continue
		}
		var invalid *controller.InvalidConfigError
		if errors.As(controller.CheckConfig(name, configs[name]), &invalid) {
			c.faultf(pointer+"/"+pointerEscape(name), "%s is not allowed. Allowed: %s.", shown(configs[name]), invalid.Allowed)
		}
	}
	return c.err()
}
