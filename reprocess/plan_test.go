package reprocess_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/reprocess"
)

// A range that ends before it begins is refused: a job that follows would begin at its end, with records that nobody asked for.
func TestUntilBeforeFromIsRefused(t *testing.T) {
	r := newRig(t)
	r.send(0, 200)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []reprocess.Spec{
		{From: "0:50,1:20", Until: "0:10,1:40"},
		{From: "2023-11-14T22:13:20.100Z", Until: "2023-11-14T22:13:20.020Z"}, // of records 100 and 20
	} {
		_, err := reprocess.Open(t.Context(), r.config(spec))
		if !errors.Is(err, reprocess.ErrSpec) || !strings.Contains(err.Error(), "partition 0") {
			t.Errorf("from %s until %s: %v", spec.From, spec.Until, err)
		}
	}
}
