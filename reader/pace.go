package reader

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Rate bounds what a read gives, so that a replay leaves machine, store and network to the live work. Zero fields do
// not bound. Bytes are those of the columns given, as Arrow holds them.
type Rate struct {
	Records int64 // a second
	Bytes   int64 // a second
}

func (r Rate) set() bool { return r.Records > 0 || r.Bytes > 0 }

// batchRows cuts the rows of a batch so that the waits are short, a tenth of a second; a row is taken for a kilobyte.
func (r Rate) batchRows(rows int) int {
	if rows == 0 {
		rows = logBatchRows
	}
	if r.Records > 0 {
		rows = min(rows, int(min(r.Records/10, 1<<20)))
	}
	if r.Bytes > 0 {
		rows = min(rows, int(min(r.Bytes/10_000, 1<<20)))
	}
	return max(rows, 1)
}

func (r Rate) validate() error {
	if r.Records < 0 || r.Bytes < 0 {
		return fmt.Errorf("reader config: Rate %d records and %d bytes a second must not be negative", r.Records, r.Bytes)
	}
	return nil
}

// errRate is returned for a text that is no rate.
var errRate = errors.New("want records a second like 10000, bytes a second like 20MB or 8MiB, or both with a comma")

// ParseRate reads a rate as people write it: "10000" is records a second, "20MB" bytes a second, "10000,20MB" both.
func ParseRate(s string) (Rate, error) {
	var r Rate
	for _, part := range strings.Split(s, ",") {
		part = strings.TrimSpace(part)
		digits := strings.TrimRight(part, "kKMGiB")
		n, err := strconv.ParseInt(digits, 10, 64)
		unit, ok := map[string]int64{"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[part[len(digits):]]
		if err != nil || !ok || n < 1 || n > 1<<62/unit {
			return Rate{}, fmt.Errorf("rate %q: %w", s, errRate)
		}
		to := &r.Bytes
		if digits == part {
			to = &r.Records
		}
		if *to != 0 {
			return Rate{}, fmt.Errorf("rate %q: %w", s, errRate)
		}
		*to = n * unit
	}
	return r, nil
}

// Pace keeps readers, together, to a Rate. What was not used is not saved up: after a rest the rate is as before. It is
// safe for concurrent use; nil keeps to nothing.
type Pace struct {
	rate Rate

	mu    sync.Mutex
	ready time.Time // when the next read is due
}

// NewPace gives nil for a Rate that bounds nothing.
func NewPace(r Rate) *Pace {
	if !r.set() {
		return nil
	}
	return &Pace{rate: r}
}

// Wait waits until the next read is due.
func (p *Pace) Wait(ctx context.Context) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	d := time.Until(p.ready)
	p.mu.Unlock()
	if d > 0 && !rest(ctx, d) {
		return ctx.Err()
	}
	return nil
}

// Used counts what was read. Its time runs from when it was due, or from now if that is past.
func (p *Pace) Used(records, bytes int64) {
	if p == nil {
		return
	}
	var seconds float64
	if p.rate.Records > 0 {
		seconds = float64(records) / float64(p.rate.Records)
	}
	if p.rate.Bytes > 0 {
		seconds = max(seconds, float64(bytes)/float64(p.rate.Bytes))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.ready.Before(now) {
		p.ready = now
	}
	p.ready = p.ready.Add(time.Duration(seconds * float64(time.Second)))
}

// batchSize is the size of a batch's values, of the rows that it has only.
func batchSize(rb arrow.RecordBatch) (n int64) {
	for _, a := range rb.Columns() {
		n += arraySize(a)
	}
	return n
}

func arraySize(a arrow.Array) (n int64) {
	switch a := a.(type) {
	case array.BinaryLike:
		return int64(len(a.ValueBytes()))
	case array.ListLike:
		n = 4 * int64(a.Len())
		if a.Len() > 0 {
			from, _ := a.ValueOffsets(0)
			_, to := a.ValueOffsets(a.Len() - 1)
			if all := int64(a.ListValues().Len()); all > 0 {
				n += arraySize(a.ListValues()) * (to - from) / all
			}
		}
		return n
	case *array.Struct:
		for i := range a.NumField() {
			n += arraySize(a.Field(i))
		}
		return n
	}
	if t, ok := a.DataType().(arrow.FixedWidthDataType); ok {
		return int64(a.Len()) * int64(t.BitWidth()) / 8
	}
	return int64(a.Len())
}
