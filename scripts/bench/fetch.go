package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	pageBytes = 1 << 20 // P9
	// randomPageBytes is asked for at each random offset of P11.
	randomPageBytes = 64 << 10
	// randomRequests is how many different random offsets go round.
	randomRequests = 20_000
	sampledAnswers = 100
	// fillRecords is in one request of the unmeasured filling of a log.
	fillRecords = batchRecords

	// Where a Kafka record batch v2 says how long it is, and how much it doesn't count.
	batchLengthAt  = 8
	batchHeadBytes = 12
)

// fill appends about size bytes of stored batches to a topic's one partition,
// whose segments are in dir.
func (b *bench) fill(topic, dir string, size int64) error {
	request := produceRequests("/topics/"+topic+"?acks=1&response=summary", fillRecords)
	have, err := logSize(dir)
	if err != nil {
		return err
	}
	const each = fillRecords * valueBytes
	return b.pump(b.broker.addr, int(max(0, size-have+each-1)/each), request)
}

// segments lists the segment files of a partition's directory in offset order.
func segments(dir string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	slices.Sort(names)
	return names, err
}

func logSize(dir string) (size int64, err error) {
	names, err := segments(dir)
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return 0, err
		}
		size += info.Size()
	}
	return size, err
}

// partitionDir is where the broker keeps a partition.
func (b *bench) partitionDir(topicID string, partition int) string {
	return filepath.Join(b.brokerDir, "partitions", topicID+"-"+strconv.Itoa(partition))
}

// shareFiles tells the reference which files it reads.
func (b *bench) shareFiles(files []string) error {
	req, err := http.NewRequestWithContext(b.ctx, http.MethodPost, b.reference.url("/files"), strings.NewReader(strings.Join(files, "\n")))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("reference: %s: %s", resp.Status, body)
	}
	return errors.Join(err, resp.Body.Close())
}

// measurePages fills P9. Both sides send the very same bytes: the broker renders
// them from its log, the bare loop preads them from a file.
func (b *bench) measurePages() error {
	id, err := b.createTopic("pages", 1)
	if err != nil {
		return err
	}
	if err := b.fill("pages", b.partitionDir(id, 0), b.pageLogBytes); err != nil {
		return err
	}
	fetches, reads, err := b.recordPages("pages", filepath.Join(b.dir, "pages.json"))
	if err != nil {
		return err
	}
	raw := b.httpSide("pread+write of the same bytes, no net/http", "page cache", b.reference, connections, 0, func(i int) []byte { return reads[i%len(reads)] })
	l := load{addr: b.rawAddr, conns: connections, request: func(i int) []byte { return reads[i%len(reads)] },
		status: http.StatusOK, warm: b.warm, measure: b.measure, pids: []int{b.reference.pid()}}
	raw.run = l.closedLoop
	s, err := b.interleave(raw,
		b.httpSide("fetch of 1 MiB pages as JSON", "page cache", b.broker, connections, 0, func(i int) []byte { return fetches[i%len(fetches)] }))
	if err != nil {
		return err
	}
	b.report.add(row{id: "P9", work: "fetch of 1 MiB pages as JSON from the page cache: bytes/s against pread+write of the same bytes", target: 0.45, stretch: 0.65, unit: percent, atLeast: true,
		rounds: perRound(each(s[1], (*sample).bytesPerSecond), each(s[0], (*sample).bytesPerSecond))})
	return nil
}

// recordPages walks a log page by page and gives the requests of both sides: the
// fetches, and the reads of the same answers from a file.
func (b *bench) recordPages(topic, file string) (fetches, reads [][]byte, err error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var at int64
	for offset := "0"; ; {
		path := fmt.Sprintf("/topics/%s/partitions/0/records?offset=%s&max_bytes=%d", topic, offset, pageBytes)
		body, header, err := b.call(http.MethodGet, path, nil)
		if err != nil {
			return nil, nil, err
		}
		next := header.Get("Highwater-Next-Offset")
		if next == offset || next == "" {
			break
		}
		offset = next
		if _, err := f.Write(body); err != nil {
			return nil, nil, err
		}
		fetches = append(fetches, get(path, "application/json"))
		reads = append(reads, get("/"+place{0, at, len(body)}.query(), ""))
		at += int64(len(body))
	}
	if len(fetches) == 0 {
		return nil, nil, errors.New("the log has no page")
	}
	return fetches, reads, b.shareFiles([]string{file})
}

