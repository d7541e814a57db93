package reader

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/where"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// Places finds records of a table, and of its dead letters, by their offsets and by where they were in a log that is
// not Kafka's. It is safe for concurrent use.
type Places struct {
	Table *table.Table // keeps its list of files
	App   string       // whose positions are the table's
	// Dead opens the table of dead letters; nil, or one that gives nil: there are none.
	Dead func(ctx context.Context) (*table.Table, error)
}

// Place is a record, or the last of a run of offsets that are lost.
type Place struct {
	Offset record.Offset
	Origin record.Origin
	Lost   bool // then Origin says nothing
}

// ErrNoOrigin is returned for a table that does not keep where its records were.
var ErrNoOrigin = errors.New("the table has no columns for ledger, entry and batch: it was not filled from Pulsar")

// End gives the first offset of a partition that the table has not decided; false when it has nothing of it.
func (p *Places) End(ctx context.Context, partition int32) (record.Offset, bool, error) {
	snap, err := p.Table.Log.Snapshot(ctx)
	if err != nil {
		return 0, false, fmt.Errorf("read table: %w", err)
	}
	end, ok := table.LakeEnd(snap, p.App, partition)
	return end, ok, nil
}

// Before gives the last place of a partition below limit: a row, a dead letter, one that is noted, or the end of a loss; false
// when there is none.
func (p *Places) Before(ctx context.Context, partition int32, limit record.Offset) (best Place, ok bool, err error) {
	if n := p.Table.Names; n.Ledger == "" || n.Entry == "" || n.Batch == "" {
		return best, false, ErrNoOrigin
	}
	snap, err := p.Table.Log.Snapshot(ctx)
	if err != nil {
		return best, false, fmt.Errorf("read table: %w", err)
	}
	noted, ok, err := table.PlaceOf(snap, p.App, partition)
	if err != nil {
		return best, false, err
	}
	if ok = ok && noted.Offset < limit; ok {
		best = Place{Offset: noted.Offset, Origin: noted.Origin}
	}
	if row, found, err := lastBefore(ctx, p.Table, snap, partition, limit); err != nil {
		return best, false, err
	} else if found && (!ok || row.Offset > best.Offset) {
		best, ok = row, true
	}
	if ok && best.Offset == limit-1 {
		return best, true, nil
	}
	lost, err := table.Lost(snap, p.App, partition)
	if err != nil {
		return best, false, err
	}
	for _, l := range lost {
		if at := min(l.To, limit) - 1; l.From < limit && (!ok || at > best.Offset) {
			best, ok = Place{Offset: at, Lost: true}, true
		}
	}
	if p.Dead == nil || ok && best.Offset == limit-1 {
		return best, ok, nil
	}
	dead, err := p.Dead(ctx)
	if err != nil || dead == nil {
		return best, ok, err
	}
	if snap, err = dead.Log.Snapshot(ctx); err != nil {
		return best, false, fmt.Errorf("read dead letters: %w", err)
	}
	letter, found, err := lastBefore(ctx, dead, snap, partition, limit)
	if found && (!ok || letter.Offset > best.Offset) {
		best, ok = letter, true
	}
	return best, ok, err
}

// lastBefore looks at more and more rows below limit until there is one.
func lastBefore(ctx context.Context, t *table.Table, snap *deltalog.Snapshot, partition int32, limit record.Offset) (best Place, ok bool, err error) {
	const wider = 64
	for width := record.Offset(1); ; width *= wider {
		from := max(limit-width, 0)
		if width > 1<<40 {
			from = 0
		}
		opts := table.ScanOptions{Ranges: []table.Range{{Partition: partition, From: from, To: limit}}, Columns: placeColumns(t.Names)}
		best, ok, err = scanPlaces(ctx, t, snap, opts)
		if ok || err != nil || from == 0 {
			return best, ok, err
		}
	}
}

func placeColumns(n table.Names) []string {
	columns := []string{n.Offset}
	for _, name := range []string{n.Ledger, n.Entry, n.Batch, n.Index, n.FirstChunk} {
		if name != "" {
			columns = append(columns, name)
		}
	}
	if n.Ledger == "" { // dead letters keep the headers as they came
		columns = append(columns, n.Headers)
	}
	return columns
}

