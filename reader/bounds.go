package reader

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
)

// ErrBadBound is returned for a text that names no place in a stream.
var ErrBadBound = errors.New("want earliest, latest, now, a time like 2026-01-31T12:00:00Z, version: with a version of the table, PARTITION:OFFSET pairs like 0:100,1:50, or token: with a resume token")

// ParseBound reads a place in a stream as people and scripts write it: earliest, latest, now, a time,
// version:N of the table, PARTITION:OFFSET pairs, or token:... of the same topic.
func ParseBound(s, topic string) (Bound, error) {
	switch s {
	case "earliest":
		return Earliest(), nil
	case "latest":
		return Latest(), nil
	case "now":
		return Now(), nil
	}
	if t, ok := strings.CutPrefix(s, "token:"); ok {
		return AtToken(t, topic)
	}
	if t, ok := ParseTime(s); ok {
		return AtTime(t), nil
	}
	if v, ok := strings.CutPrefix(s, "version:"); ok {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			return Bound{}, fmt.Errorf("%q: %w", s, ErrBadBound)
		}
		return AtVersion(deltalog.Version(n)), nil
	}
	offsets := map[int32]record.Offset{}
	for _, pair := range strings.Split(s, ",") {
		p, o, ok := strings.Cut(strings.TrimSpace(pair), ":")
		part, err1 := strconv.ParseInt(p, 10, 32)
		off, err2 := strconv.ParseInt(o, 10, 64)
		if !ok || err1 != nil || err2 != nil || part < 0 || off < 0 {
			return Bound{}, fmt.Errorf("%q: %w", s, ErrBadBound)
		}
		if _, dup := offsets[int32(part)]; dup {
			return Bound{}, fmt.Errorf("%q: partition %d is named twice", s, part)
		}
		offsets[int32(part)] = record.Offset(off)
	}
	return AtOffsets(offsets), nil
}

// Offsets gives the offsets of a Bound of AtOffsets or AtToken.
func (b Bound) Offsets() (map[int32]record.Offset, bool) {
	return maps.Clone(b.offsets), b.offsets != nil
}

// Time gives the time of a Bound of AtTime.
func (b Bound) Time() (time.Time, bool) { return b.time, b.kind == boundTime }

// NamedPartitions are those of PARTITION:OFFSET pairs, none for another kind of bound: who names partitions
// wants these alone. ParseBound says whether s is right.
func NamedPartitions(s string) []int32 {
	if _, ok := ParseTime(s); ok || strings.HasPrefix(s, "token:") {
		return nil
	}
	var named []int32
	for _, pair := range strings.Split(s, ",") {
		p, _, ok := strings.Cut(strings.TrimSpace(pair), ":")
		n, err := strconv.ParseInt(p, 10, 32)
		if !ok || err != nil {
			return nil
		}
		named = append(named, int32(n))
	}
	return named
}

// MillisFrom gives the first whole millisecond of Unix time at or after t: what a log, whose records have no finer times, is to
// be asked for.
func MillisFrom(t time.Time) int64 { return unitsFrom(t.UnixMilli(), t, time.Millisecond) }

// unitsFrom is the next unit where t lies behind the one that it was cut to.
func unitsFrom(cut int64, t time.Time, unit time.Duration) int64 {
	if t.Nanosecond()%int(unit) != 0 {
		cut++
	}
	return cut
}

// ParseTime reads a time with or without a zone (then UTC), or a date.
func ParseTime(s string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
