package deltalog

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	logDir         = "_delta_log/"
	sidecarDir     = logDir + "_sidecars/"
	lastCheckpoint = logDir + "_last_checkpoint"
)

func commitName(v Version) string     { return fmt.Sprintf("%s%020d.json", logDir, v) }
func checkpointName(v Version) string { return fmt.Sprintf("%s%020d.checkpoint.parquet", logDir, v) }

type fileKind int

const (
	kindOther fileKind = iota
	kindCommit
	kindClassic   // N.checkpoint.parquet
	kindMultiPart // N.checkpoint.part.parts.parquet
	kindUUID      // N.checkpoint.<uuid>.json or .parquet
	kindCompacted // N.M.compacted.json
)

// logFile is a file name of the log, taken apart.
type logFile struct {
	kind        fileKind
	key         string // the object's key
	version     Version
	end         Version // kindCompacted: last version
	part, parts int     // kindMultiPart, from 1
	size        int64
	modTime     int64 // ms
}

// parseName takes a name inside the log folder apart. Matching is anchored at both ends: temporary files, staged
// commits and other programs' leavings have names that only contain a valid one.
func parseName(name string) (logFile, bool) {
	parts := strings.Split(name, ".")
	v, ok := digits(parts[0], 20)
	if !ok {
		return logFile{}, false
	}
	f := logFile{version: Version(v), key: logDir + name}
	switch {
	case len(parts) == 2 && parts[1] == "json":
		f.kind = kindCommit
	case len(parts) == 3 && parts[1] == "checkpoint" && parts[2] == "parquet":
		f.kind = kindClassic
	case len(parts) == 4 && parts[2] == "compacted" && parts[3] == "json":
		end, ok := digits(parts[1], 20)
		if !ok || Version(end) <= f.version {
			return logFile{}, false
		}
		f.kind, f.end = kindCompacted, Version(end)
	case len(parts) == 4 && parts[1] == "checkpoint" && isUUID(parts[2]) && (parts[3] == "json" || parts[3] == "parquet"):
		f.kind = kindUUID
	case len(parts) == 5 && parts[1] == "checkpoint" && parts[4] == "parquet":
		part, ok1 := digits(parts[2], 10)
		total, ok2 := digits(parts[3], 10)
		if !ok1 || !ok2 || part < 1 || part > total || total > 1<<20 {
			return logFile{}, false
		}
		f.kind, f.part, f.parts = kindMultiPart, int(part), int(total)
	default:
		return logFile{}, false
	}
	return f, true
}

// digits parses exactly n decimal digits.
func digits(s string, n int) (int64, bool) {
	if len(s) != n {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	v, err := strconv.ParseInt(s, 10, 64)
	return v, err == nil
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
		default:
			return false
		}
	}
	return true
}
