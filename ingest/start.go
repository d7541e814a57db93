package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// Start says where a stream begins when its table has no position of it yet. The zero value is the log's first offset.
//
// Positions are put into the table before the first record is read, as kafka-delta-ingest does: a commit of nothing but
// txn actions. From then on the table alone says where to go on, so a start that was cut short is the same start again.
type Start struct {
	Seek   map[int32]record.Offset // the last offset that is taken as done, by partition; the next one is the first row
	Latest bool                    // at the log's end as it is now
	Time   time.Time               // at the first record of this time or later
}

// ParseSeek reads kafka-delta-ingest's {"0": 123, "1": 321}: the last offset, by partition, that is taken as done.
func ParseSeek(text string) (map[int32]record.Offset, error) {
	var raw map[string]json.Number
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&raw); err != nil || d.More() || len(raw) == 0 {
		return nil, fmt.Errorf(`seek offsets %.100q: want a JSON object of partitions and offsets, such as {"0":123,"1":321}`, text)
	}
	out := make(map[int32]record.Offset, len(raw))
	for p, o := range raw {
		n, err1 := strconv.ParseInt(p, 10, 32)
		off, err2 := strconv.ParseInt(o.String(), 10, 64)
		if err1 != nil || err2 != nil || n < 0 || off < 0 || off == math.MaxInt64 {
			return nil, fmt.Errorf("seek offsets: %q: %s is no partition with an offset", p, o)
		}
		out[int32(n)] = record.Offset(off)
	}
	return out, nil
}

// SeekError says that offsets to start from lie behind what the table has already: going on there would leave a gap.
type SeekError struct {
	App    string
	Behind map[int32][2]record.Offset // where the table stands and where to start, both as last offsets
}

func (e *SeekError) Error() string {
	var parts []string
	for _, p := range slices.Sorted(maps.Keys(e.Behind)) {
		parts = append(parts, fmt.Sprintf("%s-%d:stored=%d/seek=%d", e.App, p, e.Behind[p][0], e.Behind[p][1]))
	}
	return fmt.Sprintf("the table stands below the offsets to start from [%s]: leave them out to go on where it stands, or use another app id", strings.Join(parts, ", "))
}

// startTries bounds how often positions are tried against others who record some at the same moment.
const startTries = 16

// Apply records where to begin, for the partitions that the table does not know of. Those that it knows stay, except
// that Seek beyond one of them is a *SeekError: what lies between would be missing. commit puts the version in order with
// those of other writers; nil: the log's own Commit.
func (s Start) Apply(ctx context.Context, log *deltalog.Log, commit func(context.Context, deltalog.Commit) (deltalog.Version, error), src broker.Source, topic, app string) error {
	if commit == nil {
		commit = log.Commit
	}
	if s.Seek == nil && !s.Latest && s.Time.IsZero() {
		return nil
	}
	var err error
	for range startTries {
		var snap *deltalog.Snapshot
		if snap, err = log.Snapshot(ctx); err != nil {
			return fmt.Errorf("read table: %w", err)
		}
		var last map[int32]record.Offset
		if s.Seek != nil {
			last, err = s.seek(ctx, snap, src, topic, app)
		} else {
			last, err = s.look(ctx, snap, src, topic, app)
		}
		if err != nil || len(last) == 0 {
			return err
		}
		c := deltalog.Commit{
			ReadVersion: snap.Version(), Incarnation: snap.Metadata().ID, Operation: "STREAMING UPDATE", BlindAppend: true,
			Parameters: map[string]string{"outputMode": "Complete", "queryId": app},
		}
		for _, p := range slices.Sorted(maps.Keys(last)) {
			c.Txns = append(c.Txns, deltalog.Txn{AppID: table.AppID(app, p), Version: int64(last[p])})
		}
		_, err = commit(ctx, c)
		var conflict *deltalog.TxnConflictError
		moved := errors.As(err, &conflict) || errors.Is(err, deltalog.ErrConcurrentDelete) // the second one is said by a group of committers
		if !moved && !errors.Is(err, deltalog.ErrMetadataChanged) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("record where to start: %w", err)
	}
	return nil
}

// seek gives what is to be recorded of the given offsets: all, or nothing when the table knows one of them. One that the log does
// not have is refused: what is recorded stays.
func (s Start) seek(ctx context.Context, snap *deltalog.Snapshot, src broker.Source, topic, app string) (map[int32]record.Offset, error) {
	known, behind := false, map[int32][2]record.Offset{}
	for p, o := range s.Seek {
		if next, ok := table.LakeEnd(snap, app, p); ok {
			known = true
			if next-1 < o {
				behind[p] = [2]record.Offset{next - 1, o}
			}
		}
	}
	if len(behind) > 0 {
		return nil, &SeekError{App: app, Behind: behind}
	}
	if known {
		return nil, nil
	}
	parts, err := src.Partitions(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("partitions of topic %s: %w", topic, err)
	}
	for _, p := range slices.Sorted(maps.Keys(s.Seek)) {
		tp := record.TopicPartition{Topic: topic, Partition: p}
		if !slices.Contains(parts, p) {
			return nil, fmt.Errorf("seek offsets: there is no %s: topic %s has %d partitions", tp, topic, len(parts))
		}
		b, err := src.Bounds(ctx, tp)
		if err != nil {
			return nil, fmt.Errorf("bounds of %s: %w", tp, err)
		}
		if s.Seek[p] >= b.End {
			return nil, fmt.Errorf("seek offsets: %d of %s is beyond the end of the log, whose last offset is %d", s.Seek[p], tp, b.End-1)
		}
	}
	return s.Seek, nil
}

// look asks the log where to begin, for each partition that the table does not know.
func (s Start) look(ctx context.Context, snap *deltalog.Snapshot, src broker.Source, topic, app string) (map[int32]record.Offset, error) {
	parts, err := src.Partitions(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("partitions of topic %s: %w", topic, err)
	}
	last := map[int32]record.Offset{}
	for _, p := range parts {
		if _, ok := table.LakeEnd(snap, app, p); ok {
			continue
		}
		tp := record.TopicPartition{Topic: topic, Partition: p}
		var at record.Offset
		if s.Latest {
			b, err := src.Bounds(ctx, tp)
			if err != nil {
				return nil, fmt.Errorf("bounds of %s: %w", tp, err)
			}
			at = b.End
		} else if at, err = src.OffsetForTime(ctx, tp, s.Time.UnixMilli()); err != nil {
			return nil, fmt.Errorf("offset of %s at %s: %w", tp, s.Time.UTC().Format(time.RFC3339Nano), err)
		}
		if at > 0 || s.Latest { // else the end of a later start would be another one, beyond what came meanwhile
			last[p] = at - 1
		}
	}
	return last, nil
}
