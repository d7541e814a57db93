package deltalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sort"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// Finding is one fault of a log.
type Finding struct {
	File    string
	Message string
}

// String gives the finding on one line.
func (f Finding) String() string { return f.File + ": " + f.Message }

// Check reads the whole log of a table and says what is wrong with it: gaps, broken commits and checkpoints,
// checkpoints, compactions and checksum files that do not come to what the commits come to, a hint that leads nowhere,
// incomplete sets. It changes nothing. An error means that it could not look.
func Check(ctx context.Context, store objstore.Store) ([]Finding, error) {
	c := &logCheck{ctx: ctx, store: store}
	var err error
	if c.found, err = list(ctx, store, 0); err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	if c.found.newest < 0 {
		return nil, ErrNotTable
	}
	err = errors.Join(c.names(), c.hint(), c.walk(), c.compactions())
	if err != nil {
		return c.findings, fmt.Errorf("check: %w", err)
	}
	return c.findings, nil
}

type logCheck struct {
	ctx      context.Context
	store    objstore.Store
	found    *listing
	findings []Finding
}

func (c *logCheck) add(file, format string, args ...any) {
	c.findings = append(c.findings, Finding{File: file, Message: fmt.Sprintf(format, args...)})
}

// fault turns what a read found into a finding; what the store failed at stays an error.
func (c *logCheck) fault(file string, err error) error {
	var corrupt *CorruptError
	if c.ctx.Err() != nil {
		return c.ctx.Err()
	}
	if errors.As(err, &corrupt) {
		c.add(corrupt.File, "%v", err)
		return nil
	}
	if errors.Is(err, objstore.ErrNotFound) {
		c.add(file, "names a file that is not there: %v", err)
		return nil
	}
	return err
}

// names finds gaps and sets with missing parts.
func (c *logCheck) names() error {
	whole := map[string]bool{}
	for _, ck := range c.found.checkpoints {
		for _, f := range ck.files {
			whole[f.key] = true
		}
	}
	for info, err := range c.store.List(c.ctx, objstore.ListOptions{Prefix: logDir, Flat: true}) {
		if err != nil {
			return fmt.Errorf("list the Delta log: %w", err)
		}
		f, ok := parseName(info.Key[min(len(logDir), len(info.Key)):])
		if ok && f.kind == kindMultiPart && !whole[f.key] {
			c.add(info.Key, "part %d of %d of a checkpoint whose other parts are not all there: readers pass over it", f.part, f.parts)
		}
	}
	first := max(c.found.oldest, 0)
	for v := first; v <= c.found.newest; v++ {
		if _, ok := c.found.commits[v]; !ok && v > first {
			c.add(commitName(v), "the commit is missing between %d and %d", first, c.found.newest)
		}
	}
	if c.found.earliest() < 0 {
		c.add(logDir, "no version can be read: no complete checkpoint and no commit 0")
	}
	return nil
}

// hint looks where _last_checkpoint leads. Some engines refuse a table whose hint names a checkpoint that is not there.
func (c *logCheck) hint() error {
	b, err := c.store.Get(c.ctx, lastCheckpoint)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", lastCheckpoint, err)
	}
	var h hint
	if json.Unmarshal(b, &h) != nil || h.Version == nil || *h.Version < 0 {
		c.add(lastCheckpoint, "broken: some engines cannot open the table; remove it")
		return nil
	}
	if !slices.ContainsFunc(c.found.checkpoints, func(ck checkpoint) bool { return int64(ck.version) == *h.Version }) {
		c.add(lastCheckpoint, "names version %d, which has no complete checkpoint: some engines cannot open the table; remove it", *h.Version)
	}
	return nil
}

