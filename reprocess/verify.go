package reprocess

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/table"
)

// Comparison says how a new table differs from the old one, over the offsets that both have decided.
type Comparison struct {
	Rows      int64            `json:"rows"` // that both have
	OnlyOld   int64            `json:"onlyOld"`
	OnlyNew   int64            `json:"onlyNew"`
	Different int64            `json:"different"` // rows with another value in a column that both have
	Columns   map[string]int64 `json:"columns"`   // such rows, by column
	Added     []string         `json:"added,omitempty"`
	Dropped   []string         `json:"dropped,omitempty"`
	Samples   []Sample         `json:"samples,omitempty"` // the first few differences
	Undecided map[int32]int64  `json:"undecided"`         // offsets that the old table has and the new one has yet to decide
	// Unfinished says that some of these are of the job's plan, or of a partition that it has nothing of: no swap catches up
	// with those.
	Unfinished bool `json:"unfinished,omitempty"`
}

// Sample is one difference.
type Sample struct {
	Partition int32           `json:"partition"`
	Offset    int64           `json:"offset"`
	Column    string          `json:"column,omitempty"` // empty: the whole row is in one of the tables only
	Old       json.RawMessage `json:"old,omitempty"`
	New       json.RawMessage `json:"new,omitempty"`
}

const maxSamples = 10

// Same says that nothing differs but columns that were added, and that the job has done all of its plan: what was not
// compared is not the same.
func (c Comparison) Same() bool {
	return !c.Unfinished && c.OnlyOld == 0 && c.OnlyNew == 0 && c.Different == 0 && len(c.Dropped) == 0
}

// String gives the comparison as a person reads it.
func (c Comparison) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d rows are in both, %d only in the old table, %d only in the new one; %d of those in both differ", c.Rows, c.OnlyOld, c.OnlyNew, c.Different)
	for _, name := range slices.Sorted(maps.Keys(c.Columns)) {
		fmt.Fprintf(&s, "\ncolumn %s: another value in %d rows", name, c.Columns[name])
	}
	if len(c.Added) > 0 {
		fmt.Fprintf(&s, "\nnew columns: %s", strings.Join(c.Added, ", "))
	}
	if len(c.Dropped) > 0 {
		fmt.Fprintf(&s, "\ncolumns that are gone: %s", strings.Join(c.Dropped, ", "))
	}
	for _, x := range c.Samples {
		switch {
		case x.Column != "":
			fmt.Fprintf(&s, "\n  partition %d offset %d, %s: %s -> %s", x.Partition, x.Offset, x.Column, x.Old, x.New)
		case x.New == nil:
			fmt.Fprintf(&s, "\n  partition %d offset %d is in the old table only", x.Partition, x.Offset)
		default:
			fmt.Fprintf(&s, "\n  partition %d offset %d is in the new table only", x.Partition, x.Offset)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(c.Undecided)) {
		fmt.Fprintf(&s, "\npartition %d: the new table is %d offsets behind the old one; they were not compared", p, c.Undecided[p])
	}
	if c.Unfinished {
		s.WriteString("\nthe job is not done: run it to its end, or with --follow where partitions came later, and verify again")
	}
	return s.String()
}

// Verify compares the new table with an old one of the same topic, row by row. Columns named in ignore are left out.
func (j *Job) Verify(ctx context.Context, old *table.Table, ignore []string) (Comparison, error) {
	c := Comparison{Columns: map[string]int64{}, Undecided: map[int32]int64{}}
	if j.cfg.Outlet != nil {
		return c, errNoTable
	}
	snapOld, err := old.Log.Snapshot(ctx)
	if err != nil {
		return c, err
	}
	snapNew, err := j.sink.Log.Snapshot(ctx)
	if err != nil {
		return c, err
	}
	columns, err := c.columnsOf(old, snapOld, j.sink, snapNew, ignore)
	if err != nil {
		return c, err
	}
	filler, ok := snapOld.Metadata().Configuration[committer.FilledByProperty]
	if !ok {
		filler = j.cfg.Topic
	}
	for _, p := range j.compared(snapOld, snapNew, filler) {
		span, ok := c.span(j.plan, snapOld, snapNew, filler, p)
		if !ok {
			continue
		}
		of := []table.Range{span}
		if err := c.partition(p, rowsOf(ctx, old, snapOld, of, columns), rowsOf(ctx, j.sink, snapNew, of, columns)); err != nil {
			return c, err
		}
	}
	return c, nil
}

// compared are the partitions of a comparison: all that one of the tables knows, unless the job was given some by name.
func (j *Job) compared(old, new *deltalog.Snapshot, filler string) []int32 {
	if !j.plan.Named {
		return j.partitions(old, new, filler)
	}
	var named []int32
	for _, r := range j.plan.Ranges {
		named = append(named, r.Partition)
	}
	return named
}

// span gives the offsets of a partition that both tables have decided; false when there are none.
func (c *Comparison) span(plan *Plan, old, new *deltalog.Snapshot, filler string, p int32) (table.Range, bool) {
	var planned Split
	later := true // it came behind the plan
	for _, r := range plan.Ranges {
		if r.Partition == p {
			planned, later = r, false
		}
	}
	oldEnd, ok := table.LakeEnd(old, filler, p)
	if !ok {
		return table.Range{}, false
	}
	newEnd, known := table.LakeEnd(new, plan.Job, p)
	if !known {
		newEnd = planned.From // splits of it may be done, but not all
	}
	if newEnd < oldEnd {
		c.Undecided[p] = int64(oldEnd - newEnd)
		c.Unfinished = c.Unfinished || !known && (planned.To > planned.From || later)
	}
	at := table.Range{Partition: p, From: planned.From, To: min(oldEnd, newEnd)}
	return at, at.To > at.From
}

