package wire

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/wire/share"
	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// maxMemberID is the longest id of a member of a share group.
const maxMemberID = 36

// ShareFetch, key 78, versions 1 to 2 (renewals, and a strict number of records, from 2).
//
// Gives a member of a share group records that nobody has (KIP-932), with what it says of those that it had. Waits up to
// MaxWait for the first of them; MinBytes and BatchSize are not looked at. Offsets below the log start come from
// Config.History, as those of Fetch. A member is given what is in an answer before it is sent, durably.
func apiShareFetch() api {
	return api{key: keyShareFetch, name: "ShareFetch", min: 1, max: 2, handle: (*Server).shareFetch}
}

func (s *Server) shareFetch(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ShareFetchRequest)
	resp := req.ResponseKind().(*kmsg.ShareFetchResponse)
	who := shareReader{deref(req.GroupID), deref(req.MemberID)}
	a := &shareAnswer{at: map[shareKey]*kmsg.ShareFetchResponseTopicPartition{}}
	acks := acksOfFetch(req)
	code, err := s.mayShare(r, who)
	if err == nil {
		code, err = checkShareFetch(req, acks)
	}
	if err == nil {
		resp.AcquisitionLockTimeoutMillis = int32(s.tuned.of(who.group).limits().Lock)
		code, err = s.shareSession(r, req, who, acks, a)
	}
	if err != nil {
		if r.ctx.Err() != nil {
			return nil, errors.Join(errPollCut, context.Cause(r.ctx))
		}
		if errors.Is(err, errAnswerMemory) {
			return nil, err
		}
		resp.ErrorCode, resp.ErrorMessage = code, msgOf(err)
		return resp, nil
	}
	resp.Topics = a.topics()
	r.mute = s.quotas.charge(r, fetchQuota, a.bytes)
	resp.ThrottleMillis = int32(r.mute.Milliseconds())
	return resp, nil
}

// mayShare says whether a request may be one of a member of a share group.
func (s *Server) mayShare(r *request, who shareReader) (int16, error) {
	if err := s.allowedGroup(r, acl.Read, who.group); err != nil {
		return codeOf(err), err
	}
	switch {
	case who.group == "":
		return codeInvalidRequest, errors.New("the group has no name")
	case who.member == "" || len(who.member) > maxMemberID:
		return codeInvalidRequest, errors.New("the id of a member has 1 to 36 characters")
	case s.groups.otherKind(who.group):
		return codeGroupIDNotFound, errors.New("the group is not a share group")
	}
	return codeNone, nil
}

func checkShareFetch(req *kmsg.ShareFetchRequest, acks []shareAcks) (int16, error) {
	switch {
	case req.ShareSessionEpoch == epochNewSession && len(acks) > 0:
		return codeInvalidRequest, errors.New("a new session has nothing to acknowledge")
	case req.IsRenewAck && (req.MaxBytes != 0 || req.MinBytes != 0 || req.MaxRecords != 0 || req.MaxWaitMillis != 0):
		return codeInvalidRequest, errors.New("a request that renews fetches nothing")
	}
	return checkAcks(acks)
}

