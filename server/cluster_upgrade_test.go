package main

import (
	"testing"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// TestF67_RollingUpgrade: brokers that say they speak another range of versions of
// the protocol stand for another release. One that doesn't speak the cluster's version
// ends and says why; a rolling restart into a release that speaks both is like any
// other; the new version is in use only once all speak it, and from then on nobody
// comes back who doesn't (R100).
func TestF67_RollingUpgrade(t *testing.T) {
	c := newCluster(t, 3)
	c.topic("orders", 3, 3, "min.insync.replicas", "2")
	finalize := func() (refused bool) {
		t.Helper()
		m := c.controller()
		answer := propose(t, c.client(m), c.view(m).ClusterID, "finalize_protocol", &controller.FinalizeProtocol{Version: 2}, "")
		if answer.Code != wire.OK {
			t.Fatalf("%+v", answer)
		}
		return len(answer.Error) > 0
	}
	tooNew := c.launchFurther(c.nodes[0], "--protocol=2-3")
	tooNew.mustEnd(t, "the cluster speaks version 1 of the protocol")

	l := startLoad(c, "orders", 3, 4, "-1", func() []*node { return c.nodes[:3] })
	for i, m := range c.nodes[:3] {
		l.await(30)
		if !finalize() {
			t.Fatalf("version 2 is in use though only %d brokers speak it", i)
		}
		m.stop()
		m.flags = append(m.flags, "--protocol=1-2")
		c.start(m)
		c.waitInSync("orders", 3)
	}
	if finalize() {
		t.Error("all brokers speak version 2, and it can't be taken into use")
	}
	l.await(30)
	old := c.nodes[1]
	old.stop()
	c.launch(old, "--protocol=1-1")
	old.mustEnd(t, "the cluster speaks version 2 of the protocol")
	c.start(old)
	c.waitInSync("orders", 3)
	c.launch(tooNew, "--protocol=2-3") // now it isn't
	c.waitServing(tooNew)
	l.end()
	l.noFailures()
	l.verify()
	c.stopAll()
}