// scanPlaces gives the last row of a scan that has an origin.
func scanPlaces(ctx context.Context, t *table.Table, snap *deltalog.Snapshot, opts table.ScanOptions) (best Place, ok bool, err error) {
	for rb, err := range t.Scan(ctx, snap, opts) {
		if err != nil {
			return best, false, err
		}
		for i := int(rb.NumRows()) - 1; i >= 0; i-- {
			at, has := placeAt(t.Names, rb, i)
			if has {
				best, ok = at, true
				break
			}
		}
		rb.Release()
	}
	return best, ok, nil
}

func placeAt(n table.Names, rb arrow.RecordBatch, i int) (p Place, ok bool) {
	column := func(name string) arrow.Array {
		if at := rb.Schema().FieldIndices(name); name != "" && len(at) == 1 && rb.Column(at[0]).IsValid(i) {
			return rb.Column(at[0])
		}
		return nil
	}
	offset, ok := column(n.Offset).(*array.Int64)
	if !ok {
		return p, false
	}
	p.Offset = record.Offset(offset.Value(i))
	if n.Ledger == "" {
		headers, ok := column(n.Headers).(*array.List)
		return p, ok && originIn(headers, i, &p.Origin)
	}
	ledger, ok1 := column(n.Ledger).(*array.Int64)
	entry, ok2 := column(n.Entry).(*array.Int64)
	batch, ok3 := column(n.Batch).(*array.Int32)
	if !ok1 || !ok2 || !ok3 {
		return p, false
	}
	p.Origin = record.Origin{Ledger: ledger.Value(i), Entry: entry.Value(i), Batch: batch.Value(i), FirstLedger: -1, FirstEntry: -1, Index: -1}
	if index, ok := column(n.Index).(*array.Int64); ok {
		p.Origin.Index = index.Value(i)
	}
	if chunk, ok := column(n.FirstChunk).(*array.String); ok {
		if _, err := fmt.Sscanf(chunk.Value(i), "%d:%d", &p.Origin.FirstLedger, &p.Origin.FirstEntry); err != nil {
			return p, false
		}
	}
	return p, true
}

func originIn(headers *array.List, i int, o *record.Origin) bool {
	from, to := headers.ValueOffsets(i)
	header, ok := headers.ListValues().(*array.Struct)
	if !ok || from == to {
		return false
	}
	key, ok1 := header.Field(0).(*array.String)
	value, ok2 := header.Field(1).(*array.Binary)
	return ok1 && ok2 && key.Value(int(from)) == record.OriginHeader && o.Parse(value.Value(int(from))) == nil
}

// OffsetOf gives the offset of the first row of a partition at or behind an entry and the index in its batch; false when
// the table has none.
func (p *Places) OffsetOf(ctx context.Context, partition int32, ledger, entry int64, batch int32) (record.Offset, bool, error) {
	n := p.Table.Names
	if n.Ledger == "" || n.Entry == "" || n.Batch == "" {
		return 0, false, ErrNoOrigin
	}
	snap, err := p.Table.Log.Snapshot(ctx)
	if err != nil {
		return 0, false, fmt.Errorf("read table: %w", err)
	}
	end, ok := table.LakeEnd(snap, p.App, partition)
	if !ok {
		return 0, false, nil
	}
	filter, err := where.Parse(fmt.Sprintf("%s > %d OR (%s = %d AND %s >= %d)", n.Ledger, ledger, n.Ledger, ledger, n.Entry, entry))
	if err != nil {
		return 0, false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for rb, err := range p.Table.Scan(ctx, snap, table.ScanOptions{Columns: placeColumns(n), Where: filter, Parallel: 1,
		Ranges: []table.Range{{Partition: partition, From: 0, To: end}}}) {
		if err != nil {
			return 0, false, err
		}
		for i := range int(rb.NumRows()) {
			at, has := placeAt(n, rb, i)
			o := at.Origin
			if has && (o.Ledger != ledger || o.Entry != entry || o.Batch >= batch) {
				rb.Release()
				return at.Offset, true, nil
			}
		}
		rb.Release()
	}
	return 0, false, nil
}
