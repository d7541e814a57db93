package rpc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/record"
)

// Table commits to one table through the group. It leases an epoch for each partition that it first commits, and
// again after it was told that a newer owner has committed.
type Table struct {
	c        *Client
	location string
	store    objstore.Store // of the table, nil when large requests are not staged
	mu       sync.Mutex
	epochs   map[string]int64      // app id -> leased epoch
	open     map[[32]byte]openCall // requests without an answer, by content
	order    [][32]byte            // of open, oldest first
}

type openCall struct{ id string }

// maxOpen bounds how many requests without an answer keep their ids.
const maxOpen = 1024

var _ committer.Committer = (*Table)(nil)

// Table gives the committer of a table. The location is a path or URL as the nodes can open it.
func (c *Client) Table(location string) *Table {
	return &Table{c: c, location: strings.TrimRight(location, "/"), epochs: map[string]int64{}, open: map[[32]byte]openCall{}}
}

// Commit sends the request until it is answered or ctx ends. Errors are those of committer.Committer.
func (t *Table) Commit(ctx context.Context, req committer.Request) (deltalog.Version, error) {
	r := &CommitRequest{
		Table: t.location, App: req.App, Adds: req.Adds, Incarnation: req.Incarnation, Schema: fsm.SchemaHash(req.Schema),
		Parameters: req.Parameters, Properties: req.Properties, Early: req.Early, RowRules: req.RowRules,
	}
	for _, x := range req.Ranges {
		r.Ranges = append(r.Ranges, fsm.Range{Partition: x.Partition, From: int64(x.From), To: int64(x.To), Epoch: req.Epoch})
	}
	v, err := t.send(ctx, r, req.Epoch == 0)
	if err != nil {
		return -1, fmt.Errorf("commit to %s: %w", t.location, err)
	}
	return v, nil
}

// send sends a request until it is answered or ctx ends.
func (t *Table) send(ctx context.Context, r *CommitRequest, lease bool) (deltalog.Version, error) {
	key, size, err := t.identify(r)
	if err != nil {
		return -1, err
	}
	if lease {
		if err := t.lease(ctx, r); err != nil {
			return -1, fmt.Errorf("lease: %w", err)
		}
	}
	if size > stageAbove {
		if r.Early {
			return -1, fmt.Errorf("%w: it has %d bytes, early answers are for requests of at most %d: commit fewer files at a time, or wait for the store",
				committer.ErrInvalidRequest, size, stageAbove)
		}
		if err := t.stage(ctx, r, size); err != nil {
			return -1, err
		}
	}
	answer, err := t.c.tell(ctx, r)
	if errors.Is(err, deltalog.ErrNotTable) {
		return -1, err
	}
	if err != nil && answer.Code != fsm.Lost {
		return -1, fmt.Errorf("%w: %w", objstore.ErrUnknownOutcome, err)
	}
	t.answered(key)
	t.unstage(ctx, r)
	if err := errors.Join(t.failure(r, answer), err); err != nil {
		return -1, err
	}
	return deltalog.Version(answer.Version), nil
}

// tell sends a request with what callers were told of the table before. What is in an answer that gets lost is not among that.
func (c *Client) tell(ctx context.Context, r *CommitRequest) (fsm.Answer, error) {
	c.mu.Lock()
	r.Told = cmp.Or(c.told[r.Table], ToldNothing)
	c.mu.Unlock()
	answer, id, err := c.commit(ctx, r)
	if id != "" {
		c.mu.Lock()
		c.told[r.Table] = id
		c.mu.Unlock()
	}
	return answer, err
}

// commit sends one request until it has an answer. It gives the id of the replaced version that the answer tells of.
func (c *Client) commit(ctx context.Context, r *CommitRequest) (answer fsm.Answer, told string, err error) {
	var noTable, replaced error
	err = c.call(ctx, r.call(), r, func() headed { return &CommitReply{} }, func(h headed) error {
		x := h.(*CommitReply)
		answer = x.Answer
		if x.NoTable != "" {
			noTable = fmt.Errorf("%w: the group cannot open %s: %s", deltalog.ErrNotTable, r.Table, x.NoTable)
			return nil
		}
		if x.Replaced != nil {
			told, replaced = x.Replaced.ID, &deltalog.ReplacedError{Version: deltalog.Version(x.Replaced.Version), By: x.Replaced.By}
			return nil
		}
		if x.Error == "" && !answer.Code.Final() && !(r.Early && answer.Code == fsm.Pending) {
			return fmt.Errorf("unexpected answer %d", answer.Code)
		}
		return passing(x.Error)
	})
	return answer, told, errors.Join(err, noTable, replaced)
}

