package pulsar

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// quiet is how long nothing may come, though the broker says that there is more, before it is asked why: what no consumer
// sees, marks of transactions and messages of aborted ones, never comes, and neither does anything from a broker that
// stands still.
const quiet = 5 * time.Second

// silent says whether the broker reads and has nothing that a consumer sees behind the entry at, which came, up to last, which
// it names as the last message. Silence alone shows nothing, since a broker may stand still (I4). So a new reader is to
// get at again, and nothing behind it, then one more is to get it behind that silence; and a reader that begins at last
// gets nothing. False when any of that fails: there is more to come, or the broker does not say.
func (p *partition) silent(ctx context.Context, at, last MessageID) (bool, error) {
	if p.s.feed.Gapless() { // nothing will ever come
		return true, nil
	}
	if at.Ledger < 0 {
		return false, nil
	}
	again, err := p.s.feed.Open(ctx, p.topic, at, nil)
	if err != nil {
		return false, err
	}
	defer again.Close()
	if came, err := p.comes(ctx, again, at); err != nil || !came {
		return false, err
	}
	marked, err := p.s.feed.Open(ctx, p.topic, last, nil)
	if err != nil {
		return false, err
	}
	defer marked.Close()
	for _, k := range []Entries{again, marked} {
		wait, cancel := context.WithTimeout(ctx, p.s.quiet)
		_, err := k.Receive(wait)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return false, err
		}
	}
	if again.Queued() > 0 {
		return false, nil
	}
	witness, err := p.s.feed.Open(ctx, p.topic, at, nil)
	if err != nil {
		return false, err
	}
	defer witness.Close()
	return p.comes(ctx, witness, at)
}

// gone says whether a reader from the oldest message on has nothing to get up to last: retention took all of it, or the broker
// itself has acknowledged it for the reader, as it does with what no consumer sees.
func gone(ctx context.Context, k Entries, last MessageID) (bool, error) {
	r, ok := k.(interface {
		Acked(context.Context) (MessageID, bool, error)
	})
	if !ok {
		return false, nil
	}
	at, ok, err := r.Acked(ctx)
	return err == nil && ok && compareEntries(at, last) >= 0, err
}

// comes says whether the entry at is the first to come, soon.
func (p *partition) comes(ctx context.Context, k Entries, at MessageID) (bool, error) {
	wait, cancel := context.WithTimeout(ctx, p.s.quiet)
	defer cancel()
	d, err := k.Receive(wait)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return false, nil
	}
	return err == nil && compareEntries(d.ID, at) == 0, err
}

// patience is how long nothing may come and nobody can say why, before that is an error.
func (p *partition) patience() time.Duration { return max(p.s.cfg.RetryTimeout, 6*p.s.quiet) }

// stuck is the end of patience.
func (p *partition) stuck(at, last MessageID) error {
	met := "nothing came of it"
	if at.Ledger >= 0 {
		met = fmt.Sprintf("nothing came behind %s", at)
	}
	return fmt.Errorf("pulsar: %s ends with %s, and %s for %v: see whether its bookies answer, and run again", p.tp, last, met, p.patience())
}
