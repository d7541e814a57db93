package table

import (
	"encoding/json"
	"fmt"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
)

// PlaceProperty is the property with the place of a record that may be no row: see NotedPlace. Only the owner of the partition
// sets it, with the commit that decides the record's offset.
func PlaceProperty(app string, partition int32) string {
	return "ledgerlake.place." + AppID(app, partition)
}

// NotedPlace is where a record was in a log whose offsets are counted by reading, when the table has no row near it to tell.
type NotedPlace struct {
	Offset record.Offset
	Origin record.Origin // its numbers: where the record was, and the running index
}

// String gives the value of PlaceProperty: [offset, ledger, entry, batch, first ledger, first entry, index].
func (p NotedPlace) String() string {
	o := &p.Origin
	return fmt.Sprintf("[%d,%d,%d,%d,%d,%d,%d]", p.Offset, o.Ledger, o.Entry, o.Batch, o.FirstLedger, o.FirstEntry, o.Index)
}

// PlaceOf gives the place that is noted of a partition; false when none is.
func PlaceOf(snap *deltalog.Snapshot, app string, partition int32) (NotedPlace, bool, error) {
	key := PlaceProperty(app, partition)
	text, ok := snap.Metadata().Configuration[key]
	if !ok {
		return NotedPlace{}, false, nil
	}
	var n []int64
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return NotedPlace{}, false, fmt.Errorf("table property %s: %w", key, err)
	}
	const numbers = 7
	if len(n) != numbers || n[0] < 0 || n[1] < 0 || n[2] < 0 || n[3] < -1 || int64(int32(n[3])) != n[3] {
		return NotedPlace{}, false, fmt.Errorf("table property %s: %s is no place of a record", key, text)
	}
	return NotedPlace{record.Offset(n[0]), record.Origin{Ledger: n[1], Entry: n[2], Batch: int32(n[3]), FirstLedger: n[4], FirstEntry: n[5], Index: n[6]}}, true, nil
}
