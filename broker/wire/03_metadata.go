package wire

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// leaderEpoch is the one epoch of every partition: the node leads them all, always.
const leaderEpoch = 0

// Metadata, key 3, versions 0 to 13 (ids of topics in answers from 10, in requests from 12).
//
// One broker, which leads everything. An unknown topic that is asked for by name is made when the server
// and the client both allow it (clients below version 4 always do). Internal topics are marked: consumers
// of a pattern leave them out.
func apiMetadata() api {
	return api{key: 3, name: "Metadata", min: 0, max: 13, handle: (*Server).metadata}
}

func (s *Server) metadata(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.MetadataRequest)
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	br := kmsg.NewMetadataResponseBroker()
	br.NodeID = s.cfg.NodeID
	br.Host, br.Port = s.endpoint(r)
	resp.Brokers = []kmsg.MetadataResponseBroker{br}
	resp.ClusterID = &s.cfg.ClusterID
	resp.ControllerID = s.cfg.NodeID
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = s.operations(r, acl.Cluster, acl.ClusterName)
	}
	if req.Topics == nil || r.version == 0 && len(req.Topics) == 0 {
		all, err := s.topics.all(r.ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if s.allowedTopic(r, acl.Describe, name) != nil {
				continue
			}
			if err := s.charge(r, metadataBytes(all[name])); err != nil {
				return nil, err
			}
			resp.Topics = append(resp.Topics, s.describeTopic(r, all[name]))
		}
		return resp, nil
	}
	create := s.cfg.AutoCreateTopics && (req.AllowAutoTopicCreation || r.version < 4)
	resp.Topics = make([]kmsg.MetadataResponseTopic, 0, len(req.Topics))
	for _, t := range req.Topics {
		if r.ctx.Err() != nil { // nobody waits for the rest any more
			return nil, context.Cause(r.ctx)
		}
		mt, err := s.metadataTopic(r, t, create)
		if err != nil {
			return nil, err
		}
		resp.Topics = append(resp.Topics, mt)
	}
	return resp, nil
}

func (s *Server) metadataTopic(r *request, t kmsg.MetadataRequestTopic, create bool) (kmsg.MetadataResponseTopic, error) {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID = t.Topic, t.TopicID
	ctx := r.ctx
	name, err := s.resolveFor(ctx, r, acl.Describe, deref(t.Topic), t.TopicID, t.Topic == nil)
	if err != nil {
		if out.ErrorCode = codeOf(err); t.Topic == nil && out.ErrorCode == codeTopicAuthorization {
			out.ErrorCode = codeUnknownTopicID // who may not know the topic does not learn that the id is one
		}
		return out, nil
	}
	in, err := s.topics.get(ctx, name)
	if errors.Is(err, broker.ErrUnknownTopic) && create && !internalTopic(name) {
		if err := s.allowedCreate(r, name); err != nil {
			out.ErrorCode = codeOf(err)
			return out, nil
		}
		in, err = s.log.CreateTopic(ctx, name, broker.TopicConfig{Partitions: s.cfg.DefaultPartitions})
		if err == nil || errors.Is(err, broker.ErrTopicExists) {
			s.topics.invalidate()
		}
		if errors.Is(err, broker.ErrTopicExists) {
			in, err = s.topics.get(ctx, name)
		}
		if err == nil {
			s.lg.Info("topic made on demand", "topic", name, "partitions", in.Config.Partitions)
		}
	}
	if err != nil {
		out.ErrorCode = codeOf(err)
		if out.ErrorCode == codeUnknownTopicOrPartition && !validTopicName(name) {
			out.ErrorCode = codeInvalidTopic
		}
		return out, s.charge(r, 128)
	}
	if err := s.charge(r, metadataBytes(in)); err != nil {
		return out, err
	}
	return s.describeTopic(r, in), nil
}

// metadataBytes is about what the description of a topic takes, made and encoded.
func metadataBytes(in broker.TopicInfo) int {
	return 128 + len(in.Name) + 160*int(in.Config.Partitions)
}

func (s *Server) describeTopic(r *request, in broker.TopicInfo) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.IsInternal = &in.Name, in.ID, internalTopic(in.Name)
	out.AuthorizedOperations = noOperations
	if r.body.(*kmsg.MetadataRequest).IncludeTopicAuthorizedOperations {
		out.AuthorizedOperations = s.operations(r, acl.Topic, in.Name)
	}
	parts, err := s.log.Partitions(r.ctx, in.Name)
	if err != nil {
		out.ErrorCode = codeOf(err)
		return out
	}
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(parts))
	me := []int32{s.cfg.NodeID}
	for i, p := range parts {
		o := kmsg.NewMetadataResponseTopicPartition()
		o.Partition, o.Leader, o.LeaderEpoch, o.Replicas, o.ISR = p, s.cfg.NodeID, leaderEpoch, me, me
		out.Partitions[i] = o
	}
	return out
}

// validTopicName says whether Kafka allows a name.
func validTopicName(name string) bool {
	if name == "" || len(name) > 249 || name == "." || name == ".." {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
