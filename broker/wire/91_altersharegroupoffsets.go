package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// AlterShareGroupOffsets, key 91, version 0.
//
// Makes a share group without members go on at other offsets; what it knew of the partition is forgotten. A group that is not
// there is made.
func apiAlterShareGroupOffsets() api {
	return api{key: 91, name: "AlterShareGroupOffsets", min: 0, max: 0, handle: (*Server).alterShareGroupOffsets}
}

func (s *Server) alterShareGroupOffsets(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.AlterShareGroupOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.AlterShareGroupOffsetsResponse)
	code, err := s.mayMoveShares(r, acl.Read, req.GroupID)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = code, msgOf(err)
		return resp, nil
	}
	for _, rt := range req.Topics {
		t := kmsg.NewAlterShareGroupOffsetsResponseTopic()
		t.Topic = rt.Topic
		denied := s.allowedTopic(r, acl.Read, rt.Topic)
		for _, rp := range rt.Partitions {
			err := denied
			if err == nil {
				err = s.moveShare(r, req.GroupID, record.TopicPartition{Topic: rt.Topic, Partition: rp.Partition}, record.Offset(rp.StartOffset), &t.TopicID)
			}
			p := kmsg.NewAlterShareGroupOffsetsResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = rp.Partition, coordinatorCode(err), msgOf(err)
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

// mayMoveShares says whether somebody may change what a share group knows: it has no members.
func (s *Server) mayMoveShares(r *request, op acl.Operation, group string) (int16, error) {
	if err := s.allowedGroup(r, op, group); err != nil {
		return codeOf(err), err
	}
	switch {
	case group == "":
		return codeInvalidGroupID, errors.New("the group has no name")
	case s.groups.otherKind(group):
		return codeGroupIDNotFound, errors.New("the group is not a share group")
	case s.groups.alive(group):
		return codeNonEmptyGroup, errors.New("the group has members")
	}
	return codeNone, nil
}

func (s *Server) moveShare(r *request, group string, tp record.TopicPartition, to record.Offset, id *[16]byte) error {
	if err := s.checkPartition(r.ctx, tp); err != nil {
		return err
	}
	in, err := s.topics.get(r.ctx, tp.Topic)
	if err != nil {
		return err
	}
	*id = in.ID
	return s.shares.begin(s.hardCtx, group, shareKey{in.ID, tp.Partition}, true, func() (record.Offset, error) { return max(to, 0), nil })
}
