package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"

	"github.com/google/uuid"

	"highwater/storage/vfs"
)

const (
	identityFileName = "meta.json"
	cleanFileName    = "clean-shutdown"

	// formatVersion of everything in the data directory. A directory of a newer
	// version is refused, as this program can't know what it would break.
	formatVersion = 1
)

// Identity says whose data directory this is.
type Identity struct {
	ClusterID   string // empty until known
	NodeID      int32  // 0 until known
	DirectoryID string // made with the directory; a replaced disk has another one (R73)
}

// IdentityError: the data directory belongs to another node (F36) or cluster
// (F37). Nothing in it was touched.
type IdentityError struct {
	Dir, Field, Have, Want string
}

func (e *IdentityError) Error() string {
	return fmt.Sprintf("storage: %s belongs to %s %s, not to %s", e.Dir, e.Field, e.Have, e.Want)
}

// FormatVersionError: the data directory was written by a newer Highwater.
type FormatVersionError struct {
	Dir                string
	Version, Supported int
}

func (e *FormatVersionError) Error() string {
	return fmt.Sprintf("storage: %s has format version %d, this program knows up to %d", e.Dir, e.Version, e.Supported)
}

// identityFile is meta.json.
type identityFile struct {
	FormatVersion   int    `json:"format_version"`
	ClusterID       string `json:"cluster_id"`
	NodeID          int32  `json:"node_id"`
	DirectoryID     string `json:"directory_id"`
	IndexGeneration uint64 `json:"index_generation"` // see checkGeneration
	// Fsync is the mode of the last run. Unproven: some run since the controller was
	// last told reported more than it had fsynced, or saw the disk fail (R72).
	Fsync    Fsync `json:"fsync,omitempty"`
	Unproven bool  `json:"unproven,omitempty"`
	// Forgetful: the index was made anew, or lost a log's entry, since the controller was
	// last told, so a log that it doesn't know may have been here all the same (NeverHad).
	Forgetful bool `json:"forgetful,omitempty"`
}

// cleanFile is the clean-shutdown marker: the last thing a run writes, and only
// if everything before it was flushed (R71).
type cleanFile struct {
	IndexGeneration uint64 `json:"index_generation"`
	BrokerEpoch     int64  `json:"broker_epoch"`
}

// readIdentity returns the zero identityFile for a directory that has none.
func readIdentity(fs vfs.FS, dir string) (id identityFile, found bool, err error) {
	data, err := vfs.ReadFile(fs, filepath.Join(dir, identityFileName))
	if errors.Is(err, iofs.ErrNotExist) {
		return id, false, nil
	}
	if err != nil {
		return id, false, fmt.Errorf("storage: %w", err)
	}
	if err := json.Unmarshal(data, &id); err != nil || id.FormatVersion < 1 {
		return id, false, &CorruptError{Path: identityFileName, Reason: "not an identity file; put the original back, or move the file away to start with a new identity"}
	}
	if id.FormatVersion > formatVersion {
		return id, false, &FormatVersionError{Dir: dir, Version: id.FormatVersion, Supported: formatVersion}
	}
	if _, err := uuid.Parse(id.DirectoryID); err != nil {
		return id, false, &CorruptError{Path: identityFileName, Reason: fmt.Sprintf("directory_id: %v", err)}
	}
	return id, true, nil
}

// adopt fills in what is not known yet, and refuses what contradicts; empty and 0
// are not known.
func (id *identityFile) adopt(dir, clusterID string, nodeID int32) error {
	if nodeID != 0 && id.NodeID != 0 && nodeID != id.NodeID {
		return &IdentityError{Dir: dir, Field: "node", Have: fmt.Sprint(id.NodeID), Want: fmt.Sprint(nodeID)}
	}
	if clusterID != "" && id.ClusterID != "" && clusterID != id.ClusterID {
		return &IdentityError{Dir: dir, Field: "cluster", Have: id.ClusterID, Want: clusterID}
	}
	if nodeID != 0 {
		id.NodeID = nodeID
	}
	if clusterID != "" {
		id.ClusterID = clusterID
	}
	return nil
}

func (id *identityFile) write(fs vfs.FS, dir string) error {
	data, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	return wrap(vfs.WriteFile(fs, filepath.Join(dir, identityFileName), append(data, '\n')))
}

// readClean returns false if the last run didn't end cleanly, or the marker can't be read.
func readClean(fs vfs.FS, dir string) (c cleanFile, found bool, err error) {
	data, err := vfs.ReadFile(fs, filepath.Join(dir, cleanFileName))
	if errors.Is(err, iofs.ErrNotExist) {
		return c, false, nil
	}
	if err != nil {
		return c, false, fmt.Errorf("storage: %w", err)
	}
	if json.Unmarshal(data, &c) != nil || c.IndexGeneration == 0 {
		return cleanFile{}, false, nil // in doubt, unclean
	}
	return c, true, nil
}

func (c *cleanFile) write(fs vfs.FS, dir string) error {
	data, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	return wrap(vfs.WriteFile(fs, filepath.Join(dir, cleanFileName), append(data, '\n')))
}

// Identity of the data directory.
func (s *Store) Identity() Identity {
	s.identityMu.Lock()
	defer s.identityMu.Unlock()
	return Identity{ClusterID: s.identity.ClusterID, NodeID: s.identity.NodeID, DirectoryID: s.identity.DirectoryID}
}

// SetIdentity makes the directory this cluster's and node's, durably; empty and 0
// leave things as they are. *IdentityError says that it is another's already.
func (s *Store) SetIdentity(clusterID string, nodeID int32) error {
	s.identityMu.Lock()
	defer s.identityMu.Unlock()
	changed := s.identity
	if err := changed.adopt(s.opts.Dir, clusterID, nodeID); err != nil {
		return err
	}
	if changed == s.identity {
		return nil
	}
	if err := s.writeIdentity(changed); err != nil {
		return err
	}
	s.identity = changed
	return nil
}

// writeIdentity makes id what the file says, on a full disk in the ballast's place.
func (s *Store) writeIdentity(id identityFile) error {
	return withSpace(s.guard.outOfSpace, func() error { return id.write(s.opts.FS, s.opts.Dir) })
}

// PreviousBrokerEpoch is the broker epoch that the last run noted before it closed
// cleanly; ok is false if it didn't, or noted none (R71).
func (s *Store) PreviousBrokerEpoch() (epoch int64, ok bool) {
	return s.previous.BrokerEpoch, s.clean && s.previous.BrokerEpoch != 0
}

// CleanStart says that the last run closed cleanly, that the index belongs to it,
// and that the index passed its check. Only then may a log's own clean mark be believed.
func (s *Store) CleanStart() bool { return s.clean }
