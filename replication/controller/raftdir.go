package controller

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"highwater/replication/wire"
)

const (
	raftFile     = "raft.db"
	identityFile = "identity.json"

	// lockTimeout bounds the wait for the file's lock. The data directory's own
	// lock comes first, so nobody holds it but a dying process.
	lockTimeout = 2 * time.Second
)

// identity says who this member is. It is written before the quorum's first
// entry and once more after it, so that an empty or lost raft.db is never taken
// for a new cluster.
type identity struct {
	// ServerID is this member's id in the quorum: drawn once, so that a member
	// that lost its directory is another one and can't vote twice (K7, K9).
	ServerID uuid.UUID `json:"server_id"`
	NodeID   int32     `json:"node_id"`
	// Pledge is the only list of voters that this member founds a quorum with. It
	// is here before any other voter hears of it.
	Pledge []wire.FoundingVoter `json:"pledge,omitempty"`
	// Joined: it was not there at the founding; raft.db was empty when it became a
	// member, and is until a leader sends it the log.
	Joined bool `json:"joined,omitempty"`
	// Founded: this is a member of a quorum, which may have counted on what is in
	// raft.db. From here on the file must be there.
	Founded   bool   `json:"founded"`
	ClusterID string `json:"cluster_id,omitempty"` // with Founded; a joined member learns it later
	// URL, with Founded, is where this member was when it last started.
	URL string `json:"url,omitempty"`
}

// server is this member's id in raft's own terms.
func (i *identity) server() raft.ServerID { return serverID(i.NodeID, i.ServerID) }

// serverID names a member in raft's configuration. The broker's id in it is what
// tells whose old self a server is.
func serverID(broker int32, id uuid.UUID) raft.ServerID {
	return raft.ServerID(fmt.Sprintf("%d-%s", broker, id))
}

// serverBroker is the broker id in a serverID.
func serverBroker(id raft.ServerID) int32 {
	digits, _, _ := strings.Cut(string(id), "-")
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil {
		return NoLeader // no broker
	}
	return int32(n)
}

// raftDir is raft's directory, checked.
type raftDir struct {
	path string
	// alone: there is no other broker, as far as the settings tell.
	alone      bool
	outOfSpace func() // makes room on a full disk; may be nil
	identity
}