// identify gives the request its id: that of an earlier call with the same content which got no answer, else a new
// one. So what tiering tries again is the same request to the group. It gives the size, too.
func (t *Table) identify(r *CommitRequest) ([32]byte, int, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return [32]byte{}, 0, fmt.Errorf("encode request: %w", err)
	}
	key := sha256.Sum256(raw)
	t.mu.Lock()
	defer t.mu.Unlock()
	if x, ok := t.open[key]; ok {
		r.ID = x.id
		return key, len(raw), nil
	}
	r.ID = uuid.NewString()
	t.open[key] = openCall{r.ID}
	t.order = append(t.order, key)
	for len(t.order) > maxOpen {
		delete(t.open, t.order[0])
		t.order = t.order[1:]
	}
	return key, len(raw), nil
}

func (t *Table) answered(key [32]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, key)
	for i, k := range t.order {
		if k == key {
			t.order = append(t.order[:i], t.order[i+1:]...)
			break
		}
	}
}

// lease fills the epochs of the ranges in, and leases those that this writer does not have.
func (t *Table) lease(ctx context.Context, r *CommitRequest) error {
	var missing []int32
	t.mu.Lock()
	for i := range r.Ranges {
		x := &r.Ranges[i]
		if x.Epoch = t.epochs[fsm.AppID(r.App, x.Partition)]; x.Epoch == 0 {
			missing = append(missing, x.Partition)
		}
	}
	t.mu.Unlock()
	if len(missing) == 0 {
		return nil
	}
	epoch, err := t.c.Lease(ctx, LeaseRequest{Table: t.location, App: r.App, Partitions: missing, Owner: t.c.cfg.Owner})
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range r.Ranges {
		x := &r.Ranges[i]
		if x.Epoch == 0 {
			x.Epoch = epoch
			t.epochs[fsm.AppID(r.App, x.Partition)] = epoch
		}
	}
	return nil
}

// failure makes the error of an answer.
func (t *Table) failure(r *CommitRequest, a fsm.Answer) error {
	var of fsm.Range
	for _, x := range r.Ranges {
		if x.Partition == a.Partition {
			of = x
		}
	}
	switch a.Code {
	case fsm.Published, fsm.Pending:
		return nil
	case fsm.Stale:
		t.mu.Lock()
		id := fsm.AppID(r.App, a.Partition)
		if t.epochs[id] == of.Epoch {
			delete(t.epochs, id)
		}
		t.mu.Unlock()
		return &committer.EpochError{Partition: a.Partition, Epoch: of.Epoch, Newest: a.At}
	case fsm.Incarnation:
		return fmt.Errorf("%w (id %s, now %s)", committer.ErrIncarnation, r.Incarnation, a.Text)
	case fsm.Schema:
		return committer.ErrSchemaChanged
	case fsm.Misplaced:
		return &committer.RangeError{Partition: a.Partition, Want: record.Offset(a.At), Got: record.Offset(of.From)}
	case fsm.Fenced:
		return &committer.FencedError{Committed: record.Offset(a.At),
			Range: committer.Range{Partition: of.Partition, From: record.Offset(of.From), To: record.Offset(of.To)}}
	case fsm.Conflict:
		return fmt.Errorf("%w: %s", deltalog.ErrConcurrentDelete, a.Text)
	case fsm.Reshaped:
		return fmt.Errorf("%w: %s", deltalog.ErrMetadataChanged, a.Text)
	case fsm.Lost:
		return fmt.Errorf("%w: the table was replaced in the store while the commit was under way", objstore.ErrUnknownOutcome)
	case fsm.Invalid:
		return fmt.Errorf("%w: %s", committer.ErrInvalidRequest, a.Text)
	}
	return errors.New("the group gave an unknown answer; upgrade this program")
}
