package tiering_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/record"
)

// unclear commits, loses the first answer, and lets others move the table on before the next try.
type unclear struct {
	committer.Committer
	tries int
	moved func()
}

func (u *unclear) Commit(ctx context.Context, req committer.Request) (deltalog.Version, error) {
	u.tries++
	v, err := u.Committer.Commit(ctx, req)
	if u.tries > 1 || err != nil {
		return v, err
	}
	u.moved()
	return -1, fmt.Errorf("%w: the answer was lost", objstore.ErrUnknownOutcome)
}

// TestUnknownOutcomeKeepsFiles: after a commit whose outcome was never told, its data files stay, whatever a later
// try says: the table may refer to them (I1, I3).
func TestUnknownOutcomeKeepsFiles(t *testing.T) {
	r := newRig(t, 1)
	r.fill(20, 5)
	other := *r // has no part in what follows
	log, err := deltalog.Open(t.Context(), r.store, deltalog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	u := &unclear{Committer: committer.NewDirect(log)}
	u.moved = func() {
		r.log.append(t, 0, record.None, []byte(`{"n":1}`))
		other.mustRun()
	}
	r.cfg.Committer = u
	s := r.mustRun()
	if u.tries < 2 || s.Restarts == 0 {
		t.Errorf("%d tries, %d restarts: the test has not shown the case", u.tries, s.Restarts)
	}
	r.check() // reads every file of the table
}
