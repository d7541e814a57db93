package deltalog

import (
	"encoding/json"
	"errors"
	"strings"
	"unsafe"
)

// Stats are the statistics of one file. Every part is advisory and may be missing; values are JSON as written.
type Stats struct {
	NumRecords  *int64                     `json:"numRecords"`
	TightBounds *bool                      `json:"tightBounds"` // missing means true
	MinValues   map[string]json.RawMessage `json:"minValues"`
	MaxValues   map[string]json.RawMessage `json:"maxValues"`
	NullCount   map[string]json.RawMessage `json:"nullCount"`
}

// ParseStats reads Add.Stats. Statistics that are missing or do not parse give false: they never make a file
// unreadable.
func ParseStats(s string) (Stats, bool) {
	var st Stats
	if s == "" || json.Unmarshal([]byte(s), &st) != nil {
		return Stats{}, false
	}
	return st, true
}

// NumRecords gives the row count that the statistics of a file state, false when they state none. Rows that
// a deletion vector removes are counted. Only this number is decoded.
func (a *Add) NumRecords() (int64, bool) { return numRecords(a.Stats) }

func numRecords(stats string) (int64, bool) {
	if stats == "" {
		return 0, false
	}
	if rest, ok := strings.CutPrefix(stats, `{"numRecords":`); ok { // as most writers have it
		n, i := int64(0), 0
		for ; i < len(rest) && i < 18 && '0' <= rest[i] && rest[i] <= '9'; i++ {
			n = n*10 + int64(rest[i]-'0')
		}
		if i > 0 && i < len(rest) && (rest[i] == ',' || rest[i] == '}') && (rest[0] != '0' || i == 1) {
			return n, true
		}
	}
	s := scanner{b: unsafe.Slice(unsafe.StringData(stats), len(stats))} // which only reads
	n := int64(-1)
	err := s.object(func(key []byte) error {
		if string(key) != "numRecords" {
			return s.skip()
		}
		null, err := s.null()
		if null || err != nil {
			return err
		}
		if n, err = s.int(); err == nil {
			err = errEnough
		}
		return err
	})
	if !errors.Is(err, errEnough) || n < 0 {
		return 0, false // statistics are advisory: text that does not parse says nothing
	}
	return n, true
}

// errEnough ends a scan that has found what it was for.
var errEnough = errors.New("enough")
