package wire

import (
	"cmp"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// DescribeTransactions, key 65, version 0, when the Log takes transactions.
func apiDescribeTransactions() api {
	return api{key: 65, name: "DescribeTransactions", min: 0, max: 0, handle: (*Server).describeTransactions}
}

func (s *Server) describeTransactions(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DescribeTransactionsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
	for _, id := range req.TransactionalIDs {
		o := kmsg.NewDescribeTransactionsResponseTransactionState()
		o.TransactionalID = id
		if err := s.allowedTxn(r, acl.Describe, id); err != nil {
			o.ErrorCode = codeOf(err)
			resp.TransactionStates = append(resp.TransactionStates, o)
			continue
		}
		st, ok := s.txns.describe(id)
		if !ok {
			o.ErrorCode = codeTxnIDNotFound
			resp.TransactionStates = append(resp.TransactionStates, o)
			continue
		}
		if err := s.charge(r, 256+128*len(st.parts)); err != nil {
			return nil, err
		}
		o.State, o.TimeoutMillis = st.state.String(), int32(st.timeout.Milliseconds())
		o.ProducerID, o.ProducerEpoch = st.producer, st.epoch
		if o.StartTimestamp = -1; st.state == txnOngoing || st.prepared() {
			o.StartTimestamp = st.started
		}
		tps := slices.SortedFunc(maps.Keys(st.parts), func(a, b record.TopicPartition) int {
			return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
		})
		for _, tp := range tps {
			if s.allowedTopic(r, acl.Describe, tp.Topic) != nil {
				continue
			}
			if n := len(o.Topics); n == 0 || o.Topics[n-1].Topic != tp.Topic {
				ot := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
				ot.Topic = tp.Topic
				o.Topics = append(o.Topics, ot)
			}
			last := &o.Topics[len(o.Topics)-1]
			last.Partitions = append(last.Partitions, tp.Partition)
		}
		resp.TransactionStates = append(resp.TransactionStates, o)
	}
	return resp, nil
}

// describe gives the state of an id, false when there is no such id.
func (c *txnCoordinator) describe(id string) (txnState, bool) {
	t := c.find(id)
	if t == nil {
		return txnState{}, false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.state, t.state.epoch >= 0
}
