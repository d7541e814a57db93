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
