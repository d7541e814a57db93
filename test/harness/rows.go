package harness

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"testing"
)

// Position is the identity of a record.
type Position struct {
	Partition int32
	Offset    int64
}

func (p Position) String() string { return fmt.Sprintf("%d:%d", p.Partition, p.Offset) }

// PositionOf reads the two system columns of a row.
func PositionOf(t testing.TB, row map[string]any) Position {
	t.Helper()
	return Position{int32(Int(t, row, "_partition")), Int(t, row, "_offset")}
}

// ByPosition indexes rows and fails on a position that comes twice: I3 and I4 are about exactly that.
func ByPosition(t testing.TB, who string, rows []map[string]any) map[Position]map[string]any {
	t.Helper()
	out := make(map[Position]map[string]any, len(rows))
	for _, row := range rows {
		p := PositionOf(t, row)
		if _, twice := out[p]; twice {
			t.Fatalf("%s: the record at %s comes twice", who, p)
		}
		out[p] = row
	}
	return out
}

// InOrder fails unless the offsets of each partition only grow (I4).
func InOrder(t testing.TB, who string, rows []map[string]any) {
	t.Helper()
	last := map[int32]int64{}
	for _, row := range rows {
		p := PositionOf(t, row)
		if before, ok := last[p.Partition]; ok && p.Offset <= before {
			t.Fatalf("%s: partition %d gives offset %d after %d", who, p.Partition, p.Offset, before)
		}
		last[p.Partition] = p.Offset
	}
}

// Dense fails unless each partition holds every offset from 0 to its last one.
func Dense(t testing.TB, who string, rows map[Position]map[string]any) {
	t.Helper()
	count, last := map[int32]int64{}, map[int32]int64{}
	for p := range rows {
		count[p.Partition]++
		last[p.Partition] = max(last[p.Partition], p.Offset)
	}
	for part, n := range count {
		if n != last[part]+1 {
			t.Errorf("%s: partition %d has %d rows and its last offset is %d: %d are missing", who, part, n, last[part], last[part]+1-n)
		}
	}
}

// SameRows fails unless both hold the same positions with the same values in every column.
func SameRows(t testing.TB, gotName string, got map[Position]map[string]any, wantName string, want map[Position]map[string]any) {
	t.Helper()
	differences := 0
	complain := func(format string, args ...any) {
		if differences++; differences <= 5 {
			t.Errorf(format, args...)
		}
	}
	for _, p := range sortedPositions(want) {
		row, ok := got[p]
		if !ok {
			complain("%s lacks the record at %s that %s has", gotName, p, wantName)
			continue
		}
		if d := Difference(row, want[p]); d != "" {
			complain("record at %s: %s and %s differ in %s", p, gotName, wantName, d)
		}
	}
	for _, p := range sortedPositions(got) {
		if _, ok := want[p]; !ok {
			complain("%s has a record at %s that %s lacks", gotName, p, wantName)
		}
	}
	if differences > 5 {
		t.Errorf("... and %d more differences", differences-5)
	}
}

// WantAcked fails unless rows are the acknowledged events of a Load, each once, where it was acknowledged and
// with the values that were sent. It holds no row, so it is fit for millions.
func WantAcked(t testing.TB, who string, rows iter.Seq[map[string]any], seed uint64, acked map[int]Position) {
	t.Helper()
	const seen = -1
	events := make(map[Position]int, len(acked)) // what is to come, and seen once it came
	for n, p := range acked {
		events[p] = n
	}
	count := 0
	for row := range rows {
		count++
		p := PositionOf(t, row)
		n, ok := events[p]
		switch {
		case !ok:
			t.Fatalf("%s: there is a record at %s, where none was acknowledged or it was aborted: %v", who, p, row)
		case n == seen:
			t.Fatalf("%s: the record at %s comes twice", who, p)
		}
		events[p] = seen
		if d := EventDifference(row, NewEvent(seed, n)); d != "" {
			t.Fatalf("%s: event %d at %s differs in %s", who, n, p, d)
		}
	}
	for p, n := range events {
		if n != seen {
			t.Fatalf("%s: event %d was acknowledged at %s and is not there; %d rows, %d events were acknowledged", who, n, p, count, len(acked))
		}
	}
}

// EventDifference compares the payload columns of a row with an event; "" when they agree.
func EventDifference(row map[string]any, e Event) string {
	payload := map[string]any{}
	for name := range e.Row {
		if v, ok := row[name]; ok {
			payload[name] = v
		}
	}
	return Difference(payload, e.Row)
}

func sortedPositions(rows map[Position]map[string]any) []Position {
	out := make([]Position, 0, len(rows))
	for p := range rows {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Position) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return out
}

// Difference names the first column of want whose value got does not have, or is "".
func Difference(got, want map[string]any) string {
	if len(got) != len(want) {
		return fmt.Sprintf("their columns: %v, %v", columns(got), columns(want))
	}
	for _, name := range columns(want) {
		g, ok := got[name]
		if !ok || !sameValue(g, want[name]) {
			return fmt.Sprintf("column %s: %#v, %#v", name, g, want[name])
		}
	}
	return ""
}

func columns(row map[string]any) []string {
	out := make([]string, 0, len(row))
	for name := range row {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// sameValue compares decoded JSON; numbers by value, as 1e3 and 1000 are one.
func sameValue(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		if !ok {
			return false
		}
		if a == b {
			return true
		}
		x, errX := a.Float64()
		y, errY := b.Float64()
		return errX == nil && errY == nil && x == y && (x != float64(int64(x)) || x < 1<<53 && x > -1<<53)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameValue)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && Difference(a, b) == ""
	}
	return reflect.DeepEqual(a, b)
}