// walk replays all commits, and compares each checkpoint and checksum file with what they come to.
func (c *logCheck) walk() error {
	sort.SliceStable(c.found.checkpoints, func(i, j int) bool { return c.found.checkpoints[i].version < c.found.checkpoints[j].version })
	at := map[Version][]*checkpoint{}
	for i := range c.found.checkpoints {
		ck := &c.found.checkpoints[i]
		at[ck.version] = append(at[ck.version], ck)
	}
	var s *state // nil while what came before is not known
	if _, ok := c.found.commits[0]; ok {
		s = newState(false)
	}
	first := max(c.found.oldest, 0)
	if n := len(c.found.checkpoints); n > 0 {
		first = min(first, c.found.checkpoints[0].version)
	}
	for v := first; v <= c.found.newest; v++ {
		var err error
		if s, err = c.version(s, v, at[v]); err != nil {
			return err
		}
	}
	if s != nil {
		if err := s.complete(); err != nil {
			var u *UnsupportedError
			if errors.As(err, &u) {
				return nil // sound, though not for us
			}
			return c.fault(logDir, err)
		}
	}
	return nil
}

// version moves the state over one version and looks at what else the log holds of it.
func (c *logCheck) version(s *state, v Version, checkpoints []*checkpoint) (*state, error) {
	f, ok := c.found.commits[v]
	switch {
	case !ok:
		s = nil
	case s != nil:
		if err := s.replay(c.ctx, c.store, []logFile{f}, nil); err != nil {
			if err := c.fault(f.key, err); err != nil {
				return nil, err
			}
			s = nil
		}
	default: // what it builds on is not known, but it must be readable
		if err := eachPiece(c.ctx, c.store, []logFile{f}, func(*piece) error { return nil }); err != nil {
			if err := c.fault(f.key, err); err != nil {
				return nil, err
			}
		}
	}
	for _, ck := range checkpoints {
		own := newState(false)
		if err := own.applyCheckpoint(c.ctx, c.store, ck); err != nil {
			if err := c.fault(ck.files[0].key, err); err != nil {
				return nil, err
			}
			continue
		}
		if s == nil {
			s = own
			if ok {
				s.stamp(f, nil)
				if err := s.readTimestamp(c.ctx, c.store, f); err != nil {
					return nil, err
				}
			}
			continue
		}
		if diff := differs(s, own); diff != "" {
			c.add(ck.files[0].key, "the checkpoint is not what the commits come to: %s", diff)
		}
	}
	if s == nil || s.protocol == nil || s.metadata == nil {
		return s, nil
	}
	if err := s.compact(); err != nil {
		return nil, err
	}
	message, err := checkChecksum(c.ctx, c.store, s.snapshot())
	if message != "" {
		c.add(checksumName(v), "%s", message)
	}
	return s, err
}

// compactions compares each compaction with the commits that it stands for, as far as they are there.
func (c *logCheck) compactions() error {
	for _, v := range slices.Sorted(maps.Keys(c.found.compactions)) {
		for _, f := range c.found.compactions[v] {
			own, commits := newState(false), newState(false)
			if err := own.replay(c.ctx, c.store, []logFile{f}, nil); err != nil {
				if err := c.fault(f.key, err); err != nil {
					return err
				}
				continue
			}
			var files []logFile
			for at := f.version; at <= f.end; at++ {
				if commit, ok := c.found.commits[at]; ok {
					files = append(files, commit)
				}
			}
			if len(files) <= int(f.end-f.version) || commits.replay(c.ctx, c.store, files, nil) != nil {
				continue // a commit that is broken is a finding of its own
			}
			for _, s := range []*state{own, commits} { // few have these
				if s.protocol == nil {
					s.protocol = &Protocol{}
				}
				if s.metadata == nil {
					s.metadata = &Metadata{}
				}
			}
			diff := differs(commits, own)
			if diff == "" {
				diff = differsInPart(commits, own)
			}
			if diff == "" {
				var err error
				if diff, err = c.domains(f, files); err != nil {
					return err
				}
			}
			if diff != "" {
				c.add(f.key, "the compaction is not what the commits come to: %s", diff)
			}
		}
	}
	return nil
}

