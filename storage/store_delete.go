package storage

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Marks are followed by a number, in the name of a directory that is no log any more.
const (
	deletedMark = ".deleted-" // it is to be removed
	strayMark   = ".stray-"   // nobody knows its topic; a person decides
)

func (s *Store) partitionsDir() string { return filepath.Join(s.opts.Dir, "partitions") }

func (s *Store) logDir(id PartitionID) string { return filepath.Join(s.partitionsDir(), id.String()) }

// LogsOnDisk lists every partition directory there is, opened or not.
func (s *Store) LogsOnDisk() ([]PartitionID, error) {
	entries, err := s.opts.FS.List(s.partitionsDir())
	if err != nil {
		return nil, fmt.Errorf("storage: %w", err)
	}
	var ids []PartitionID
	for _, e := range entries {
		if id, ok := parsePartitionID(e.Name); ok && e.Dir {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// parsePartitionID is the inverse of PartitionID.String.
func parsePartitionID(name string) (id PartitionID, ok bool) {
	const uuidSize = 36
	if len(name) < uuidSize+2 || name[uuidSize] != '-' {
		return id, false
	}
	topic, err := uuid.Parse(name[:uuidSize])
	if err != nil {
		return id, false
	}
	partition, err := strconv.ParseInt(name[uuidSize+1:], 10, 32)
	id = PartitionID{Topic: topic, Partition: int32(partition)}
	return id, err == nil && partition >= 0 && id.String() == name
}

// DeleteLog removes a partition's log. When it returns the log is gone for good,
// though its bytes go later, in Run (R86). The log must not be used after. A log
// that isn't there is no error.
func (s *Store) DeleteLog(id PartitionID) error {
	s.discard(id)
	if err := s.renameMarked(id, deletedMark); err != nil {
		return err
	}
	if err := s.index.drop(id); err != nil {
		return err
	}
	select {
	case s.removals <- struct{}{}:
	default:
	}
	return nil
}

// discard closes the log, if it is open, without writing what is staged.
func (s *Store) discard(id PartitionID) {
	s.mu.Lock()
	o := s.logs[id]
	delete(s.logs, id)
	s.mu.Unlock()
	if o != nil {
		if <-o.ready; o.err == nil {
			o.log.discard()
		}
	}
}

// SetAside takes a log that nobody uses out of the way, but keeps its bytes: its
// topic isn't known (R85), and should that be the mistake they are still there.
func (s *Store) SetAside(id PartitionID) error {
	s.discard(id)
	if err := s.renameMarked(id, strayMark); err != nil {
		return err
	}
	return s.index.drop(id)
}

// renameMarked gives the log's directory a name that LogsOnDisk doesn't list, durably.
func (s *Store) renameMarked(id PartitionID, mark string) error {
	for n := 1; ; n++ {
		to := s.logDir(id) + mark + strconv.Itoa(n)
		if _, err := s.opts.FS.List(to); err == nil {
			continue // an earlier one is still there
		}
		err := withSpace(s.guard.outOfSpace, func() error { return s.opts.FS.Rename(s.logDir(id), to) })
		if errors.Is(err, iofs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return wrap(err)
		}
		break
	}
	err := s.opts.FS.SyncDir(s.partitionsDir())
	if open := (*os.PathError)(nil); errors.As(err, &open) && open.Op == "open" {
		return wrap(err) // no descriptor left, say (F50): the disk isn't to blame
	}
	if err != nil {
		return s.fail(err)
	}
	return nil
}

// runRemovals removes the directories of deleted logs, those of earlier runs too,
// until ctx ends.
func (s *Store) runRemovals(ctx context.Context) error {
	for {
		if err := s.removeDeleted(ctx); err != nil {
			// What can't be removed now is tried again at the next delete or start.
			s.opts.Logger.Warn().Err(err).Msg("deleted logs not removed")
		}
		s.guard.sampleSoon()
		select {
		case <-ctx.Done():
			return nil
		case <-s.removals:
		}
	}
}

// removeDeleted removes what bears the mark of the deleted, until ctx ends. The
// index forgets a log durably before the log's directory, the last trace of the
// deletion, goes: nothing else would ever take its entries out.
func (s *Store) removeDeleted(ctx context.Context) error {
	entries, err := s.opts.FS.List(s.partitionsDir())
	if err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	var doomed []string
	for _, e := range entries {
		name, _, marked := strings.Cut(e.Name, deletedMark)
		if !marked {
			continue
		}
		doomed = append(doomed, filepath.Join(s.partitionsDir(), e.Name))
		if id, ok := parsePartitionID(name); ok && !s.exists(id) {
			if err := s.index.drop(id); err != nil {
				return err
			}
		}
	}
	if len(doomed) == 0 {
		return nil
	}
	// Where the index finds no room, entries may be left in it: removing makes some.
	if err := s.index.flush(); err != nil && !errors.Is(err, ErrDiskNearlyFull) {
		return err // and final, but that is for the index's own loop to say
	}
	var errs []error
	for _, path := range doomed {
		if ctx.Err() == nil {
			errs = append(errs, s.opts.FS.RemoveAll(path))
		}
	}
	return errors.Join(errs...)
}

// exists says whether the log is open or has a directory, also when nobody can tell.
func (s *Store) exists(id PartitionID) bool {
	s.mu.Lock()
	_, open := s.logs[id]
	s.mu.Unlock()
	if open {
		return true
	}
	_, err := s.opts.FS.List(s.logDir(id))
	return !errors.Is(err, iofs.ErrNotExist)
}
