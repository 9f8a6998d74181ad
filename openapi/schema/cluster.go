package schema

// Cluster is the metadata quorum and the brokers.
type Cluster struct {
	ClusterID  string       `json:"cluster_id" validate:"required"`
	Controller Quorum       `json:"controller" validate:"required"`
	Brokers    []BrokerInfo `json:"brokers" validate:"required"`
}

// Quorum is the metadata quorum as this broker sees it.
type Quorum struct {
	// The leading broker's id; -1: there is none right now.
	Leader int32 `json:"leader" validate:"required" minimum:"-1" example:"1"`
	// Raft's term.
	Term int64 `json:"term" validate:"required" format:"int64" minimum:"0" example:"2"`
	// The ids of the voting brokers.
	Voters []int32 `json:"voters" validate:"required"`
}

// BrokerInfo is one registered broker.
type BrokerInfo struct {
	ID int32 `json:"id" validate:"required" example:"1"`
	// Where clients reach it.
	URL string `json:"url" validate:"required" example:"http://127.0.0.1:8080"`
	// A fenced broker leads nothing; a draining one is shutting down.
	State   string `json:"state" validate:"required" enums:"active,fenced,draining"`
	Version string `json:"version" validate:"required"`
}

// BrokerList is the brokers' ids.
type BrokerList struct {
	Brokers []int32 `json:"brokers" validate:"required"`
}

// About says what this is.
type About struct {
	Name      string `json:"name" validate:"required" example:"highwater"`
	Version   string `json:"version" validate:"required"`
	ClusterID string `json:"cluster_id" validate:"required"`
	// Paths by what they are for.
	Links map[string]string `json:"links" validate:"required"`
}

// Health says that the broker serves.
type Health struct {
	Status string `json:"status" validate:"required" example:"ok"`
}
