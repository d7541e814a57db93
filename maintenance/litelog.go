package maintenance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// vacuumMark remembers up to which version all removed files were dealt with, so that a lite vacuum does not read
// the whole log every time. It is a hint: without it the work is done again.
const vacuumMark = "_ledgerlake/vacuum.json"

type vacuumState struct {
	Handled deltalog.Version `json:"handled"`
}

// fromLog finds candidates among the files that commits removed, as far back as the log goes.
func (v *vacuum) fromLog(ctx context.Context, snap *deltalog.Snapshot) ([]candidate, error) {
	var state vacuumState
	if raw, err := v.t.Store.Get(ctx, vacuumMark); err == nil && json.Unmarshal(raw, &state) == nil {
		state.Handled = min(max(state.Handled, 0), snap.Version())
	} else {
		state.Handled = 0
	}
	cutoff := v.now.Add(-v.retention).UnixMilli()
	handled, open := state.Handled, false
	for ver := state.Handled; ver <= snap.Version(); ver++ {
		raw, err := v.t.Store.Get(ctx, fmt.Sprintf("_delta_log/%020d.json", ver))
		if errors.Is(err, objstore.ErrNotFound) {
			continue // cleaned up: only a full vacuum finds what it removed
		}
		if err != nil {
			return nil, err
		}
		removes, err := removesOf(raw)
		if err != nil {
			return nil, fmt.Errorf("version %d: %w", ver, err)
		}
		for i := range removes {
			switch r := &removes[i]; {
			case r.DeletionTimestamp == nil: // nobody knows when: left to a full vacuum
			case *r.DeletionTimestamp >= cutoff:
				open = true
			default:
				v.bury(r)
			}
		}
		if !open {
			handled = ver
		}
	}
	out, err := v.existing(ctx)
	if err == nil && !v.opts.DryRun && v.report.Leased == 0 && handled > state.Handled {
		v.remember(ctx, handled)
	}
	return out, err
}

func (v *vacuum) remember(ctx context.Context, handled deltalog.Version) {
	v.afterwards = func() {
		raw, err := json.Marshal(vacuumState{handled})
		if err == nil {
			err = v.t.Store.Put(ctx, vacuumMark, raw)
		}
		if err != nil {
			v.opts.Logger.Warn("the next lite vacuum will read the log again", "error", err)
		}
	}
}

// removesOf reads the remove actions of a commit.
func removesOf(raw []byte) ([]deltalog.Remove, error) {
	var out []deltalog.Remove
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, len(raw)+1)
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte(`"remove"`)) {
			continue
		}
		var line struct {
			Remove *deltalog.Remove `json:"remove"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("broken commit: %w", err)
		}
		if line.Remove != nil {
			out = append(out, *line.Remove)
		}
	}
	return out, lines.Err()
}

// existing gives those of the removed files that are still there.
func (v *vacuum) existing(ctx context.Context) ([]candidate, error) {
	var out []candidate
	for key := range v.removed {
		if v.kept(key) {
			continue
		}
		info, err := v.t.Store.Head(ctx, key)
		if errors.Is(err, objstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, candidate{key, info.Size})
	}
	slices.SortFunc(out, func(a, b candidate) int { return strings.Compare(a.key, b.key) })
	return out, nil
}
