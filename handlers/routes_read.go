package handlers

import "net/http"

// readRoutes are the routes of topics, fetch, tails, offsets and the cluster.
func (a *api) readRoutes() []route {
	const (
		topic     = "/topics/{topic}"
		partition = topic + "/partitions/{partition}"
	)
	return []route{
		{method: http.MethodGet, pattern: "/", handle: a.getRoot},
		{method: http.MethodGet, pattern: "/healthz", handle: a.getHealth},
		{method: http.MethodGet, pattern: "/readyz", handle: a.getReady},
		{method: http.MethodGet, pattern: "/cluster", handle: a.getCluster},
		{method: http.MethodGet, pattern: "/brokers", handle: a.listBrokers},

		{method: http.MethodGet, pattern: "/topics", handle: a.listTopics},
		{method: http.MethodPost, pattern: "/topics", handle: a.postTopic, writes: true},
		{method: http.MethodGet, pattern: topic, handle: a.getTopic},
		{method: http.MethodPut, pattern: topic, handle: a.putTopic, writes: true, alters: true},
		{method: http.MethodPatch, pattern: topic, handle: a.patchTopic, writes: true, alters: true},
		{method: http.MethodDelete, pattern: topic, handle: a.deleteTopic, writes: true, alters: true},
		{method: http.MethodGet, pattern: topic + "/records", handle: a.fetchTopic},
		{method: http.MethodGet, pattern: topic + "/messages/{id}", handle: a.getMessage},

		{method: http.MethodGet, pattern: topic + "/partitions", handle: a.listPartitions},
		{method: http.MethodGet, pattern: partition, handle: a.getPartition},
		{method: http.MethodGet, pattern: partition + "/offsets", handle: a.getOffsets},
		{method: http.MethodGet, pattern: partition + "/records", handle: a.fetchRecords},
		{method: http.MethodDelete, pattern: partition + "/records", handle: a.deleteRecords, writes: true},
	}
}
