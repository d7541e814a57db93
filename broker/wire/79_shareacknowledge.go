package wire

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker/wire/share"
	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// ShareAcknowledge, key 79, versions 1 to 2 (renewals from 2).
//
// Takes what a member makes of records that it was given, within the session that ShareFetch opened. All that is said of a
// partition is taken, durably, or nothing. The session's last request gives back what nothing was said of.
func apiShareAcknowledge() api {
	return api{key: keyShareAcknowledge, name: "ShareAcknowledge", min: 1, max: 2, handle: (*Server).shareAcknowledge}
}

func (s *Server) shareAcknowledge(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ShareAcknowledgeRequest)
	resp := req.ResponseKind().(*kmsg.ShareAcknowledgeResponse)
	who := shareReader{deref(req.GroupID), deref(req.MemberID)}
	acks := acksOfRequest(req)
	code, err := s.mayShare(r, who)
	if err == nil {
		code, err = checkAcks(acks)
	}
	var parts []shareKey
	if err == nil {
		if err := s.charge(r, shareSaid*len(acks)); err != nil {
			return nil, err
		}
		resp.AcquisitionLockTimeoutMillis = int32(s.tuned.of(who.group).limits().Lock)
		parts, code = s.acknowledging(r, who, req.ShareSessionEpoch)
		if code != codeNone {
			err = errShareSession
		}
	}
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = code, msgOf(err)
		return resp, nil
	}
	place := map[[16]byte]int{}
	s.acknowledge(r, who, acks, req.IsRenewAck, func(k shareKey, code int16, err error) {
		i, ok := place[k.Topic]
		if !ok {
			i = len(resp.Topics)
			place[k.Topic] = i
			t := kmsg.NewShareAcknowledgeResponseTopic()
			t.TopicID = k.Topic
			resp.Topics = append(resp.Topics, t)
		}
		p := kmsg.NewShareAcknowledgeResponseTopicPartition()
		p.Partition, p.ErrorCode, p.ErrorMessage = k.Partition, code, msgOf(err)
		p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = -1, -1
		resp.Topics[i].Partitions = append(resp.Topics[i].Partitions, p)
	})
	s.release(who, parts)
	return resp, nil
}

// acknowledging finds the session of an acknowledgement. It gives the partitions of one that ends with it.
func (s *Server) acknowledging(r *request, who shareReader, epoch int32) (ending []shareKey, code int16) {
	switch epoch {
	case epochFinal:
		parts, ok := s.reading.end(who)
		if !ok {
			return nil, codeShareSessionNotFound
		}
		return parts, codeNone
	case epochNewSession: // is for ShareFetch
		return nil, codeInvalidShareSessionEpoch
	}
	_, code = s.reading.next(r, who, epoch, nil, nil)
	return nil, code
}

// shareAcks is what a request says of one partition.
type shareAcks struct {
	key  shareKey
	acks []share.Ack
}

func ackOf(first, last int64, types []int8) share.Ack {
	a := share.Ack{First: record.Offset(first), Last: record.Offset(last), Kinds: make([]share.Kind, len(types))}
	for i, t := range types {
		a.Kinds[i] = share.Kind(t)
	}
	return a
}

func acksOfFetch(req *kmsg.ShareFetchRequest) (out []shareAcks) {
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			a := shareAcks{key: shareKey{t.TopicID, p.Partition}}
			for _, b := range p.AcknowledgementBatches {
				a.acks = append(a.acks, ackOf(b.FirstOffset, b.LastOffset, b.AcknowledgeTypes))
			}
			if len(a.acks) > 0 {
				out = append(out, a)
			}
		}
	}
	return out
}

func acksOfRequest(req *kmsg.ShareAcknowledgeRequest) (out []shareAcks) {
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			a := shareAcks{key: shareKey{t.TopicID, p.Partition}}
			for _, b := range p.AcknowledgementBatches {
				a.acks = append(a.acks, ackOf(b.FirstOffset, b.LastOffset, b.AcknowledgeTypes))
			}
			out = append(out, a)
		}
	}
	return out
}

// checkAcks refuses what no member of ours has to say: a partition stands once, with all that is said of it.
func checkAcks(acks []shareAcks) (int16, error) {
	if len(acks) > maxSharePartitions {
		return codeInvalidRequest, fmt.Errorf("acknowledgements of %d partitions: a share session has %d at most", len(acks), maxSharePartitions)
	}
	seen := map[shareKey]bool{}
	for _, a := range acks {
		if seen[a.key] {
			return codeInvalidRequest, fmt.Errorf("partition %d of topic %s stands twice", a.key.Partition, a.key.Topic)
		}
		seen[a.key] = true
	}
	return codeNone, nil
}

// acknowledge takes what a reader says of partitions and says what became of it.
func (s *Server) acknowledge(r *request, who shareReader, acks []shareAcks, renews bool, say func(shareKey, int16, error)) {
	cfg := s.tuned.of(who.group)
	for _, a := range acks {
		name, err := s.resolveFor(r.ctx, r, acl.Read, "", a.key.Topic, true)
		if err == nil {
			err = s.checkPartition(r.ctx, record.TopicPartition{Topic: name, Partition: a.key.Partition})
		}
		if err == nil {
			err = checkRenewals(a.acks, renews, cfg)
		}
		if err == nil {
			err = s.acknowledgePart(who, a, cfg.limits())
		}
		say(a.key, shareCode(err), err)
	}
}

func (s *Server) acknowledgePart(who shareReader, a shareAcks, l share.Limits) error {
	known, err := s.shares.change(s.hardCtx, who.group, a.key, l, func(p *share.Partition, now int64) error {
		return p.Acknowledge(who.member, a.acks, now, l)
	})
	if err == nil && !known {
		err = fmt.Errorf("%w: the group was given nothing of the partition", share.ErrState)
	}
	return err
}

// checkRenewals refuses a renewal in a request that does not say that it renews, or where the group does not want it.
func checkRenewals(acks []share.Ack, renews bool, cfg groupConfig) error {
	for _, a := range acks {
		for _, k := range a.Kinds {
			switch {
			case k == share.Renew && !renews:
				return fmt.Errorf("%w: the request does not say that it renews", share.ErrRequest)
			case k == share.Renew && cfg.ShareNoRenew:
				return fmt.Errorf("%w: share.renew.acknowledge.enable of the group is false", share.ErrRequest)
			}
		}
	}
	return nil
}

func shareCode(err error) int16 {
	switch {
	case errors.Is(err, share.ErrRequest):
		return codeInvalidRequest
	case errors.Is(err, share.ErrState):
		return codeInvalidRecordState
	}
	return codeOf(err)
}
