package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	indexFileName = "index.db"
	indexTempName = "index.db.tmp"
	// damagedPrefix is followed by a number that grows.
	damagedPrefix = "index.db.damaged-"
	// keptDamaged is how many damaged index files stay for whoever wants to look.
	keptDamaged = 2

	// indexLockTimeout: the store's own lock is held, so only a tool that looks
	// into the file can hold bbolt's.
	indexLockTimeout = 2 * time.Second
	// indexMapSize is address space, not memory: below it the file grows without
	// waiting for readers.
	indexMapSize = 64 << 20
	// indexGrowth is by how much the file grows at once, sparsely.
	indexGrowth = 1 << 20

	// The file never shrinks by itself. It is copied at a clean open when it is at
	// least this large and more than half of it is free.
	compactMinPages = 16 << 20 / indexPageSize
)

// indexOptions of every opening of an index file. NoSync stays false (S11). The
// freelist isn't written at each commit, but at a clean close (setGeneration).
func indexOptions() *bbolt.Options {
	return &bbolt.Options{
		Timeout:         indexLockTimeout,
		PageSize:        indexPageSize,
		InitialMmapSize: indexMapSize,
		NoFreelistSync:  true,
		FreelistType:    bbolt.FreelistMapType,
		NoStatistics:    true,
	}
}

// indexConfig is what openIndex needs to know.
type indexConfig struct {
	dir        string
	generation uint64 // as the identity file has it; 0 if there is none
	expected   bool   // there are logs, so that a missing index is worth a warning
	clean      bool   // the last run closed cleanly: time to compact
	log        zerolog.Logger
	syncNames  func() error // called before each write, see disk.syncNames
	onWrite    func(time.Duration)
	outOfSpace func() // makes room, if it can
}

// openIndex opens the data directory's index. A file that is damaged, empty, cut
// off, missing, or an older copy is moved aside, and one takes its place that has
// only what is whole in the old one; rebuilt says so, and also that a log's entry in
// a whole file was damaged and had to go. Each log of which nothing is known then is
// rebuilt from its segments. stored is the generation found in the file, 0 if it has
// another one's place.
func openIndex(cfg indexConfig) (ix *index, stored uint64, rebuilt bool, err error) {
	path := filepath.Join(cfg.dir, indexFileName)
	// What a process left that died while it made or compacted the file (F52).
	if err := os.Remove(filepath.Join(cfg.dir, indexTempName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, 0, false, fmt.Errorf("storage: %w", err)
	}
	facts, err := checkIndexFile(path)
	if err == nil {
		err = checkGeneration(facts.generation, cfg.generation)
	}
	if err == nil && cfg.clean && facts.pages >= compactMinPages && facts.freePages > facts.pages/2 {
		if err := compactIndex(cfg.dir); err != nil { // a disk too full for the copy, for one
			cfg.log.Warn().Err(err).Msg("index not compacted")
		}
	}
	var db *bbolt.DB
	if err == nil {
		db, err = openBolt(path)
	}
	if bad := (*CorruptError)(nil); errors.As(err, &bad) || errors.Is(err, os.ErrNotExist) {
		rebuilt = true
		db, err = replaceIndex(cfg, err)
	}
	if err != nil {
		return nil, 0, false, err
	}
	if !rebuilt {
		if facts.older {
			if err := addBuckets(db); err != nil {
				return nil, 0, false, errors.Join(err, db.Close())
			}
		}
		stored = facts.generation
		if rebuilt, err = removeDamaged(db, facts.damaged); err != nil {
			return nil, 0, false, errors.Join(err, db.Close())
		}
		if len(facts.damaged) > 0 {
			cfg.log.Warn().Int("entries", len(facts.damaged)).Msg("index had damaged entries, using segments instead")
		}
	}
	ix = &index{db: db, log: cfg.log, syncNames: cfg.syncNames, onWrite: cfg.onWrite, outOfSpace: cfg.outOfSpace, writing: make(chan struct{}, 1), wake: make(chan struct{}, 1), dirty: newLayer()}
	ix.writing <- struct{}{}
	return ix, stored, rebuilt, nil
}

// checkGeneration tells an older copy of the index, put back, from the one that
// belongs to this directory. A store's opening and its clean close each raise the
// generation, in the index first and in the identity file second, so a file that
// is one ahead is what a crash between the two leaves.
func checkGeneration(stored, identity uint64) error {
	if stored != identity && stored != identity+1 {
		return &CorruptError{Path: indexFileName, Reason: fmt.Sprintf("index is of generation %d, the data directory of %d: one of them is an older copy", stored, identity)}
	}
	return nil
}

// openBolt opens a file that checkIndexFile let pass. Should bbolt still panic on
// it, the file counts as damaged.
func openBolt(path string) (db *bbolt.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &CorruptError{Path: filepath.Base(path), Reason: fmt.Sprintf("bbolt panics: %v", p)}
		}
	}()
	db, err = bbolt.Open(path, 0o640, indexOptions())
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("storage: %s is locked by another program", path)
	}
	if err != nil {
		return nil, fmt.Errorf("storage: %s: %w", path, err)
	}
	db.AllocSize = indexGrowth
	return db, nil
}

// compactIndex replaces the index file by a copy without its free pages.
func compactIndex(dir string) error {
	old, err := openBolt(filepath.Join(dir, indexFileName))
	if err != nil {
		return err
	}
	defer func() { _ = old.Close() }() // nothing was written to it
	compact, err := openBolt(filepath.Join(dir, indexTempName))
	if err != nil {
		return err
	}
	const txBytes = 16 << 20
	err = bbolt.Compact(compact, old, txBytes)
	if err := errors.Join(err, compact.Close()); err != nil {
		return fmt.Errorf("storage: compact index: %w", err)
	}
	return installIndex(dir)
}

func installIndex(dir string) error {
	temp := filepath.Join(dir, indexTempName)
	if err := syncFile(temp); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(dir, indexFileName)); err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	return syncDir(dir)
}

// setGeneration stores the generation, durably. The last commit of a clean run
// also stores the list of free pages, which the next open would else make by
// looking at every page once more; an unclean one has to.
func (ix *index) setGeneration(generation uint64, last bool) error {
	<-ix.writing
	defer func() { ix.writing <- struct{}{} }()
	ix.db.NoFreelistSync = !last
	err := ix.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketStore).Put(keyGeneration, appendGeneration(nil, generation))
	})
	if err != nil {
		return fmt.Errorf("storage: index: %w", err)
	}
	return nil
}

// outOfSpace says that err is a write that found the disk full. bbolt rolls such
// a transaction back, and unlike a failed fsync it may be tried again: nothing
// was promised and nothing on disk is in doubt.
func outOfSpace(err error) bool {
	var write *os.PathError
	return errors.As(err, &write) && isDiskFull(err)
}
