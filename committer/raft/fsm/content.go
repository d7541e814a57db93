package fsm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ledgerlake/ledgerlake/deltalog"
)

// Content gives the bytes of a decided version's commit file: the same on every node (I5).
func (v *Version) Content() ([]byte, error) {
	h := deltalog.Header{
		TxnID: v.TxnID, Timestamp: v.Time, Engine: v.Engine, Operation: "STREAMING UPDATE", ReadVersion: deltalog.Version(v.Number - 1),
		BlindAppend: true, Parameters: map[string]string{},
	}
	if v.Stamp != 0 {
		h.InCommitTimestamp = &v.Stamp
	}
	var apps []string
	size := 0
	for i := range v.Requests {
		r := &v.Requests[i]
		size += len(r.Lines)
		if r.App != "" && !slices.Contains(apps, r.App) {
			apps = append(apps, r.App)
		}
		if r.Operation != "" {
			h.Operation = r.Operation
		}
		h.BlindAppend = h.BlindAppend && len(r.Removes) == 0 && r.Change == nil
		for k, x := range r.Parameters {
			if old := h.Parameters[k]; old != "" && old != x {
				x = old + " " + x
			}
			h.Parameters[k] = x
		}
	}
	if len(apps) > 0 {
		h.Parameters["outputMode"], h.Parameters["queryId"] = "Append", strings.Join(apps, ",")
	}
	for _, id := range slices.Sorted(maps.Keys(v.moves)) {
		h.Txns = append(h.Txns, deltalog.Txn{AppID: id, Version: v.moves[id] - 1})
	}
	head, err := deltalog.EncodeHeader(h)
	if err != nil {
		return nil, fmt.Errorf("encode version %d: %w", v.Number, err)
	}
	out := make([]byte, 0, len(head)+size)
	out = append(out, head...)
	for i := range v.Requests {
		out = append(out, v.Requests[i].Lines...)
	}
	return out, nil
}
