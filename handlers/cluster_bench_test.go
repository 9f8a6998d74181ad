package handlers

import (
	"net/http"
	"testing"
)

// BenchmarkProduceThroughAnotherBroker is acks=1 of one small record, at the leader
// and through a broker that passes it on.
func BenchmarkProduceThroughAnotherBroker(b *testing.B) {
	c := startCluster(b)
	c.create("bench", 1)
	leader, other := c.leader("bench", 0)
	for name, n := range map[string]*clusterNode{"leader": leader, "other": other} {
		b.Run(name, func(b *testing.B) {
			n.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 16
			b.SetParallelism(4)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if a := n.post("/topics/bench/partitions/0/records?acks=1", "value"); a.status != 200 {
						b.Errorf("%d %s", a.status, a.body)
						return
					}
				}
			})
		})
	}
}
