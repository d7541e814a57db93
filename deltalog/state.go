package deltalog

import (
	"fmt"
	"strings"
)

// smallCommit is the number of adds up to which partition values are shared with earlier commits.
const smallCommit = 64

// state is the replayed log: the mutable thing behind a Log from which snapshots are cut.
type state struct {
	version   Version
	base      Version // of the checkpoint that the replay began with, -1 for none
	timestamp int64   // ms
	head      head    // the newest file that was replayed
	ict       int64   // in-commit timestamp of version, 0 when it has none
	protocol  *Protocol
	metadata  *Metadata
	schema    *StructType
	txns      map[string]Txn // copied on write
	domains   map[string]DomainMetadata
	files     *rows
	graves    *rows
	light     bool  // holds no files: only their number, as far as it is known
	count     int64 // light: number of files
	pending   int64 // bytes of commits replayed since the checkpoint that the replay began with
	// keptGraves is the number of tombstones after the last dropExpired.
	keptGraves int
	intern     *interner // of partition values across commits
	hashes     []uint32  // of the adds of a piece
}

func newState(light bool) *state {
	return &state{version: -1, base: -1, files: &rows{}, graves: &rows{}, intern: newInterner(), light: light}
}

// mark is where the rows of a version begin.
type mark struct{ files, graves int }

func (s *state) mark() mark { return mark{s.files.n, s.graves.n} }

// applyFiles replays the adds and removes of a piece of version v, whose rows begin at m. After an error the
// state is spoiled and must be dropped.
func (s *state) applyFiles(v Version, m mark, a *actions, fromCheckpoint bool) error {
	if s.light {
		s.count += int64(len(a.adds)) + a.unread
		if !fromCheckpoint {
			s.count -= int64(len(a.removes))
		}
		return nil
	}
	if len(a.adds) <= smallCommit { // larger ones have shared their maps while parsing
		for i := range a.adds {
			a.adds[i].PartitionValues = s.intern.values(a.adds[i].PartitionValues)
		}
	}
	s.hashes = s.hashes[:0]
	for i := range a.adds {
		s.hashes = append(s.hashes, hashText(canonicalPath(a.adds[i].Path)))
	}
	s.files.index.expect(max(len(a.adds), a.expected), s.hashes)
	r := 0
	for i := range a.adds {
		for r < len(a.removes) && a.addsBefore[r] <= i {
			if err := s.bury(v, m, &a.removes[r], fromCheckpoint); err != nil {
				return err
			}
			r++
		}
		tags := ""
		if a.tagTexts != nil {
			tags = a.tagTexts[i]
		}
		if err := s.addFile(v, m, &a.adds[i], s.hashes[i], tags, fromCheckpoint); err != nil {
			return err
		}
	}
	for ; r < len(a.removes); r++ {
		if err := s.bury(v, m, &a.removes[r], fromCheckpoint); err != nil {
			return err
		}
	}
	return nil
}

func schemaOf(m *Metadata) (*StructType, error) {
	if m.SchemaString == "" {
		return &StructType{}, nil // streaming tables have none before their first write
	}
	s, err := ParseSchema(m.SchemaString)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(s.Fields))
	for _, f := range s.Fields {
		low := strings.ToLower(f.Name)
		if seen[low] {
			return nil, fmt.Errorf("schema with column %q twice", f.Name)
		}
		seen[low] = true
	}
	for _, p := range m.PartitionColumns {
		if len(s.Fields) > 0 && !seen[strings.ToLower(p)] {
			return nil, fmt.Errorf("partition column %q is not in the schema", p)
		}
	}
	return s, nil
}

// applyNamed replays everything else of version v, and ends it.
func (s *state) applyNamed(v Version, a *actions) error {
	if a.protocol != nil {
		s.protocol = a.protocol
	}
	if a.metadata != nil {
		schema, err := schemaOf(a.metadata)
		if err != nil {
			return err
		}
		s.metadata, s.schema = a.metadata, schema
	}
	if len(a.txns) > 0 {
		m := make(map[string]Txn, len(s.txns)+len(a.txns))
		for k, t := range s.txns {
			m[k] = t
		}
		for _, t := range a.txns {
			m[t.AppID] = t // the newest by replay order wins: versions may go down
		}
		s.txns = m
	}
	if len(a.domains) > 0 {
		m := make(map[string]DomainMetadata, len(s.domains)+len(a.domains))
		for k, d := range s.domains {
			m[k] = d
		}
		for _, d := range a.domains {
			if d.Removed {
				delete(m, d.Domain)
			} else {
				m[d.Domain] = d
			}
		}
		s.domains = m
	}
	s.version = v
	return nil
}

func (s *state) addFile(v Version, m mark, a *Add, hash uint32, tags string, fromCheckpoint bool) error {
	k := fileID{hash: hash, path: canonicalPath(a.Path), dv: a.DeletionVector.UniqueID()}
	before, err := s.files.pushAdd(k, a, tags)
	if err != nil {
		return err
	}
	if before >= 0 {
		if before >= m.files && !fromCheckpoint {
			return fmt.Errorf("second add of %q in one commit", a.Path)
		}
		s.files.stop(before, v)
	}
	if i := s.graves.find(k); i >= 0 {
		s.graves.stop(i, v)
	}
	return nil
}

func (s *state) bury(v Version, m mark, r *Remove, fromCheckpoint bool) error {
	k := idOf(r.Path, r.DeletionVector)
	r.PartitionValues = s.intern.values(r.PartitionValues)
	before, err := s.graves.pushRemove(k, r)
	if err != nil {
		return err
	}
	if before >= 0 {
		if before >= m.graves && !fromCheckpoint {
			return fmt.Errorf("second remove of %q in one commit", r.Path)
		}
		s.graves.stop(before, v)
	}
	if i := s.files.find(k); i >= 0 {
		s.files.stop(i, v)
	}
	return nil
}

// compact drops ended rows when they are the majority, so that a long-lived Log does not grow for ever.
func (s *state) compact() error {
	for _, r := range []**rows{&s.files, &s.graves} {
		if (*r).n <= 1024 || (*r).live*2 >= (*r).n {
			continue
		}
		kept, err := (*r).compacted()
		if err != nil {
			return err
		}
		*r = kept
		s.intern = newInterner() // of values that no file has any more
	}
	return nil
}

// dropExpired forgets tombstones whose time is over when their number has doubled since the last time, so that
// memory is bounded by what the table's retention asks for.
func (s *state) dropExpired(now int64) {
	if s.graves.live < 1024 || s.graves.live < 2*s.keptGraves {
		return
	}
	keep := now - tombstoneRetention(s.metadata).Milliseconds()
	for i := range s.graves.n {
		if b, j := s.graves.at(i); b.flags[j]&flagTime == 0 || b.time[j] <= keep {
			s.graves.stop(i, s.version)
		}
	}
	s.keptGraves = s.graves.live
}
