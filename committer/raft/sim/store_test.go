package sim

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// store holds the commit files of the table, and what a reader of the table sees.
type store struct {
	w         *world
	files     map[int64][]byte
	newest    int64
	positions map[string]int64 // app id -> next offset
	meta      *deltalog.Metadata
	proto     *deltalog.Protocol
	live      map[string]bool // data files
	staged    map[string][]byte
	stamp     int64
}

func newStore(w *world) *store {
	s := &store{w: w, files: map[int64][]byte{}, newest: -1, positions: map[string]int64{}, live: map[string]bool{}, staged: map[string][]byte{}}
	w.store = s
	conf := map[string]string{}
	if w.rng.IntN(4) == 0 {
		conf["delta.enableInCommitTimestamps"] = "true"
	}
	s.meta = &deltalog.Metadata{ID: "table", SchemaString: "schema-0", Configuration: conf}
	s.proto = &deltalog.Protocol{MinReaderVersion: 1, MinWriterVersion: 2}
	s.put(0, s.lines(map[string]any{"protocol": s.proto}, map[string]any{"metaData": s.meta}))
	return s
}

// lines makes a commit file of another writer.
func (s *store) lines(actions ...map[string]any) []byte {
	stamp := s.stamp + 1
	info := map[string]any{"txnId": s.w.id("foreign-"), "operation": "WRITE", "inCommitTimestamp": stamp}
	out, _ := json.Marshal(map[string]any{"commitInfo": info})
	for _, a := range actions {
		b, _ := json.Marshal(a)
		out = append(append(out, '\n'), b...)
	}
	return append(out, '\n')
}

func (s *store) shape() fsm.Shape {
	x, err := fsm.ShapeOf(s.meta, s.proto)
	if err != nil {
		s.w.fail("shape: %v", err)
	}
	return x
}

// put is the store's put-if-absent, at the moment at which it takes effect.
func (s *store) put(v int64, data []byte) error {
	if _, there := s.files[v]; there {
		return objstore.ErrExists
	}
	if v != s.newest+1 {
		s.w.fail("version %d is put while the newest is %d: a reader sees a hole", v, s.newest) // I5
		return objstore.ErrExists
	}
	s.files[v], s.newest = data, v
	c, err := deltalog.ParseCommit(data, fmt.Sprint(v))
	if err != nil {
		s.w.fail("version %d: %v", v, err)
		return nil
	}
	s.w.logf("store: version %d is %s, %d adds, %v", v, c.Info.TxnID, len(c.Adds), c.Txns)
	s.w.check.version(v, c)
	for _, x := range c.Txns {
		s.positions[x.AppID] = x.Version + 1
	}
	if c.Metadata != nil {
		s.meta = c.Metadata
	}
	if c.Protocol != nil {
		s.proto = c.Protocol
	}
	if c.Info.InCommitTimestamp != nil {
		s.stamp = *c.Info.InCommitTimestamp
	}
	for i := range c.Removes {
		delete(s.live, c.Removes[i].Path)
	}
	for i := range c.Adds {
		s.live[c.Adds[i].Path] = true
	}
	return nil
}

var errStore = errors.New("503 or 409: the store failed")

// putSlowly is a call of a node: it may fail before or after it took effect, take effect late or twice.
func (s *store) putSlowly(v int64, data []byte, done func(error)) {
	w := s.w
	lost := fmt.Errorf("%w: %w", objstore.ErrUnknownOutcome, errStore)
	switch d := w.between(1, 40); {
	case w.chance(w.faults / 3): // refused
		w.after(d, func() { done(errStore) })
	case w.chance(w.faults / 3): // done, answer lost
		w.after(d, func() {
			_ = s.put(v, data)
			w.after(w.between(1, 100), func() { done(lost) })
		})
	case w.chance(w.faults / 3): // answer lost, done late: perhaps after whoever asked is gone
		w.after(w.between(100, 3000), func() { _ = s.put(v, data) })
		w.after(d, func() { done(lost) })
	case w.chance(w.faults / 3): // done twice
		w.after(d, func() {
			done(s.put(v, data))
			w.after(w.between(1, 1000), func() { _ = s.put(v, data) })
		})
	default:
		w.after(d, func() {
			err := s.put(v, data)
			w.after(w.between(0, 10), func() { done(err) })
		})
	}
}

func (s *store) getSlowly(v int64, done func([]byte, error)) {
	w := s.w
	if w.chance(w.faults / 3) {
		w.after(w.between(1, 50), func() { done(nil, errStore) })
		return
	}
	w.after(w.between(1, 20), func() {
		data, there := s.files[v]
		err := objstore.ErrNotFound
		if there {
			err = nil
		}
		w.after(w.between(0, 5), func() { done(data, err) })
	})
}

// loadSlowly reads a staged object.
func (s *store) loadSlowly(key string, done func([]byte, error)) {
	w := s.w
	if w.chance(w.faults / 3) {
		w.after(w.between(1, 50), func() { done(nil, errStore) })
		return
	}
	w.after(w.between(1, 20), func() {
		data, there := s.staged[key]
		err := objstore.ErrNotFound
		if there {
			err = nil
		}
		done(data, err)
	})
}
