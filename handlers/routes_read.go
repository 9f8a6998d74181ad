package handlers

import "net/http"

// readRoutes are the routes of topics, fetch, tails, offsets and the cluster.
func (a *api) readRoutes() []route {
	return []route{
		{method: http.MethodPut, pattern: "/topics/{topic}", handle: a.putTopic},
		{method: http.MethodGet, pattern: "/topics/{topic}/partitions/{partition}/records", handle: a.fetchRecords},
		{method: http.MethodGet, pattern: "/healthz", handle: a.getHealth},
	}
}

func (a *api) getHealth(w http.ResponseWriter, _ *http.Request) error {
	_, err := w.Write([]byte("ok\n"))
	return err
}
