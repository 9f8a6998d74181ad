package storage_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"highwater/storage"
	"highwater/storage/vfs"
)

// TestStoreInMemory is a whole store on a file system in memory, as simulations use
// it: under fake time, over crashes of every mode, nothing that was durable is
// lost, the identity stays, and the markers tell the truth (F48, R71, R72).
func TestStoreInMemory(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { storeInMemory(t, seed) })
		})
	}
}

func storeInMemory(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	fs := vfs.NewMem(rng)
	durable := map[storage.PartitionID]int64{}
	directory, wasClean := "", true
	for round := range 5 {
		s, err := storage.Open(storage.Options{Dir: "/data", FS: fs, Fsync: storage.FsyncCommit, NodeID: 3, Logger: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		if id := s.Identity(); directory != "" && id.DirectoryID != directory {
			t.Fatalf("directory %s, was %s", id.DirectoryID, directory)
		}
		directory = s.Identity().DirectoryID
		if epoch, ok := s.PreviousBrokerEpoch(); round > 0 && (ok != wasClean || ok && epoch != int64(round)) {
			t.Fatalf("round %d: previous epoch %d %v, clean %v", round, epoch, ok, wasClean)
		}
		if !s.DurableStart() {
			t.Fatal("no durable start")
		}
		for id, reason := range heldBy(t, s) {
			if reason != "" {
				t.Fatalf("%v: %s", id, reason)
			}
		}
		s.SetBrokerEpoch(int64(round + 1))
		stop := runStore(t, s)
		for topic := range byte(3) {
			id := partition(topic)
			l := mustOpenLog(t, s, id)
			end := l.WrittenEnd()
			if end < durable[id] {
				t.Fatalf("round %d: %v ends at %d, %d was durable", round, id, end, durable[id])
			}
			checkRecords(t, l, 0, end)
			appendRecords(t, l, end, end+1+rng.Int64N(60))
			durable[id] = l.DurableEnd()
		}
		time.Sleep(time.Duration(rng.IntN(10)) * time.Second) // checkpoints, of the index too
		wasClean = rng.IntN(3) == 0
		if wasClean {
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			closeStore(t, s)
			fs = fs.Crash(vfs.CrashDropsAll)
			continue
		}
		crashed := fs.Crash(rng.IntN(vfs.CrashModes))
		_ = stop() // the dead process; whatever it still does, it does to the old one
		_ = s.Close()
		fs = crashed
	}
}