// batchPlace says where on disk the batch of an offset begins.
type batchPlace struct {
	base int64
	file int
	at   int64
}

// findBatches reads the head of every batch of a partition's segments.
func findBatches(files []string) (places []batchPlace, end []int64, err error) {
	for i, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, nil, err
		}
		var head [batchHeadBytes]byte
		at := int64(0)
		for {
			if _, err := f.ReadAt(head[:], at); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, nil, errors.Join(err, f.Close())
			}
			length := int64(binary.BigEndian.Uint32(head[batchLengthAt:]))
			if length == 0 {
				break // space kept for appends to come
			}
			places = append(places, batchPlace{int64(binary.BigEndian.Uint64(head[:])), i, at})
			at += batchHeadBytes + length
		}
		end = append(end, at)
		if err := f.Close(); err != nil {
			return nil, nil, err
		}
	}
	if len(places) == 0 {
		return nil, nil, errors.New("the log has no batch")
	}
	return places, end, nil
}

// measureRandomReads fills P11 at a quarter, a half and the whole of the log.
func (b *bench) measureRandomReads() error {
	id, err := b.createTopic("random", 1)
	if err != nil {
		return err
	}
	dir := b.partitionDir(id, 0)
	var cost [][]float64
	for _, part := range []int64{4, 2, 1} {
		size := b.logBytes / part
		if err := b.fill("random", dir, size); err != nil {
			return err
		}
		ratios, err := b.randomRound(dir, size)
		if err != nil {
			return err
		}
		cost = append(cost, ratios)
	}
	b.report.add(row{id: "P11", work: fmt.Sprintf("fetch of %d KiB at random offsets of a log of %s, warm: cost against the same page at a known file position", randomPageBytes>>10, sizeText(b.logBytes)),
		target: 3, stretch: 1.5, unit: times, rounds: cost[2]})
	b.report.add(row{id: "P11", work: "flat as the log grows: that cost at 100 % of the log against at 25 %", unit: times, rounds: perRound(cost[2], cost[0])})
	return nil
}

func (b *bench) randomRound(dir string, size int64) ([]float64, error) {
	files, err := segments(dir)
	if err != nil {
		return nil, err
	}
	places, ends, err := findBatches(files)
	if err != nil {
		return nil, err
	}
	if err := b.shareFiles(files); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(workloadSeed, uint64(size)))
	at := make([]batchPlace, randomRequests)
	paths := make([]string, randomRequests)
	for i := range at {
		at[i] = places[rng.IntN(len(places))]
		paths[i] = fmt.Sprintf("/topics/random/partitions/0/records?offset=%d&max_bytes=%d", at[i].base+int64(rng.IntN(fillRecords)), randomPageBytes)
	}
	answered, err := b.answerSize(paths[:sampledAnswers])
	if err != nil {
		return nil, err
	}
	fetches := make([][]byte, randomRequests)
	reads := make([][]byte, randomRequests)
	for i := range at {
		end := ends[at[i].file]
		page := place{at[i].file, max(0, min(at[i].at, end-int64(answered))), int(min(int64(answered), end))}
		reads[i] = get("/page?"+page.query(), "")
		fetches[i] = get(paths[i], "application/json")
	}
	s, err := b.interleave(
		b.httpSide("net/http, pread of a known page, log of "+sizeText(size), "page cache", b.reference, connections, 0, func(i int) []byte { return reads[i%len(reads)] }),
		b.httpSide("fetch at a random offset, log of "+sizeText(size), "page cache", b.broker, connections, 0, func(i int) []byte { return fetches[i%len(fetches)] }))
	if err != nil {
		return nil, err
	}
	return perRound(each(s[0], (*sample).perSecond), each(s[1], (*sample).perSecond)), nil
}

// answerSize is the mean size of the answers to some fetches, so that both sides
// send as much.
func (b *bench) answerSize(paths []string) (int, error) {
	total := 0
	for _, path := range paths {
		body, _, err := b.call(http.MethodGet, path, nil)
		if err == nil && !bytes.HasPrefix(body, []byte("[{")) {
			err = fmt.Errorf("no records: %.100q", body)
		}
		if err != nil {
			return 0, err
		}
		total += len(body)
	}
	return total / len(paths), nil
}
