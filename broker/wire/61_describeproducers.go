package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// DescribeProducers, key 61, version 0, when the Log takes transactions.
//
// The producers that a partition remembers, with the start of their open transaction.
func apiDescribeProducers() api {
	return api{key: 61, name: "DescribeProducers", min: 0, max: 0, handle: (*Server).describeProducers}
}

func (s *Server) describeProducers(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DescribeProducersRequest)
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	for _, rt := range req.Topics {
		ot := kmsg.NewDescribeProducersResponseTopic()
		ot.Topic = rt.Topic
		denied := s.allowedTopic(r, acl.Read, rt.Topic)
		for _, n := range rt.Partitions {
			op := kmsg.NewDescribeProducersResponseTopicPartition()
			op.Partition = n
			var states []broker.ProducerState
			err := denied
			if err == nil {
				states, err = s.txns.log.Producers(r.ctx, record.TopicPartition{Topic: rt.Topic, Partition: n})
			}
			op.ErrorCode, op.ErrorMessage = codeOf(err), msgOf(err)
			if err := s.charge(r, 128+96*len(states)); err != nil {
				return nil, err
			}
			for _, st := range states {
				p := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
				p.ProducerID, p.ProducerEpoch, p.LastSequence, p.LastTimestamp = st.ID, int32(st.Epoch), st.LastSequence, st.LastTimestamp
				p.CoordinatorEpoch, p.CurrentTxnStartOffset = st.CoordinatorEpoch, int64(st.TxnStart)
				op.ActiveProducers = append(op.ActiveProducers, p)
			}
			ot.Partitions = append(ot.Partitions, op)
		}
		resp.Topics = append(resp.Topics, ot)
	}
	return resp, nil
}
