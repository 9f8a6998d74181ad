package storage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/bbolt"
)

// removeDamaged deletes entries whose checksum is wrong. lost: one of them was a
// log's entry in meta. Until the generation is raised the file then counts as an
// older copy: a start that dies before it has noted the loss leaves it to the next.
func removeDamaged(db *bbolt.DB, damaged []damagedEntry) (lost bool, err error) {
	if len(damaged) == 0 {
		return false, nil
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, d := range damaged {
			lost = lost || bytes.Equal(d.bucket, bucketMeta)
			if err := tx.Bucket(d.bucket).Delete(d.key); err != nil {
				return err
			}
		}
		if !lost {
			return nil
		}
		return tx.Bucket(bucketStore).Put(keyGeneration, appendGeneration(nil, 0))
	})
	if err != nil {
		return false, fmt.Errorf("storage: index: %w", err)
	}
	return lost, nil
}

// replaceIndex moves the index file aside, if there is one, and makes a new one
// from what can be saved of it.
func replaceIndex(cfg indexConfig, reason error) (*bbolt.DB, error) {
	kept, err := moveAside(cfg.dir)
	if err != nil {
		return nil, err
	}
	if kept == "" {
		reason = &CorruptError{Path: indexFileName, Reason: "there is no such file"}
	}
	saved, err := createIndex(cfg, kept)
	if err != nil {
		return nil, err
	}
	if kept != "" || cfg.expected {
		cfg.log.Warn().AnErr("reason", reason).Str("moved_to", kept).Int("saved_entries", saved).
			Msg("index is unusable, building it anew from the segments")
	}
	return openBolt(filepath.Join(cfg.dir, indexFileName))
}

// moveAside renames the index file to index.db.damaged-<n>, keeps the newest two
// of these, and returns the new name, or "" if there is no index file.
func moveAside(dir string) (string, error) {
	names, err := filepath.Glob(filepath.Join(dir, damagedPrefix+"*"))
	if err != nil {
		return "", fmt.Errorf("storage: %w", err)
	}
	var numbers []int
	for _, name := range names {
		if n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(name), damagedPrefix)); err == nil && n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	next := 1
	if len(numbers) > 0 {
		next = numbers[len(numbers)-1] + 1
	}
	kept := damagedPrefix + strconv.Itoa(next)
	if err := os.Rename(filepath.Join(dir, indexFileName), filepath.Join(dir, kept)); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return "", nil
		}
		return "", fmt.Errorf("storage: %w", err)
	}
	for len(numbers) >= keptDamaged {
		if err := os.Remove(filepath.Join(dir, damagedPrefix+strconv.Itoa(numbers[0]))); err != nil {
			return "", fmt.Errorf("storage: %w", err)
		}
		numbers = numbers[1:]
	}
	return kept, syncDir(dir)
}

// createIndex makes an index file of generation 0, with what can be saved of a
// damaged one, and returns how many entries that is. It has its name only once it
// is whole and on disk (S3, S11).
func createIndex(cfg indexConfig, damaged string) (saved int, err error) {
	db, err := openBolt(filepath.Join(cfg.dir, indexTempName))
	if err != nil {
		return 0, err
	}
	err = addBuckets(db)
	if err == nil && damaged != "" {
		saved, err = saveEntries(cfg, filepath.Join(cfg.dir, damaged), db)
	}
	if err == nil {
		err = db.Update(func(tx *bbolt.Tx) error {
			return tx.Bucket(bucketStore).Put(keyGeneration, appendGeneration(nil, 0))
		})
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return 0, fmt.Errorf("storage: new index: %w", err)
	}
	return saved, installIndex(cfg.dir)
}

// addBuckets makes the buckets that the file lacks.
func addBuckets(db *bbolt.DB) error {
	err := db.Update(func(tx *bbolt.Tx) error {
		for _, name := range indexBuckets() {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("storage: index: %w", err)
	}
	return nil
}

// saveEntries copies the whole entries of a damaged index file, so that one bad
// page costs the logs on it a rebuild, and not every log. An entry proves by its
// checksum that it was written, but not when: so nothing is taken from a file
// that isn't of this directory's generation, or in which a pointer may lead to an
// older copy of a page.
func saveEntries(cfg indexConfig, path string, to *bbolt.DB) (saved int, err error) {
	_, err = checkIndexFile(path)
	if bad := (*CorruptError)(nil); !errors.As(err, &bad) || strings.HasSuffix(bad.Reason, errStrayPages) {
		return 0, nil // whole but of another generation, unreadable, or not to be believed
	}
	facts, err := walkIndexFile(path, func(_, _, _ []byte) error { return nil })
	if err != nil || checkGeneration(facts.generation, cfg.generation) != nil {
		return 0, nil // nothing to be had
	}
	const perTransaction, bytesPerTransaction = 10_000, 16 << 20
	tx, err := to.Begin(true)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // of the last one, if it wasn't committed
	count, size := 0, 0                  // of the transaction
	_, err = walkIndexFile(path, func(bucket, key, value []byte) error {
		if bytes.Equal(bucket, bucketStore) {
			return nil
		}
		saved++
		count, size = count+1, size+len(value)
		if count >= perTransaction || size >= bytesPerTransaction {
			count, size = 0, 0
			if err := tx.Commit(); err != nil {
				return err
			}
			next, err := to.Begin(true)
			if err != nil {
				return err
			}
			tx = next
		}
		b := tx.Bucket(bucket)
		b.FillPercent = indexFillPercent
		return b.Put(key, bytes.Clone(value))
	})
	if err != nil {
		return 0, err
	}
	return saved, tx.Commit()
}
