package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"time"
)

// partitionsPerTopic is how P13's partitions are spread over topics.
const partitionsPerTopic = 1000

// endOffset is the high watermark of a topic's partition 0.
func (b *bench) endOffset(topic string) (int64, error) {
	answer, _, err := b.call(http.MethodGet, "/topics/"+topic+"/partitions/0/offsets", nil)
	if err != nil {
		return 0, err
	}
	var offsets struct {
		End int64 `json:"end_offset"`
	}
	if err := json.Unmarshal(answer, &offsets); err != nil {
		return 0, fmt.Errorf("offsets: %w", err)
	}
	return offsets.End, nil
}

// measurePartitions fills P13: memory of idle partitions, start-up time, and
// what a clean start reads.
func (b *bench) measurePartitions() error {
	empty, err := b.idleRSS()
	if err != nil {
		return err
	}
	if err := b.makePartitions(); err != nil {
		return err
	}
	if err := b.stopBroker(); err != nil {
		return fmt.Errorf("clean stop: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(b.brokerDir, "partitions", "*", "*.log"))
	if err != nil {
		return err
	}
	if len(files) != b.partitions {
		return fmt.Errorf("%d segment files of %d partitions", len(files), b.partitions)
	}
	var ratios, rss, readShare []float64
	for range b.rounds {
		opening, err := openAndRead(files)
		if err != nil {
			return err
		}
		if err := b.startBroker(); err != nil {
			return err
		}
		startup := b.broker.startup
		read, err := procField(b.broker.pid(), "io", "rchar")
		if err != nil {
			return err
		}
		full, err := b.idleRSS()
		if err != nil {
			return err
		}
		if err := b.stopBroker(); err != nil {
			return fmt.Errorf("clean stop: %w", err)
		}
		ratios = append(ratios, startup.Seconds()/opening.Seconds())
		rss = append(rss, (full-empty)/float64(b.partitions))
		readShare = append(readShare, float64(read)/float64(b.partitions*b.partitionSize))
		b.report.addStart(startup, opening, read)
	}
	what := fmt.Sprintf("%d partitions on one broker", b.partitions)
	b.report.add(row{id: "P13", work: what + ", idle: RSS each", target: 12 << 10, stretch: 8 << 10, unit: kibibytes, rounds: rss})
	b.report.add(row{id: "P13", work: what + ": start-up (exec to ready) against opening and reading 4 KiB of each segment", target: 10, stretch: 4, unit: times, rounds: ratios})
	b.report.add(row{id: "P13", work: fmt.Sprintf("the same: bytes read by a clean start (rchar) against the %s in the segments", sizeText(int64(b.partitions)*int64(b.partitionSize))), unit: percent, rounds: readShare})
	return b.startBroker() // isolated stops it
}

func (b *bench) idleRSS() (float64, error) {
	if err := waitIdle(b.broker.pid()); err != nil {
		return 0, err
	}
	rss, err := rssBytes(b.broker.pid())
	return float64(rss), err
}

// makePartitions creates the topics and gives each partition one record.
func (b *bench) makePartitions() error {
	value := make([]byte, b.partitionSize)
	for i := range value {
		value[i] = 'x'
	}
	begun := time.Now()
	for made := 0; made < b.partitions; {
		n := min(partitionsPerTopic, b.partitions-made)
		topic := "many" + strconv.Itoa(made)
		if _, err := b.createTopic(topic, n); err != nil {
			return err
		}
		if err := b.fillPartitions(topic, n, string(value)); err != nil {
			return err
		}
		made += n
	}
	b.report.note("making and filling %d partitions took %.1f s", b.partitions, time.Since(begun).Seconds())
	return nil
}

// fillPartitions gives each partition of a topic one record, a few partitions a request.
func (b *bench) fillPartitions(topic string, partitions int, value string) error {
	const perRequest = 250
	for from := 0; from < partitions; from += perRequest {
		body := []byte(`{"records":[`)
		for p := from; p < min(from+perRequest, partitions); p++ {
			if p > from {
				body = append(body, ',')
			}
			body = fmt.Appendf(body, `{"partition":%d,"value":%q}`, p, value)
		}
		if _, _, err := b.call(http.MethodPost, "/topics/"+topic+"?acks=-1&response=summary", append(body, `]}`...)); err != nil {
			return errors.Join(fmt.Errorf("partitions from %d", from), err)
		}
	}
	return nil
}
