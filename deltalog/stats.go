package deltalog

import "encoding/json"

// NumRecords gives the row count that the statistics of a file state, false when they state none. Rows that
// a deletion vector removes are counted.
func (a *Add) NumRecords() (int64, bool) {
	if a.Stats == "" {
		return 0, false
	}
	var s struct {
		NumRecords *int64 `json:"numRecords"`
	}
	// Statistics are advisory: text that does not parse says nothing.
	if err := json.Unmarshal([]byte(a.Stats), &s); err != nil || s.NumRecords == nil || *s.NumRecords < 0 {
		return 0, false
	}
	return *s.NumRecords, true
}
