package fsm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ledgerlake/ledgerlake/deltalog"
)

// Staged gives the object that holds actions of the version; false when all are in the log.
func (v *Version) Staged() (Staged, bool) {
	for i := range v.Requests {
		if s := v.Requests[i].Staged; s.Key != "" {
			return s, true
		}
	}
	return Staged{}, false
}

// Content gives the bytes of a decided version's commit file: the same on every node (I5). staged are the bytes of
// the version's staged object, whose hash the caller has compared.
func (v *Version) Content(staged []byte) ([]byte, error) {
	h := deltalog.Header{
		TxnID: v.TxnID, Timestamp: v.Time, Engine: v.Engine, Operation: "STREAMING UPDATE", ReadVersion: deltalog.Version(v.Number - 1),
		BlindAppend: true, Parameters: map[string]string{},
	}
	if v.Stamp != 0 {
		h.InCommitTimestamp = &v.Stamp
	}
	var apps []string
	size := len(staged)
	for i := range v.Requests {
		r := &v.Requests[i]
		size += len(r.Lines)
		if r.App != "" && !slices.Contains(apps, r.App) {
			apps = append(apps, r.App)
		}
		if r.Operation != "" {
			h.Operation = r.Operation
		}
		h.BlindAppend = h.BlindAppend && !r.Planned && r.Change == nil
		if len(r.Metrics) > 0 {
			h.Metrics = r.Metrics // of a request that is alone in its version
		}
		if r.Planned {
			h.ReadVersion = deltalog.Version(r.Read)
		}
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
	return append(out, staged...), nil
}

// ShapeOf gives the fingerprints of a metadata and a protocol; nil leaves its part empty.
func ShapeOf(m *deltalog.Metadata, p *deltalog.Protocol) (Shape, error) {
	var s Shape
	var err error
	if m != nil {
		s.Incarnation, s.Schema = m.ID, SchemaHash(m.SchemaString)
		s.Stamped = m.Configuration["delta.enableInCommitTimestamps"] == "true"
		if s.Meta, err = deltalog.Fingerprint(m); err != nil {
			return Shape{}, err
		}
	}
	if p != nil {
		if s.Proto, err = deltalog.Fingerprint(p); err != nil {
			return Shape{}, err
		}
	}
	return s, nil
}

// ForeignOf makes the command that takes a commit file of another writer into the log.
func ForeignOf(table string, version int64, data []byte, c *deltalog.Content) (*Foreign, error) {
	f := &Foreign{Table: table, Version: version, Hash: HashOf(data), Positions: map[string]int64{},
		Reshaped: c.Metadata != nil || c.Protocol != nil}
	f.Blind = c.Info.IsBlindAppend != nil && *c.Info.IsBlindAppend && len(c.Removes) == 0 && !f.Reshaped
	if c.Info.InCommitTimestamp != nil {
		f.Stamp = *c.Info.InCommitTimestamp
	}
	for _, x := range c.Txns {
		f.Positions[x.AppID] = x.Version + 1
	}
	for i := range c.Removes {
		f.Removed = append(f.Removed, SumOf(deltalog.CanonicalPath(c.Removes[i].Path)))
	}
	var err error
	f.Shape, err = ShapeOf(c.Metadata, c.Protocol)
	return f, err
}

// HashOf identifies the bytes of a commit file.
func HashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