// openDir finds out whether the directory is new, whole, or neither; the last
// is a *DirError.
func openDir(cfg Config) (*raftDir, error) {
	if err := os.MkdirAll(cfg.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	d := &raftDir{path: cfg.Dir, alone: len(cfg.Cluster) <= 1 && len(cfg.Join) == 0, outOfSpace: cfg.OutOfSpace}
	data, err := os.ReadFile(filepath.Join(d.path, identityFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d, d.make(cfg)
	case err != nil:
		return nil, fmt.Errorf("controller: %w", err)
	}
	if err := json.Unmarshal(data, &d.identity); err != nil || d.ServerID == uuid.Nil {
		return nil, d.damage(identityFile + " is damaged")
	}
	if d.NodeID != cfg.NodeID {
		return nil, &DirError{Dir: d.path, Reason: fmt.Sprintf("it belongs to node %d, but this is node %d", d.NodeID, cfg.NodeID),
			Fix: fmt.Sprintf("Start with --node-id %d, or with another data directory.", d.NodeID)}
	}
	if !d.Founded {
		// The process died before it was a member: it never voted and never held
		// an entry for anybody, and the file may be half made (S11).
		if err := os.Remove(filepath.Join(d.path, raftFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("controller: %w", err)
		}
		return d, nil
	}
	info, err := os.Stat(filepath.Join(d.path, raftFile))
	if err != nil || info.Size() == 0 {
		return nil, d.damage(raftFile + " is missing or empty")
	}
	return d, d.check()
}

// make makes the identity of a new member. Partitions on disk are of a cluster
// that exists: only joining that gives them their topics back.
func (d *raftDir) make(cfg Config) error {
	if _, err := os.Stat(filepath.Join(d.path, raftFile)); err == nil {
		return d.damage(identityFile + " is missing")
	}
	if cfg.PartitionsOnDisk && len(cfg.Join) == 0 {
		return d.damage("there is no metadata here, but the data directory holds partitions")
	}
	d.identity = identity{ServerID: uuid.New(), NodeID: cfg.NodeID}
	return d.writeIdentity()
}

func (d *raftDir) damage(reason string) error {
	fix := "Without the metadata nobody knows which topics the partitions belong to, so no new cluster is made in its place. "
	if d.alone {
		fix += "Put the whole directory back from a copy; or, if the data may be lost, move the whole data directory away and start anew."
	} else {
		fix += "If the rest of the cluster is alive, move this directory away, leave the partitions where they are, and start once with " +
			"--join and the URL of another broker: this broker takes its own place again. Else put the whole directory back from a copy."
	}
	return &DirError{Dir: d.path, Reason: reason, Fix: fix}
}

// writeIdentity replaces the identity file, durably (S3), on a full disk in the room
// that is kept for such things.
func (d *raftDir) writeIdentity() error {
	err := d.replaceIdentity()
	if noRoom(err) && d.outOfSpace != nil {
		d.outOfSpace()
		err = d.replaceIdentity()
	}
	return err
}

func (d *raftDir) replaceIdentity() error {
	data, err := json.Marshal(d.identity)
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	temp := filepath.Join(d.path, identityFile+".tmp")
	if err := writeFileSync(temp, append(data, '\n')); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	if err := os.Rename(temp, filepath.Join(d.path, identityFile)); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	dir, err := os.Open(d.path)
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	return nil
}

func writeFileSync(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// check reads all of raft.db before raft does: bbolt panics on damaged pages,
// where nobody could catch it (S11), and raft trusts what it reads.
func (d *raftDir) check() (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a file cut off faults in bbolt's memory map
	defer func() {
		if p := recover(); p != nil {
			err = d.damage(fmt.Sprintf("%s is damaged: %v", raftFile, p))
		}
	}()
	db, err := bbolt.Open(filepath.Join(d.path, raftFile), 0o640, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return d.damage(fmt.Sprintf("%s cannot be opened: %v", raftFile, err))
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.View(d.checkLog)
}

func (d *raftDir) checkLog(tx *bbolt.Tx) error {
	var first error
	for problem := range tx.Check() { // to its end: the check reads through tx
		if first == nil {
			first = problem
		}
	}
	if first != nil {
		return d.damage(fmt.Sprintf("%s is damaged: %v", raftFile, first))
	}
	logs, conf := tx.Bucket([]byte("logs")), tx.Bucket([]byte("conf"))
	if logs == nil || conf == nil {
		return d.damage(raftFile + " holds no quorum")
	}
	var before uint64
	c := logs.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if len(k) != 8 || len(v) == 0 || (before != 0 && binary.BigEndian.Uint64(k) != before+1) {
			return d.damage(fmt.Sprintf("%s has a hole after entry %d", raftFile, before))
		}
		before = binary.BigEndian.Uint64(k)
	}
	if d.Joined && before == 0 {
		return nil // no leader has sent it anything yet, or it has a snapshot only
	}
	if len(conf.Get([]byte("CurrentTerm"))) != 8 || bytes.Equal(conf.Get([]byte("CurrentTerm")), make([]byte, 8)) {
		return d.damage(raftFile + " holds no term")
	}
	return nil
}

func (d *raftDir) openStore() (*raftboltdb.BoltStore, error) {
	store, err := raftboltdb.New(raftboltdb.Options{
		Path:                    filepath.Join(d.path, raftFile),
		BoltOptions:             &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType},
		MsgpackUseNewTimeFormat: true,
	})
	if err != nil {
		return nil, fmt.Errorf("controller: %s: %w", raftFile, err)
	}
	return store, nil
}