// columnsOf gives the columns that are compared.
func (c *Comparison) columnsOf(old *table.Table, snapOld *deltalog.Snapshot, new *table.Table, snapNew *deltalog.Snapshot, ignore []string) ([]string, error) {
	a, err := old.Schema(snapOld)
	if err != nil {
		return nil, err
	}
	b, err := new.Schema(snapNew)
	if err != nil {
		return nil, err
	}
	// Keys, headers and times belong to the record and stay as they are; the value is what a job may change, so its
	// columns are compared, and it alone where there are none.
	names := table.DefaultNames()
	place := []string{names.Partition, names.Offset}
	if payload, err := old.PayloadSchema(); err == nil && payload.NumFields() > 0 {
		place = append(place, names.Value)
	}
	if old.Names.Topic != "" {
		place = append(place, old.Names.Topic) // all rows that are compared have the same one
	}
	system := func(name string) bool { return slices.Contains(place, name) }
	both := []string{}
	for _, f := range a.Fields() {
		switch {
		case system(f.Name) || slices.Contains(ignore, f.Name):
		case b.HasField(f.Name):
			both = append(both, f.Name)
		default:
			c.Dropped = append(c.Dropped, f.Name)
		}
	}
	for _, f := range b.Fields() {
		if !system(f.Name) && !a.HasField(f.Name) && !slices.Contains(ignore, f.Name) {
			c.Added = append(c.Added, f.Name)
		}
	}
	return both, nil
}

// compared is a row: its offset and its columns as JSON.
type compared struct {
	offset int64
	json   []byte
}

// rowsOf gives the rows of a span in offset order.
func rowsOf(ctx context.Context, t *table.Table, snap *deltalog.Snapshot, span []table.Range, columns []string) iter.Seq2[compared, error] {
	return func(yield func(compared, error) bool) {
		offset := t.Names.Offset
		var buf []byte
		for rb, err := range t.Scan(ctx, snap, table.ScanOptions{Ranges: span, Columns: append([]string{offset}, columns...)}) {
			if err != nil {
				yield(compared{}, err)
				return
			}
			offsets, ok := rb.Column(0).(*array.Int64)
			var payload arrow.RecordBatch
			if ok {
				fields := rb.Schema().Fields()[1:]
				payload = array.NewRecordBatch(arrow.NewSchema(fields, nil), rb.Columns()[1:], rb.NumRows())
				buf, err = reader.AppendNDJSONExact(buf[:0], payload)
				payload.Release()
			} else {
				err = fmt.Errorf("column %s of %s is no long", offset, t.Store.URL())
			}
			rest := buf
			for i := 0; err == nil && i < int(rb.NumRows()); i++ {
				var line []byte
				line, rest, _ = bytes.Cut(rest, []byte("\n"))
				if !yield(compared{offsets.Value(i), line}, nil) {
					rb.Release()
					return
				}
			}
			rb.Release()
			if err != nil {
				yield(compared{}, err)
				return
			}
		}
	}
}

// partition walks both tables in step.
func (c *Comparison) partition(p int32, old, new iter.Seq2[compared, error]) error {
	nextOld, stopOld := iter.Pull2(old)
	defer stopOld()
	nextNew, stopNew := iter.Pull2(new)
	defer stopNew()
	a, err, okA := nextOld()
	b, errB, okB := nextNew()
	for {
		if err != nil || errB != nil {
			return fmt.Errorf("compare partition %d: %w", p, orElse(err, errB))
		}
		switch {
		case !okA && !okB:
			return nil
		case !okB || okA && a.offset < b.offset:
			c.OnlyOld++
			c.sample(Sample{Partition: p, Offset: a.offset, Old: bytes.Clone(a.json)})
			a, err, okA = nextOld()
		case !okA || b.offset < a.offset:
			c.OnlyNew++
			c.sample(Sample{Partition: p, Offset: b.offset, New: bytes.Clone(b.json)})
			b, errB, okB = nextNew()
		default:
			c.Rows++
			if !bytes.Equal(a.json, b.json) {
				if err := c.difference(p, a, b); err != nil {
					return err
				}
			}
			a, err, okA = nextOld()
			b, errB, okB = nextNew()
		}
	}
}

func orElse(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func (c *Comparison) difference(p int32, a, b compared) error {
	var old, new map[string]json.RawMessage
	if err := json.Unmarshal(a.json, &old); err != nil {
		return err
	}
	if err := json.Unmarshal(b.json, &new); err != nil {
		return err
	}
	c.Different++
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if !bytes.Equal(old[name], new[name]) {
			c.Columns[name]++
			c.sample(Sample{p, a.offset, name, bytes.Clone(old[name]), bytes.Clone(new[name])})
		}
	}
	return nil
}

func (c *Comparison) sample(s Sample) {
	if len(c.Samples) < maxSamples {
		c.Samples = append(c.Samples, s)
	}
}
