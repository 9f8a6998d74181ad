package nemesis

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"chaos/segment"
)

// flipBit changes one bit of a committed record on its leader's disk (F42). Whoever
// reads it must never get it: the leader has to stand back, and to get the batch
// from the others again. Until it has, another loss is one too many.
func (n *Nemesis) flipBit(context.Context) (end func(), hit string) {
	topic := n.cfg.Topics[n.rnd.IntN(len(n.cfg.Topics))]
	at, bit := n.rnd.Float64(), byte(1)<<n.rnd.IntN(8)
	if lacking := n.c.OutOfSync(n.cfg.Topics); len(lacking) > 0 {
		return nil, lacking[0]
	}
	leader := n.c.Leader(topic, 0)
	if leader == 0 {
		return nil, "no leader"
	}
	b := n.c.Broker(leader)
	var view struct {
		ID string `json:"topic_id"`
	}
	var offsets struct {
		Start int64 `json:"beginning_offset"`
		End   int64 `json:"end_offset"`
	}
	if b.Ask("/topics/"+topic, &view) != nil || b.Ask("/topics/"+topic+"/partitions/0/offsets", &offsets) != nil {
		return nil, "the leader does not answer"
	}
	dir := filepath.Join(b.Dir(), "partitions", view.ID+"-0")
	batches, err := segment.ReadLog(dir)
	if err != nil {
		return nil, err.Error()
	}
	batches = slices.DeleteFunc(batches, func(x segment.Batch) bool { return x.Bad != nil || x.Base < offsets.Start || x.Last >= offsets.End })
	if len(batches) == 0 {
		return nil, "nothing is committed"
	}
	x := batches[int(at*float64(len(batches)))]
	if err := flip(x.File, x.At+int64(x.Size)-1, bit); err != nil {
		return nil, err.Error()
	}
	n.cfg.Log("  a bit is flipped in %s-0 at broker %d, offsets %d to %d", topic, leader, x.Base, x.Last)
	return func() { n.awaitMended(topic, leader, dir, x, bit) }, fmt.Sprintf("[%d] %s-0, offset %d", leader, topic, x.Base)
}

// flip changes a bit of a file.
func flip(path string, at int64, bit byte) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	one := make([]byte, 1)
	if _, err := f.ReadAt(one, at); err != nil {
		return err
	}
	one[0] ^= bit
	_, err = f.WriteAt(one, at)
	return err
}

// awaitMended reads the damaged batch until it is served again and the broker's
// copy is sound. A copy that nobody reads, as leadership has moved meanwhile, is put
// right by hand: finding it is the scrub's business, which takes its time.
func (n *Nemesis) awaitMended(topic string, broker int, dir string, x segment.Batch, bit byte) {
	path := fmt.Sprintf("/topics/%s/partitions/0/records?offset=%d&count=1", topic, x.Base)
	for deadline := time.Now().Add(rejoinLimit); ; time.Sleep(100 * time.Millisecond) {
		status, _, err := n.c.Broker(broker).Do("GET", path, "")
		served := err == nil && (status == http.StatusOK || status == http.StatusGone) // gone: deleted meanwhile
		state := damageOf(dir, x)
		if served && state != damaged {
			n.awaitWhole(broker)
			return
		}
		if leads := n.c.Leader(topic, 0); served && leads != broker && leads != 0 && state == damaged && time.Until(deadline) < rejoinLimit-10*time.Second {
			n.cfg.Log("  broker %d leads now: the bit is put right by hand", leads)
			if err := flip(x.File, x.At+int64(x.Size)-1, bit); err != nil {
				n.misdeed("flip-bit: %v", err)
			}
			return
		}
		if time.Now().After(deadline) {
			n.misdeed("F42: %s-0 offset %d, damaged at broker %d: not mended within %v (served: %d %v, copy: %v)", topic, x.Base, broker, rejoinLimit, status, err, state)
			return
		}
	}
}

// copyState of a batch on disk.
type copyState string

const (
	damaged copyState = "damaged"
	sound   copyState = "sound"
	absent  copyState = "not there"
)

func damageOf(dir string, x segment.Batch) copyState {
	batches, err := segment.ReadLog(dir)
	if err != nil {
		return absent
	}
	for _, b := range batches {
		switch { // a bad batch elsewhere is one that is being written
		case b.Base == x.Base && b.Bad != nil:
			return damaged
		case b.Base == x.Base:
			return sound
		}
	}
	return absent
}
