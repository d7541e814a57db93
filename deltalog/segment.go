package deltalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// checkpoint is one complete checkpoint: all its parts, or one file.
type checkpoint struct {
	version Version
	files   []logFile
}

// listing is what the log folder holds from some version on.
type listing struct {
	commits     map[Version]logFile
	compactions map[Version][]logFile // by first version
	checkpoints []checkpoint          // complete ones, best first
	newest      Version               // newest commit or complete checkpoint, -1 when there is none
	oldest      Version               // oldest commit
}

// list reads the log folder from a version on.
func list(ctx context.Context, store objstore.Store, from Version) (*listing, error) {
	l := &listing{commits: map[Version]logFile{}, compactions: map[Version][]logFile{}, newest: -1, oldest: -1}
	var parts []logFile
	opts := objstore.ListOptions{Prefix: logDir, Flat: true}
	if from > 0 {
		opts.StartAfter = fmt.Sprintf("%s%020d", logDir, from) // a prefix of all names of that version
	}
	for info, err := range store.List(ctx, opts) {
		if err != nil {
			return nil, fmt.Errorf("list the Delta log: %w", err)
		}
		if len(info.Key) <= len(logDir) {
			continue
		}
		name := info.Key[len(logDir):]
		if name[0] > '9' {
			break // names of versions sort before all others
		}
		f, ok := parseName(name)
		if !ok {
			continue
		}
		f.size, f.modTime = info.Size, info.ModTime.UnixMilli()
		switch f.kind {
		case kindCommit:
			l.commits[f.version] = f
			l.newest = max(l.newest, f.version)
			if l.oldest < 0 || f.version < l.oldest {
				l.oldest = f.version
			}
		case kindCompacted:
			l.compactions[f.version] = append(l.compactions[f.version], f)
		case kindClassic, kindMultiPart, kindUUID:
			parts = append(parts, f)
		}
	}
	l.checkpoints = completeCheckpoints(parts)
	if len(l.checkpoints) > 0 {
		l.newest = max(l.newest, l.checkpoints[0].version)
	}
	return l, nil
}

// completeCheckpoints groups files into checkpoints and leaves out sets with missing parts. Newest first; of one
// version the single files come before the multi-part set.
func completeCheckpoints(files []logFile) []checkpoint {
	var out []checkpoint
	type set struct {
		v     Version
		parts int
	}
	sets := map[set]map[int]logFile{}
	for _, f := range files {
		if f.kind != kindMultiPart {
			out = append(out, checkpoint{f.version, []logFile{f}})
			continue
		}
		k := set{f.version, f.parts}
		if sets[k] == nil {
			sets[k] = map[int]logFile{}
		}
		sets[k][f.part] = f
	}
	for k, m := range sets {
		if len(m) != k.parts {
			continue
		}
		c := checkpoint{version: k.v}
		for i := 1; i <= k.parts; i++ {
			c.files = append(c.files, m[i])
		}
		out = append(out, c)
	}
	rank := func(c checkpoint) int {
		switch c.files[0].kind {
		case kindClassic:
			return 0
		case kindUUID:
			return 1
		}
		return 2
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].version != out[j].version {
			return out[i].version > out[j].version
		}
		if ri, rj := rank(out[i]), rank(out[j]); ri != rj {
			return ri < rj
		}
		return out[i].files[0].key < out[j].files[0].key
	})
	return out
}

// commitsFrom gives the files to replay after version base to reach target: commits, or compactions where
// commits are gone. A hole is an error: what it held is not known.
func (l *listing) commitsFrom(base, target Version) ([]logFile, error) {
	var out []logFile
	for v := base + 1; v <= target; {
		if f, ok := l.commits[v]; ok {
			out = append(out, f)
			v++
			continue
		}
		best := logFile{end: -1}
		for _, c := range l.compactions[v] {
			if c.end <= target && c.end > best.end {
				best = c
			}
		}
		if best.end < 0 {
			return nil, fmt.Errorf("commit %d is missing from the log", v)
		}
		out = append(out, best)
		v = best.end + 1
	}
	return out, nil
}

// hint is the part of _last_checkpoint that matters to a reader.
type hint struct {
	Version *int64 `json:"version"`
}

// readHint gives the version that _last_checkpoint names, or -1: a missing, empty, stale or broken hint only
// costs a longer listing.
func readHint(ctx context.Context, store objstore.Store) (Version, error) {
	b, err := store.Get(ctx, lastCheckpoint)
	if errors.Is(err, objstore.ErrNotFound) {
		return -1, nil
	}
	if err != nil {
		return -1, fmt.Errorf("read _last_checkpoint: %w", err)
	}
	var h hint
	if json.Unmarshal(b, &h) != nil || h.Version == nil || *h.Version < 0 {
		return -1, nil
	}
	return Version(*h.Version), nil
}
