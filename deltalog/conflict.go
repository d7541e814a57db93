package deltalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// summary is what later writers have to know about a commit.
type summary struct {
	txnID    string
	blind    bool
	adds     bool // adds data
	removed  []string
	apps     []string
	domains  []string
	metadata bool
	protocol bool
}

func summarize(a *actions) *summary {
	s := &summary{}
	s.add(a)
	return s
}

// add takes in the next piece of the commit.
func (s *summary) add(a *actions) {
	s.metadata = s.metadata || a.metadata != nil
	s.protocol = s.protocol || a.protocol != nil
	if a.info != nil && s.txnID == "" {
		s.txnID = a.info.TxnID
		s.blind = a.info.IsBlindAppend != nil && *a.info.IsBlindAppend // missing: not blind
	}
	for i := range a.adds {
		s.adds = s.adds || a.adds[i].DataChange
	}
	for i := range a.removes {
		s.removed = append(s.removed, strings.Clone(canonicalPath(a.removes[i].Path))) // a's text does not last
	}
	for _, t := range a.txns {
		s.apps = append(s.apps, t.AppID)
	}
	for _, d := range a.domains {
		s.domains = append(s.domains, d.Domain)
	}
}

// recentCommits keeps the summaries of the last versions, so that a rebase reads nothing twice.
type recentCommits struct {
	slots [64]struct {
		v Version
		s *summary
	}
}

func (r *recentCommits) put(v Version, s *summary) {
	slot := &r.slots[v%Version(len(r.slots))]
	slot.v, slot.s = v, s
}

func (r *recentCommits) get(v Version) *summary {
	if slot := &r.slots[v%Version(len(r.slots))]; slot.s != nil && slot.v == v {
		return slot.s
	}
	return nil
}

// summary gives what commit v did.
func (l *Log) summary(ctx context.Context, v Version) (*summary, error) {
	l.mu.Lock()
	s := l.recent.get(v)
	l.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s = &summary{}
	f := logFile{kind: kindCommit, key: commitName(v), version: v}
	err := eachPiece(ctx, l.store, []logFile{f}, func(p *piece) error {
		s.add(p.a)
		return nil
	})
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, fmt.Errorf("commit %d is gone from the log, cannot check it for conflicts: begin again from a new snapshot: %w: %w", v, ErrMetadataChanged, errGone)
	}
	if err != nil {
		return nil, err
	}
	l.remember(v, s)
	return s, nil
}

func (l *Log) remember(v Version, s *summary) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recent.put(v, s)
}

// blind says whether the commit may call itself a blind append: it read nothing and only adds.
func (c *Commit) blind() bool {
	return c.BlindAppend && len(c.Removes) == 0 && len(c.ReadFiles) == 0 && !c.ReadAll &&
		len(c.Domains) == 0 && c.Metadata == nil && c.Protocol == nil
}

// rewrite says whether the commit only moves rows between files: it changes nothing that another writer could
// miss, so it needs only that the files which it read are still there.
func (c *Commit) rewrite() bool {
	if c.Metadata != nil || c.Protocol != nil || len(c.Txns)+len(c.Domains) > 0 || len(c.Adds)+len(c.Removes) == 0 {
		return false
	}
	return !c.addsData() && !slices.ContainsFunc(c.Removes, func(r Remove) bool { return r.DataChange })
}

func (c *Commit) addsData() bool {
	return slices.ContainsFunc(c.Adds, func(a Add) bool { return a.DataChange })
}

// conflict says why c cannot follow a winner that it did not see. The matrix is in TestConflictMatrix.
func (c *Commit) conflict(w *summary, snap *Snapshot) error {
	if w.metadata {
		return ErrMetadataChanged // files were written and statistics taken for the old schema and settings
	}
	// A new protocol alone is adopted: whether this program supports it, and whether the commit fits it, is checked
	// again on every attempt, and what a feature asks of data files starts with metadata.
	if w.protocol && (c.Protocol != nil || c.Metadata != nil) {
		return ErrProtocolChanged
	}
	var same []string
	for _, t := range c.Txns {
		if slices.Contains(w.apps, t.AppID) {
			same = append(same, t.AppID)
		}
	}
	if len(same) > 0 {
		sort.Strings(same)
		return &TxnConflictError{AppIDs: same}
	}
	for _, d := range c.Domains {
		if slices.Contains(w.domains, d.Domain) {
			return fmt.Errorf("%w: %s", ErrDomainConflict, d.Domain)
		}
	}
	return c.dataConflict(w, snap)
}

func (c *Commit) dataConflict(w *summary, snap *Snapshot) error {
	if len(w.removed) > 0 && len(c.Removes)+len(c.ReadFiles) > 0 {
		gone := make(map[string]bool, len(w.removed))
		for _, p := range w.removed {
			gone[p] = true
		}
		for i := range c.Removes { // by path: a new deletion vector on the same file is a conflict too
			if gone[canonicalPath(c.Removes[i].Path)] {
				return fmt.Errorf("%w: %s", ErrConcurrentDelete, c.Removes[i].Path)
			}
		}
		for _, p := range c.ReadFiles {
			if gone[canonicalPath(p)] {
				return fmt.Errorf("%w: %s", ErrConcurrentDeleteRead, p)
			}
		}
	}
	if !c.ReadAll {
		return nil
	}
	if len(w.removed) > 0 {
		return fmt.Errorf("%w: %s", ErrConcurrentDeleteRead, w.removed[0])
	}
	serializable := strings.EqualFold(snap.metadata.Configuration["delta.isolationLevel"], "Serializable")
	if w.adds && (!w.blind || serializable) && !c.rewrite() {
		return ErrConcurrentAppend
	}
	return nil
}

// errGone marks a conflict that is only assumed, since the winner could not be read.
var errGone = errors.New("commit is cleaned up")

// isConflict says whether err proves that our own commit is not in the log: all versions were read.
func isConflict(err error) bool {
	var t *TxnConflictError
	if errors.Is(err, errGone) {
		return false
	}
	return errors.As(err, &t) || errors.Is(err, ErrMetadataChanged) || errors.Is(err, ErrProtocolChanged) ||
		errors.Is(err, ErrConcurrentAppend) || errors.Is(err, ErrConcurrentDelete) ||
		errors.Is(err, ErrConcurrentDeleteRead) || errors.Is(err, ErrDomainConflict)
}