// shareSession does what a request asks for within its session. Memory for what is said of partitions is there before
// anything is acknowledged or given.
func (s *Server) shareSession(r *request, req *kmsg.ShareFetchRequest, who shareReader, acks []shareAcks, a *shareAnswer) (int16, error) {
	acknowledge := func() {
		s.acknowledge(r, who, acks, req.IsRenewAck, func(k shareKey, code int16, err error) {
			p := a.of(k)
			p.AcknowledgeErrorCode, p.AcknowledgeErrorMessage = code, msgOf(err)
		})
	}
	if err := s.charge(r, shareSaid*len(acks)); err != nil {
		return codeNone, err
	}
	var session *shareSession
	var code int16
	switch req.ShareSessionEpoch {
	case epochFinal:
		parts, ok := s.reading.end(who)
		if !ok {
			return codeShareSessionNotFound, errShareSession
		}
		acknowledge()
		s.release(who, parts)
		return codeNone, nil
	case epochNewSession:
		session, code = s.reading.open(r, who, req.Topics)
	default:
		session, code = s.reading.next(r, who, req.ShareSessionEpoch, req.Topics, req.ForgottenTopicsData)
	}
	if code != codeNone {
		return code, errShareSession
	}
	news := s.reading.untold(session)
	if err := s.charge(r, shareSaid*len(news)); err != nil {
		return codeNone, err
	}
	for _, k := range news {
		a.of(k)
	}
	acknowledge()
	if !req.IsRenewAck {
		g := newShareGiving(s, r, req, who, session, a)
		if err := g.give(); err != nil {
			return codeOf(err), err
		}
	}
	s.reading.tell(session, a)
	return codeNone, nil
}

// errShareSession is for requests whose session is not what they take it for.
var errShareSession = errors.New("the share session is not there, has another epoch, or has no room: open a new one")

// shareSaid is about what an answer takes for a partition without records: with a message, which may have a topic's name.
const shareSaid = 512

// shareAnswer collects what is said of partitions, in the order in which it was said first.
type shareAnswer struct {
	order []shareKey
	at    map[shareKey]*kmsg.ShareFetchResponseTopicPartition
	bytes int // of batches, and of what says who has their records
}

func (a *shareAnswer) of(k shareKey) *kmsg.ShareFetchResponseTopicPartition {
	p := a.at[k]
	if p == nil {
		fresh := kmsg.NewShareFetchResponseTopicPartition()
		p = &fresh
		p.Partition, p.Records = k.Partition, []byte{} // Java does not understand null
		p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = -1, -1
		a.at[k], a.order = p, append(a.order, k)
	}
	return p
}

func (a *shareAnswer) topics() []kmsg.ShareFetchResponseTopic {
	out := []kmsg.ShareFetchResponseTopic{}
	place := map[uuid.UUID]int{}
	for _, k := range a.order {
		i, ok := place[k.Topic]
		if !ok {
			i = len(out)
			place[k.Topic] = i
			t := kmsg.NewShareFetchResponseTopic()
			t.TopicID = k.Topic
			out = append(out, t)
		}
		out[i].Partitions = append(out[i].Partitions, *a.at[k])
	}
	return out
}

// release gives back what a reader has of partitions.
func (s *Server) release(who shareReader, parts []shareKey) {
	l := s.tuned.of(who.group).limits()
	for _, k := range parts {
		_, err := s.shares.change(s.hardCtx, who.group, k, l, func(p *share.Partition, _ int64) error {
			p.Release(who.member)
			return nil
		})
		if err != nil { // its lock runs out
			s.lg.Error("give back records of a share group", "group", who.group, "member", who.member, "err", err)
		}
	}
}

// endShares ends the share sessions of a connection. What a server that drains has given stays with the members: they come
// back with what they make of it.
func (s *Server) endShares(conn context.Context) {
	if s.shares == nil || s.pollCtx.Err() != nil {
		return
	}
	for _, who := range s.reading.of(conn) {
		if parts, ok := s.reading.end(who); ok {
			s.release(who, parts)
		}
	}
}

// shareStart is where a group begins to read a partition.
func (s *Server) shareStart(ctx context.Context, tp record.TopicPartition, c groupConfig) (record.Offset, error) {
	ms := int64(offsetLatest)
	switch age, ok := c.resetAge(); {
	case c.ShareReset == resetEarliest:
		ms = offsetEarliest
	case ok:
		ms = max(0, time.Now().Add(-age).UnixMilli()) // negative ones have meanings of their own
	}
	at, _, err := s.listOffset(ctx, tp, ms, broker.ReadUncommitted)
	if err == nil && at < 0 { // nothing is so young
		at, _, err = s.listOffset(ctx, tp, offsetLatest, broker.ReadUncommitted)
	}
	return at, err
}
