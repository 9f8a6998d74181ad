package controller

import (
	"reflect"
	"testing"

	"github.com/google/uuid"

	"highwater/replication/wire"
)

// What a command looks like in the log is frozen: members of other versions read it.
func TestCommandsInTheLogAreFrozen(t *testing.T) {
	id := uuid.MustParse("00000000-0000-0000-0000-000000000001")
	const shown = `"00000000-0000-0000-0000-000000000001"`
	seen := map[string]bool{}
	for _, c := range []struct {
		command Command
		want    string
	}{
		{&InitCluster{ClusterID: "c", Voters: []int32{1, 2}}, `{"v":1,"t":"init_cluster","d":{"cluster_id":"c","voters":[1,2]}}`},
		{&FinalizeProtocol{Version: 2}, `{"v":1,"t":"finalize_protocol","d":{"version":2}}`},
		{&RegisterBroker{ID: 1, Incarnation: id, Replaces: 2, URL: "u", Version: "v", RaftID: "r", MinProtocol: 3, MaxProtocol: 4,
			Data: Registration{Directory: id, PreviousEpoch: 5, Durable: true, Held: map[uuid.UUID][]int32{id: {6, 7}}}},
			`{"v":1,"t":"register_broker","d":{"id":1,"incarnation":` + shown + `,"replaces":2,"url":"u","version":"v","raft_id":"r","min_protocol":3,"max_protocol":4,` +
				`"data":{"directory":` + shown + `,"previous_epoch":5,"durable":true,"held":{` + shown + `:[6,7]}}}}`},
		{&RegisterBroker{ID: 1, Incarnation: id, URL: "u"},
			`{"v":1,"t":"register_broker","d":{"id":1,"incarnation":` + shown + `,"url":"u","data":{"directory":"00000000-0000-0000-0000-000000000000"}}}`},
		{&SetBroker{ID: 1, Epoch: 2, Fenced: true}, `{"v":1,"t":"set_broker","d":{"id":1,"epoch":2,"fenced":true,"draining":false}}`},
		{&RemoveBroker{ID: 1, Epoch: 2, Force: true}, `{"v":1,"t":"remove_broker","d":{"id":1,"epoch":2,"force":true}}`},
		{&CreateTopic{Name: "a", ID: id, Replicas: [][]int32{{1, 2}}, MinInSync: 2, Configs: map[string]string{"k": "v"}},
			`{"v":1,"t":"create_topic","d":{"name":"a","id":` + shown + `,"replicas":[[1,2]],"min_in_sync":2,"configs":{"k":"v"}}}`},
		{&DeleteTopic{ID: id}, `{"v":1,"t":"delete_topic","d":{"id":` + shown + `}}`},
		{&AlterTopic{ID: id, Set: map[string]string{"k": "v"}, Remove: []string{"l"}, From: 1, Add: [][]int32{{2}}},
			`{"v":1,"t":"alter_topic","d":{"id":` + shown + `,"set":{"k":"v"},"remove":["l"],"from":1,"add":[[2]]}}`},
		{&AlterPartitions{Broker: 1, Epoch: 2, Changes: []wire.AlterPartition{{Topic: id, Partition: 3, LeaderEpoch: 4, PartitionEpoch: 5, ISR: []wire.Member{{Broker: 1, Epoch: 2}}, Recovered: true}}},
			`{"v":1,"t":"alter_partitions","d":{"broker":1,"epoch":2,"changes":[{"topic":` + shown + `,"partition":3,"leader_epoch":4,"partition_epoch":5,"isr":[{"broker":1,"epoch":2}],"recovered":true}]}}`},
		{&DropReplicas{Broker: 1, Epoch: 2, Partitions: []wire.TopicPartition{{Topic: id, Partition: 3}}},
			`{"v":1,"t":"drop_replicas","d":{"broker":1,"epoch":2,"partitions":[{"topic":` + shown + `,"partition":3}]}}`},
		{&ElectLeader{Topic: id, Partition: 1, Broker: 2, Unclean: true}, `{"v":1,"t":"elect_leader","d":{"topic":` + shown + `,"partition":1,"broker":2,"unclean":true}}`},
		{&Reassign{Items: []Reassignment{{Topic: id, Partition: 1, Replicas: []int32{2, 3}}, {Topic: id}}},
			`{"v":1,"t":"reassign","d":{"items":[{"topic":` + shown + `,"partition":1,"replicas":[2,3]},{"topic":` + shown + `,"partition":0}]}}`},
		{&ReserveProducers{Count: 1000}, `{"v":1,"t":"reserve_producers","d":{"count":1000}}`},
		{&InitProducer{TransactionalID: "a"}, `{"v":1,"t":"init_producer","d":{"transactional_id":"a"}}`},
	} {
		got := encode(c.command)
		if string(got) != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		back, err := decode(got)
		if err != nil || !reflect.DeepEqual(back, c.command) {
			t.Errorf("%s comes back as %+v, %v", got, back, err)
		}
		seen[c.command.commandType()] = true
	}
	for name := range seen {
		if newCommand(name) == nil {
			t.Errorf("%s is not read", name)
		}
	}
	for _, c := range commandTypes() {
		if !seen[c.commandType()] {
			t.Errorf("%s is not shown here", c.commandType())
		}
	}
}

// F67: a command that this version doesn't know, or whose data have more in them
// than it knows, stops the member; it is never half applied.
func TestF67_AFutureCommandIsNeverHalfApplied(t *testing.T) {
	m := script(t, 2, []int32{1, 2, 3}, step{"fence 3", "1 isr=1,2"})
	topic, _ := m.state.Topic("a")
	for _, entry := range []string{
		`{"v":1,"t":"set_broker","d":{"id":1,"epoch":1,"fenced":true,"draining":false,"reason":"new"}}`,
		`{"v":1,"t":"alter_partitions","d":{"broker":1,"epoch":1,"changes":[{"topic":"` + topic.ID.String() + `","partition":0,"leader_epoch":0,"partition_epoch":1,"isr":[{"broker":1,"epoch":1,"rack":"x"}]}]}}`,
		`{"v":1,"t":"balance_leaders","d":{}}`,
	} {
		before := *m.state
		err, ok := m.raw([]byte(entry)).(*IncompatibleError)
		if !ok || err.Index != m.state.Index || m.state.Incompatible == 0 {
			t.Fatalf("%s: %v", entry, err)
		}
		after := *m.state
		after.Index, after.Incompatible = before.Index, before.Incompatible
		if after.Hash() != before.Hash() {
			t.Errorf("%s: the state changed", entry)
		}
		m.state.Incompatible = 0
	}
}
