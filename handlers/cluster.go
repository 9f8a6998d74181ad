package handlers

import (
	"net/http"
	"strings"
)

// getCluster describes the cluster.
//
//	@ID				getCluster
//	@Summary		Describe the cluster
//	@Description	The metadata quorum and every registered broker.
//	@Tags			cluster
//	@Success		200	{object}	schema.Cluster	"The cluster."
//	@Router			/cluster [get]
func (a *api) getCluster(w http.ResponseWriter, r *http.Request) error {
	if err := queryParams(r).err(); err != nil {
		return err
	}
	type quorumView struct {
		Leader int32   `json:"leader"` // -1: none right now
		Term   uint64  `json:"term"`
		Voters []int32 `json:"voters"`
	}
	type brokerView struct {
		ID      int32  `json:"id"`
		URL     string `json:"url"`
		State   string `json:"state"`
		Version string `json:"version"`
	}
	s, quorum := a.cfg.Broker.State(), a.cfg.Broker.Quorum()
	out := struct {
		ClusterID  string       `json:"cluster_id"`
		Controller quorumView   `json:"controller"`
		Brokers    []brokerView `json:"brokers"`
	}{s.ClusterID, quorumView{quorum.Leader, quorum.Term, quorum.Voters}, []brokerView{}}
	for _, id := range s.BrokerIDs() {
		b := s.Brokers[id]
		state := "active"
		switch {
		case b.Fenced:
			state = "fenced"
		case b.Draining:
			state = "draining"
		}
		out.Brokers = append(out.Brokers, brokerView{b.ID, b.URL, state, b.Version})
	}
	return answerJSON(w, r, http.StatusOK, out)
}

// listBrokers lists the brokers' ids.
//
//	@ID				listBrokers
//	@Summary		List brokers
//	@Description	The ids of all registered brokers, in order.
//	@Tags			cluster
//	@Success		200	{object}	schema.BrokerList	"The ids."
//	@Router			/brokers [get]
func (a *api) listBrokers(w http.ResponseWriter, r *http.Request) error {
	if err := queryParams(r).err(); err != nil {
		return err
	}
	return answerJSON(w, r, http.StatusOK, struct {
		Brokers []int32 `json:"brokers"`
	}{a.cfg.Broker.State().BrokerIDs()})
}

// getRoot tells what this is: a person's browser goes to the console, anything
// else gets links.
//
//	@ID				getRoot
//	@Summary		What this is
//	@Description	Name, version, cluster id and links. A browser, which asks for HTML, is sent to the console.
//	@Tags			cluster
//	@Success		200	{object}	schema.About	"Name, version and links."
//	@Success		303	"To the console."
//	@Router			/ [get]
func (a *api) getRoot(w http.ResponseWriter, r *http.Request) error {
	w.Header()["Vary"] = []string{"Accept"}
	if strings.Contains(strings.ToLower(strings.Join(r.Header["Accept"], ",")), "text/html") {
		// Relative: it works behind a proxy's path prefix too.
		w.Header()["Location"] = []string{"console/"}
		w.WriteHeader(http.StatusSeeOther)
		return nil
	}
	return answerJSON(w, r, http.StatusOK, struct {
		Name      string            `json:"name"`
		Version   string            `json:"version"`
		ClusterID string            `json:"cluster_id"`
		Links     map[string]string `json:"links"`
	}{"highwater", a.cfg.Version, a.cfg.Broker.State().ClusterID, map[string]string{
		"topics": "/topics", "consumers": "/consumers", "cluster": "/cluster", "brokers": "/brokers", "openapi": "/openapi.json", "docs": "/docs/",
		"console": "/console/", "health": "/healthz", "readiness": "/readyz", "metrics": "/metrics"}})
}