// differsInPart says in what a compaction differs from its commits, beside that in which a checkpoint would: what it leaves out is
// in effect again for whoever reads it on top of an older state, so nothing may be left out.
func differsInPart(commits, own *state) string {
	for id, t := range commits.txns {
		if at, ok := own.txns[id]; !ok {
			return fmt.Sprintf("no transaction %s, which is at %d", id, t.Version)
		} else if at.Version != t.Version {
			return fmt.Sprintf("transaction %s at %d, not %d", id, at.Version, t.Version)
		}
	}
	for b, i := range commits.graves.view(commits.version).each() {
		if at := own.graves.find(idOf(b.pathAt(i), b.dv(i))); at < 0 || !own.graves.lives(at) {
			return "no removal of file " + b.pathAt(i)
		}
	}
	if own.graves.live != commits.graves.live {
		return fmt.Sprintf("%d removals, not %d", own.graves.live, commits.graves.live)
	}
	for b, i := range commits.files.view(commits.version).each() {
		var a, x Add
		b.addAt(i, &a)
		ob, oi := own.files.at(own.files.find(idOf(b.pathAt(i), b.dv(i)))) // differs has seen that it is there
		ob.addAt(oi, &x)
		// Engines write statistics and tags in forms of their own, and a reconciled add changes no data.
		a.Stats, a.Tags, a.DataChange, x.Stats, x.Tags, x.DataChange = "", nil, false, "", nil, false
		if !reflect.DeepEqual(a, x) {
			return "another add of file " + a.Path
		}
	}
	return ""
}

// domains says in which domain a compaction differs from its commits. A removed domain is an action as well.
func (c *logCheck) domains(compaction logFile, commits []logFile) (string, error) {
	last := func(files []logFile) (map[string]DomainMetadata, error) {
		m := map[string]DomainMetadata{}
		err := eachPiece(c.ctx, c.store, files, func(p *piece) error {
			for _, d := range p.a.domains {
				m[d.Domain] = d
			}
			return nil
		})
		return m, err
	}
	want, err := last(commits)
	if err != nil {
		return "", err
	}
	own, err := last([]logFile{compaction})
	if err != nil {
		return "", err
	}
	for name, d := range want {
		if x, ok := own[name]; !ok || x.Removed != d.Removed || !d.Removed && x.Configuration != d.Configuration {
			return "another domain " + name, nil
		}
	}
	if len(own) != len(want) {
		return fmt.Sprintf("%d domains, not %d", len(own), len(want)), nil
	}
	return "", nil
}

// differs says in what a checkpoint's state differs from that of the commits, "" when in nothing.
func differs(commits, own *state) string {
	if commits.protocol == nil || !slices.Equal(own.protocol.Features(), commits.protocol.Features()) {
		return "another protocol"
	}
	if commits.metadata == nil || !sameMetadata(own.metadata, commits.metadata) {
		return "other metadata"
	}
	for id, t := range own.txns { // expired ones may be left out
		if commits.txns[id].Version != t.Version {
			return fmt.Sprintf("transaction %s at %d, not %d", id, t.Version, commits.txns[id].Version)
		}
	}
	for name, d := range commits.domains {
		if own.domains[name].Configuration != d.Configuration {
			return "another domain " + name
		}
	}
	if len(own.domains) != len(commits.domains) {
		return fmt.Sprintf("%d domains, not %d", len(own.domains), len(commits.domains))
	}
	for b, i := range commits.files.view(commits.version).each() {
		at := own.files.find(idOf(b.pathAt(i), b.dv(i)))
		if at < 0 || !own.files.lives(at) {
			return "no file " + b.pathAt(i)
		}
		if ob, oi := own.files.at(at); ob.size[oi] != b.size[i] {
			return "another size of file " + b.pathAt(i)
		}
	}
	if own.files.live != commits.files.live {
		return fmt.Sprintf("%d files, not %d", own.files.live, commits.files.live)
	}
	return ""
}
