package tiering_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// remade is a log whose topic is deleted and made again, with other records, just before the next fetch.
type remade struct {
	*fakeLog
	mu   sync.Mutex
	id   [16]byte
	make func()
}

func (r *remade) TopicID(context.Context, string) ([16]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.id, nil
}

func (r *remade) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	r.mu.Lock()
	if r.make != nil {
		r.id[0]++
		r.make()
		r.make = nil
	}
	defer r.mu.Unlock()
	for _, one := range ranges {
		if one.ID != r.id {
			return []broker.Fetched{{TP: one.TP, Err: broker.ErrUnknownTopic}}, nil
		}
	}
	return r.fakeLog.Fetch(ctx, ranges, opts)
}

// I3: the records of a topic that is made again while a session runs, and is longer than the old one, do not go on in the table
// where the old ones ended; also when the table does not record the topic's id yet.
func TestTopicMadeAgainMeanwhile(t *testing.T) {
	for name, before := range map[string]bool{"a table with rows": true, "an empty table": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			src := &remade{fakeLog: r.log, id: [16]byte{1}}
			r.cfg.Source = src
			if before {
				r.log.append(t, 0, record.None, []byte(`{"n":0}`), []byte(`{"n":1}`))
				r.mustRun()
			}
			r.log.append(t, 0, record.None, []byte(`{"n":2}`), []byte("bad"))
			src.make = func() {
				r.log.update(0, func(p *fakePartition) { *p = fakePartition{} })
				for range 6 {
					r.log.append(t, 0, record.None, []byte(`{"n":-1}`), []byte("bad of the new topic"))
				}
			}
			if _, err := r.run(t.Context()); !errors.Is(err, broker.ErrUnknownTopic) {
				t.Fatalf("run = %v, want that the topic is gone", err)
			}
			log, err := deltalog.Open(t.Context(), r.store, deltalog.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			snap, err := log.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if end, ok := table.LakeEnd(snap, "orders", 0); ok != before || ok && end != 2 {
				t.Errorf("the table stands at %d, %v", end, ok)
			}
			if _, err := deltalog.Open(t.Context(), r.dead, deltalog.Config{}); !errors.Is(err, deltalog.ErrNotTable) { // nor are its letters buried
				t.Errorf("dead letters: %v", err)
			}
			var changed *table.TopicChangedError
			if _, err := r.run(t.Context()); errors.As(err, &changed) != before || err != nil && !before {
				t.Errorf("the next run: %v", err)
			}
		})
	}
}

var _ broker.TopicIdentifier = (*remade)(nil)
