package reprocess_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/reprocess"
	"github.com/ledgerlake/ledgerlake/table"
)

var errCut = errors.New("cut off")

// cutStore fails from some delete on.
type cutStore struct {
	objstore.Store
	left int
}

func (s *cutStore) Delete(ctx context.Context, key string) error {
	if s.left--; s.left < 0 {
		return errCut
	}
	return s.Store.Delete(ctx, key)
}

// Wherever a discard is cut off, what is left is no table, or one whose files are all there: a job that is started again
// would swap in a table with holes otherwise.
func TestDiscardThatIsCutOff(t *testing.T) {
	r := newRig(t)
	r.send(0, 300)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	cfg := r.config(reprocess.Spec{SplitBytes: 2000})
	j := r.open(cfg)
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	for whole := false; !whole; {
		_, err := reprocess.Retire(t.Context(), r.live, &cutStore{cfg.Sink, 1}, j.Plan().Job, true)
		if whole = err == nil; !whole && !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		left, err := table.Open(t.Context(), cfg.Sink, table.Config{})
		if errors.Is(err, deltalog.ErrNotTable) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		r.values(left, "n") // fails when a file is gone
		if err := left.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A new table with columns that need a feature of Delta which the old one does not have brings it along.
func TestSwapBringsFeatures(t *testing.T) {
	r := newRig(t)
	r.send(0, 100)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	cfg := r.config(reprocess.Spec{})
	schema, err := deltalog.ParseSchema(`{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}},{"name":"at","type":"timestamp_ntz","nullable":true,"metadata":{}}]}`)
	if err == nil {
		cfg.Schema, err = deltalog.ToArrow(schema)
	}
	if err != nil {
		t.Fatal(err)
	}
	j := r.open(cfg)
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Swap(t.Context(), r.live, false); err != nil {
		t.Fatal(err)
	}
	same(t, "n", r.values(r.live, "n"), r.want(asSent))
	if found, err := r.live.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("check: %v %v", found, err)
	}
}
