package tiering_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

// beforeFetch does something once, when a session has read the table and asks for its first records.
type beforeFetch struct {
	*fakeLog
	once *sync.Once
	do   func()
}

func (b beforeFetch) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	b.once.Do(b.do)
	return b.fakeLog.Fetch(ctx, ranges, opts)
}

// giveTo lets another application fill the table from now on.
func (r *rig) giveTo(app string) {
	log, err := deltalog.Open(r.t.Context(), r.store, deltalog.Config{})
	if err != nil {
		r.t.Error(err)
		return
	}
	defer log.Close()
	snap, err := log.Snapshot(r.t.Context())
	if err == nil {
		meta := *snap.Metadata()
		meta.Configuration = map[string]string{committer.FilledByProperty: app}
		_, err = log.Commit(r.t.Context(), deltalog.Commit{ReadVersion: snap.Version(), Operation: "SET TBLPROPERTIES", Metadata: &meta})
	}
	if err != nil {
		r.t.Error(err)
	}
}

func keys(t *testing.T, store *mem.Store) (out []string) {
	t.Helper()
	for o, err := range store.List(t.Context(), objstore.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, o.Key)
	}
	return out
}

// An application that does not fill the table any more commits no letter of a record either, which is another's to
// judge: the record would be a letter of the one and a row of the other (I3, I7).
func TestNoLetterOfFencedApplication(t *testing.T) {
	for name, late := range map[string]bool{"before it began": false, "while it ran": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			r.log.append(t, 0, record.None, []byte(`{"n":0}`), []byte("bad"))
			r.mustRun()
			r.log.append(t, 0, record.None, []byte(`{"n":2}`), []byte("bad"))
			if late {
				r.cfg.Source = beforeFetch{r.log, new(sync.Once), func() { r.giveTo("job") }}
			} else {
				r.giveTo("job")
			}
			var filled *committer.FilledByError
			if _, err := r.run(t.Context()); !errors.As(err, &filled) || filled.FilledBy != "job" {
				t.Fatalf("run = %v, want a FilledByError of job", err)
			}
			wantDead(t, r, place{0, 1})
			got, _ := rows(t, r.store)
			if len(got) != 1 {
				t.Errorf("%d rows, want 1: %v", len(got), got)
			}
			before := keys(t, r.store)
			if _, err := r.run(t.Context()); !errors.As(err, &filled) {
				t.Fatalf("run again = %v, want a FilledByError", err)
			}
			if after := keys(t, r.store); !slices.Equal(before, after) {
				t.Errorf("the second run left %v, before it were %v", after, before)
			}
		})
	}
}

// An application that loses the table between its letters and its rows leaves its letters: the one that has taken over may have
// letters of the same records, and no record is ever without a letter or a row (I7).
func TestLettersOfTwoFillers(t *testing.T) {
	r := newRig(t, 1)
	r.log.append(t, 0, record.None, []byte(`{"n":0}`), []byte("bad"))
	one, two := *r, *r
	one.cfg.App, two.cfg.App = "job1", "job2"
	var first sync.Once
	r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpPutIfAbsent {
			done := false
			first.Do(func() { done = true })
			if done { // outside of first: job2 commits too
				two.giveTo("job2")
				two.mustRun()
			}
		}
		return mem.Fault{}
	})
	var filled *committer.FilledByError
	if _, err := one.run(t.Context()); !errors.As(err, &filled) {
		t.Errorf("run = %v, want a FilledByError", err)
	}
	r.store.SetHook(nil)
	two.mustRun()
	if got := scanned(t, r.store, "_offset"); !slices.Equal(got, []string{"0"}) {
		t.Errorf("rows %v, want offset 0", got)
	}
	letters, err := deltalog.Open(t.Context(), r.dead, deltalog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer letters.Close()
	snap, err := letters.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for add := range snap.Files() {
		for _, row := range fileRows(t, r.dead, add.Path) {
			got = append(got, row["_offset"])
		}
	}
	if !slices.Contains(got, "1") {
		t.Errorf("letters %v, want offset 1 among them", got)
	}
}
