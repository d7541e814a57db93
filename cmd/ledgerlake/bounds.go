package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
)

// parseBound reads earliest, latest, now, 0:100,1:50, a time, or token:... as --from and --until take them.
func parseBound(flag, s, topic string) (reader.Bound, error) {
	switch s {
	case "earliest":
		return reader.Earliest(), nil
	case "latest":
		return reader.Latest(), nil
	case "now":
		return reader.Now(), nil
	}
	if t, ok := strings.CutPrefix(s, "token:"); ok {
		return reader.AtToken(t, topic)
	}
	if t, ok := parseTime(s); ok {
		return reader.AtTime(t), nil
	}
	offsets := map[int32]record.Offset{}
	for _, pair := range strings.Split(s, ",") {
		p, o, ok := strings.Cut(strings.TrimSpace(pair), ":")
		part, err1 := strconv.ParseInt(p, 10, 32)
		off, err2 := strconv.ParseInt(o, 10, 64)
		if !ok || err1 != nil || err2 != nil || part < 0 || off < 0 {
			return reader.Bound{}, fmt.Errorf("--%s %q: want earliest, latest, now, a time like 2026-01-31T12:00:00Z, or PARTITION:OFFSET pairs like 0:100,1:50", flag, s)
		}
		if _, dup := offsets[int32(part)]; dup {
			return reader.Bound{}, fmt.Errorf("--%s %q: partition %d is named twice", flag, s, part)
		}
		offsets[int32(part)] = record.Offset(off)
	}
	return reader.AtOffsets(offsets), nil
}

// namedPartitions are those of PARTITION:OFFSET pairs, none for another kind of bound: who names partitions
// wants these. parseBound has said before whether s is right.
func namedPartitions(s string) []int32 {
	if _, ok := parseTime(s); ok || strings.HasPrefix(s, "token:") {
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

func parseTime(s string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
