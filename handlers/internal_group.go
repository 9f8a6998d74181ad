package handlers

import (
	"net/http"

	"highwater/replication/group"
	"highwater/replication/wire"
)

// What other brokers ask of the groups that this one coordinates.

// SetGroups opens the paths of consumer groups. It may be called once.
func (in *Internal) SetGroups(g *group.Groups) { in.groups.Store(g) }

func (in *Internal) theGroups() (*group.Groups, error) {
	if g := in.groups.Load(); g != nil {
		return g, nil
	}
	return nil, errNotUp
}

// groupCall does one call. It is given up when the broker that asks gives up.
func (in *Internal) groupCall(w http.ResponseWriter, r *http.Request) error {
	g, err := in.theGroups()
	if err != nil {
		return err
	}
	return served(in, w, r, func(req *wire.GroupCall) *wire.GroupAnswer { return g.ServeCall(r.Context(), req) })
}

// groupBeat is the long-poll with the signs of life of another broker's polls.
func (in *Internal) groupBeat(w http.ResponseWriter, r *http.Request) error {
	g, err := in.theGroups()
	if err != nil {
		return err
	}
	ctx, cancel := in.polling(r)
	defer cancel()
	return served(in, w, r, func(req *wire.GroupBeat) *wire.GroupBeatAnswer { return g.ServeBeat(ctx, req) })
}

func (in *Internal) groupList(w http.ResponseWriter, r *http.Request) error {
	g, err := in.theGroups()
	if err != nil {
		return err
	}
	return served(in, w, r, func(req *wire.GroupList) *wire.GroupListAnswer { return g.ServeList(r.Context(), req) })
}
