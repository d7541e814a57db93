package deltalog

import (
	"fmt"
	"iter"
	"math"
	"strings"
	"sync/atomic"
)

const (
	chunkSize = 256
	// smallCommit is the number of adds up to which partition values are shared with earlier commits.
	smallCommit = 64
	notRemoved  = math.MaxInt64
)

// chunk holds items in the order in which they came and the version that ended each of them. Chunks never move,
// so that snapshots can share them with the state that goes on growing.
type chunk[T any] struct {
	items [chunkSize]T
	ended [chunkSize]atomic.Int64
}

// timeline is an append-only list whose items live from the version that added them to the version that ended
// them. A view of the first n items at version v stays right whatever is added or ended later.
type timeline[T any] struct {
	chunks []*chunk[T]
	n      int
	live   int
}

func (t *timeline[T]) push(x T) int {
	if t.n == len(t.chunks)*chunkSize {
		t.chunks = append(t.chunks, new(chunk[T]))
	}
	i := t.n
	c := t.chunks[i/chunkSize]
	c.items[i%chunkSize] = x
	c.ended[i%chunkSize].Store(notRemoved)
	t.n++
	t.live++
	return i
}

func (t *timeline[T]) at(i int) *T { return &t.chunks[i/chunkSize].items[i%chunkSize] }

func (t *timeline[T]) end(i int, v Version) {
	t.chunks[i/chunkSize].ended[i%chunkSize].Store(int64(v))
	t.live--
}

// view is what a snapshot keeps of a timeline.
type view[T any] struct {
	chunks  []*chunk[T]
	n, live int
	version int64
}

func (t *timeline[T]) view(v Version) view[T] {
	return view[T]{chunks: t.chunks[:len(t.chunks):len(t.chunks)], n: t.n, live: t.live, version: int64(v)}
}

func (w view[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := 0; i < w.n; i++ {
			c := w.chunks[i/chunkSize]
			if c.ended[i%chunkSize].Load() > w.version && !yield(&c.items[i%chunkSize]) {
				return
			}
		}
	}
}

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
	files     timeline[Add]
	fileAt    map[string]int32
	graves    timeline[Remove]
	graveAt   map[string]int32
	bytes     int64
	// keptGraves is the number of tombstones after the last dropExpired.
	keptGraves int
	intern     *interner // of partition values across commits
}

func newState() *state {
	return &state{version: -1, base: -1, fileAt: map[string]int32{}, graveAt: map[string]int32{}, intern: newInterner()}
}

// apply replays one version. After an error the state is spoiled and must be dropped.
func (s *state) apply(v Version, a *actions, fromCheckpoint bool) error {
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
	s.applyNamed(a)
	if len(a.adds) <= smallCommit { // larger ones have shared their maps while parsing
		for i := range a.adds {
			a.adds[i].PartitionValues = s.intern.values(a.adds[i].PartitionValues)
		}
	}
	if len(s.fileAt) == 0 && len(a.adds) > chunkSize {
		s.fileAt = make(map[string]int32, len(a.adds))
	}
	first := s.files.n
	r := 0
	for i := range a.adds {
		for r < len(a.removes) && a.addsBefore[r] <= i {
			s.bury(v, &a.removes[r])
			r++
		}
		if err := s.addFile(v, &a.adds[i], first, fromCheckpoint); err != nil {
			return err
		}
	}
	for ; r < len(a.removes); r++ {
		s.bury(v, &a.removes[r])
	}
	s.version = v
	return nil
}

func schemaOf(m *Metadata) (*StructType, error) {
	if m.SchemaString == "" {
		return &StructType{}, nil // streaming tables have none before their first write
	}
	return ParseSchema(m.SchemaString)
}

func (s *state) applyNamed(a *actions) {
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
}

func (s *state) addFile(v Version, a *Add, first int, fromCheckpoint bool) error {
	k := fileKey(a.Path, a.DeletionVector)
	if i, ok := s.fileAt[k]; ok {
		if int(i) >= first && !fromCheckpoint {
			return fmt.Errorf("second add of %q in one commit", a.Path)
		}
		s.bytes -= s.files.at(int(i)).Size
		s.files.end(int(i), v)
	}
	if s.files.n >= math.MaxInt32 {
		return fmt.Errorf("more than %d files", math.MaxInt32)
	}
	s.fileAt[k] = int32(s.files.push(*a))
	s.bytes += a.Size
	if i, ok := s.graveAt[k]; ok {
		s.graves.end(int(i), v)
		delete(s.graveAt, k)
	}
	return nil
}

func (s *state) bury(v Version, r *Remove) {
	k := fileKey(r.Path, r.DeletionVector)
	if i, ok := s.fileAt[k]; ok {
		s.bytes -= s.files.at(int(i)).Size
		s.files.end(int(i), v)
		delete(s.fileAt, k)
	}
	if i, ok := s.graveAt[k]; ok {
		s.graves.end(int(i), v)
	}
	s.graveAt[k] = int32(s.graves.push(*r))
}

// compact drops ended items when they are the majority, so that a long-lived Log does not grow for ever.
// Snapshots keep the old chunks.
func (s *state) compact() {
	if s.files.n > 1024 && s.files.live*2 < s.files.n {
		s.files, s.fileAt = rebuild(s.files.view(s.version), func(a *Add) string {
			// Their text lies in one piece of memory with that of ended files: let go of it.
			a.Path, a.Stats = strings.Clone(a.Path), strings.Clone(a.Stats)
			return fileKey(a.Path, a.DeletionVector)
		})
	}
	if s.graves.n > 1024 && s.graves.live*2 < s.graves.n {
		s.graves, s.graveAt = rebuild(s.graves.view(s.version), func(r *Remove) string {
			r.Path, r.Stats = strings.Clone(r.Path), strings.Clone(r.Stats)
			return fileKey(r.Path, r.DeletionVector)
		})
	}
}

// rebuild copies what lives. own makes a copy independent of the original and gives its key.
func rebuild[T any](w view[T], own func(*T) string) (timeline[T], map[string]int32) {
	var t timeline[T]
	at := make(map[string]int32, w.live)
	for x := range w.all() {
		i := t.push(*x)
		at[own(t.at(i))] = int32(i)
	}
	return t, at
}

// dropExpired forgets tombstones whose time is over when their number has doubled since the last time, so that
// memory is bounded by what the table's retention asks for.
func (s *state) dropExpired(now int64) {
	if s.graves.live < 1024 || s.graves.live < 2*s.keptGraves {
		return
	}
	keep := now - tombstoneRetention(s.metadata).Milliseconds()
	for k, i := range s.graveAt {
		if ts := s.graves.at(int(i)).DeletionTimestamp; ts == nil || *ts <= keep {
			s.graves.end(int(i), s.version)
			delete(s.graveAt, k)
		}
	}
	s.keptGraves = s.graves.live
}
