package deltalog

import "encoding/json"

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
// a deletion vector removes are counted.
func (a *Add) NumRecords() (int64, bool) {
	s, ok := ParseStats(a.Stats)
	if !ok || s.NumRecords == nil || *s.NumRecords < 0 {
		return 0, false // statistics are advisory: text that does not parse says nothing
	}
	return *s.NumRecords, true
}
