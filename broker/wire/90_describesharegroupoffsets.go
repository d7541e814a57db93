package wire

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker/wire/share"
	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// DescribeShareGroupOffsets, key 90, versions 0 to 1 (lag from 1).
//
// Tells the first record of each partition that a share group has not decided, and how many behind it are not. A partition
// that the group has not begun is at -1. Without topics all that the client may describe are told.
func apiDescribeShareGroupOffsets() api {
	return api{key: 90, name: "DescribeShareGroupOffsets", min: 0, max: 1, handle: (*Server).describeShareGroupOffsets}
}

func (s *Server) describeShareGroupOffsets(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DescribeShareGroupOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeShareGroupOffsetsResponse)
	for _, rg := range req.Groups {
		g := kmsg.NewDescribeShareGroupOffsetsResponseGroup()
		g.GroupID = rg.GroupID
		err := s.allowedGroup(r, acl.Describe, rg.GroupID)
		code := codeOf(err)
		if err == nil && s.groups.otherKind(rg.GroupID) {
			code, err = codeGroupIDNotFound, errors.New("the group is not a share group")
		}
		g.ErrorCode, g.ErrorMessage = code, msgOf(err)
		topics := rg.Topics
		if err == nil && topics == nil {
			topics = s.begunTopics(r, rg.GroupID)
		}
		for _, rt := range topics {
			if err != nil {
				break
			}
			if err := s.charge(r, 128+len(rt.Topic)+32*len(rt.Partitions)); err != nil {
				return nil, err
			}
			g.Topics = append(g.Topics, s.describeShareTopic(r, rg.GroupID, rt))
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}

// begunTopics gives what a group has begun, of topics that there are and that the client may describe.
func (s *Server) begunTopics(r *request, group string) (out []kmsg.DescribeShareGroupOffsetsRequestGroupTopic) {
	for _, k := range s.shares.keys(group) {
		name, ok, err := s.topics.name(r.ctx, k.Topic)
		if err != nil || !ok || s.allowedTopic(r, acl.Describe, name) != nil {
			continue
		}
		i := slices.IndexFunc(out, func(t kmsg.DescribeShareGroupOffsetsRequestGroupTopic) bool { return t.Topic == name })
		if i < 0 {
			i = len(out)
			out = append(out, kmsg.DescribeShareGroupOffsetsRequestGroupTopic{Topic: name})
		}
		out[i].Partitions = append(out[i].Partitions, k.Partition)
	}
	return out
}

func (s *Server) describeShareTopic(r *request, group string, rt kmsg.DescribeShareGroupOffsetsRequestGroupTopic) kmsg.DescribeShareGroupOffsetsResponseGroupTopic {
	t := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopic()
	t.Topic = rt.Topic
	err := s.allowedTopic(r, acl.Describe, rt.Topic)
	if err == nil {
		if in, look := s.topics.get(r.ctx, rt.Topic); look == nil { // without it the group has not begun: no error, as in Kafka
			t.TopicID = in.ID
		}
	}
	for _, n := range rt.Partitions {
		p := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopicPartition()
		p.Partition, p.StartOffset, p.Lag = n, -1, -1
		p.ErrorCode, p.ErrorMessage = codeOf(err), msgOf(err)
		if err == nil {
			s.describeSharePart(r.ctx, group, shareKey{t.TopicID, n}, record.TopicPartition{Topic: rt.Topic, Partition: n}, &p)
		}
		t.Partitions = append(t.Partitions, p)
	}
	return t
}

func (s *Server) describeSharePart(ctx context.Context, group string, k shareKey, tp record.TopicPartition, out *kmsg.DescribeShareGroupOffsetsResponseGroupTopicPartition) {
	s.shares.see(group, k, s.tuned.of(group).limits(), func(p *share.Partition) {
		out.StartOffset = int64(p.Start())
		if b, err := s.log.Bounds(ctx, tp); err == nil {
			out.Lag = max(int64(b.End-p.End()), 0) + p.Open()
		}
	})
}
