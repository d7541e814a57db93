package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// abortHanging ends transactions that are open in the Log and that no transaction of the coordinator will ever
// end. A power loss leaves such when the Log does not sync what it acknowledges: records are there, and the state
// that says whose they are is lost. They would keep read_committed consumers from all that follows, and cleaning
// and tiering too. It is done before clients come. A partition that fails is logged; the next start tries again.
func (c *txnCoordinator) abortHanging(ctx context.Context) error {
	owners := map[int64]txnState{}
	for _, t := range c.all() {
		if st := t.state; st.state == txnOngoing || st.prepared() {
			owners[st.producer] = st
		}
	}
	infos, err := c.log.Topics(ctx)
	if err != nil {
		return fmt.Errorf("look for hanging transactions: %w", err)
	}
	for _, in := range infos {
		for p := range in.Config.Partitions {
			tp := record.TopicPartition{Topic: in.Name, Partition: p}
			err := c.abortHangingIn(ctx, tp, owners)
			if err != nil && !errors.Is(err, broker.ErrUnknownTopic) {
				c.lg.Error("abort hanging transactions; a restart tries again", "partition", tp.String(), "err", err)
			}
		}
	}
	return nil
}

func (c *txnCoordinator) abortHangingIn(ctx context.Context, tp record.TopicPartition, owners map[int64]txnState) error {
	b, err := c.log.Bounds(ctx, tp)
	if err != nil || b.Stable >= b.End {
		return err
	}
	producers, err := c.log.Producers(ctx, tp)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range producers {
		// What ends a transaction reaches its partitions only, and there no newer epoch than its own.
		if own, ok := owners[p.ID]; p.TxnStart < 0 || ok && own.parts[tp] && own.epoch >= p.Epoch {
			continue
		}
		c.lg.Warn("transaction aborted: it is open in the log, and no transactional id owns it (lost with the power?)",
			"partition", tp.String(), "offset", int64(p.TxnStart), "producer", p.ID, "epoch", p.Epoch)
		_, err := c.log.AppendMarker(ctx, tp, broker.TxnMarker{ProducerID: p.ID, Epoch: p.Epoch, CoordinatorEpoch: max(p.CoordinatorEpoch, 0)})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
