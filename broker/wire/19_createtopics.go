package wire

import (
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// maxPartitions bounds what one request can make.
const maxPartitions = 100_000

// CreateTopics, key 19, versions 2 to 7.
//
// The replication factor is 1 or left to the server (-1), any with Config.AnyReplication; the answer says 1. Settings that the Log does not honour are refused
// with INVALID_CONFIG rather than forgotten. From version 5 on the answer carries the settings.
func apiCreateTopics() api {
	return api{key: 19, name: "CreateTopics", min: 2, max: 7, handle: (*Server).createTopics}
}

func (s *Server) createTopics(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.CreateTopicsRequest)
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	count := map[string]int{}
	for i := range req.Topics {
		count[req.Topics[i].Topic]++
	}
	said := sync.OnceValue(s.brokerSaid)
	for i := range req.Topics {
		rt := &req.Topics[i]
		ot := kmsg.NewCreateTopicsResponseTopic()
		ot.Topic, ot.NumPartitions, ot.ReplicationFactor = rt.Topic, -1, -1
		if err := s.charge(r, 4<<10); err != nil { // its settings
			return nil, err
		}
		var err error
		if count[rt.Topic] > 1 {
			ot.ErrorCode, err = codeInvalidRequest, errors.New("the topic stands twice in one request")
		} else {
			ot.ErrorCode, err = s.createTopic(r, rt, &ot, req.ValidateOnly, said)
		}
		ot.ErrorMessage = msgOf(err)
		resp.Topics = append(resp.Topics, ot)
	}
	return resp, nil
}

func (s *Server) createTopic(r *request, rt *kmsg.CreateTopicsRequestTopic, ot *kmsg.CreateTopicsResponseTopic, dry bool, said func() map[string]synonyms) (int16, error) {
	if err := s.allowedCreate(r, rt.Topic); err != nil {
		return codeOf(err), err
	}
	if !validTopicName(rt.Topic) {
		return codeInvalidTopic, fmt.Errorf("topic name %q: want 1 to 249 of letters, digits, '.', '_' and '-'", rt.Topic)
	}
	if internalTopic(rt.Topic) {
		return codeInvalidTopic, errors.New("the name is kept for an internal topic")
	}
	cfg := broker.TopicConfig{Partitions: rt.NumPartitions}
	switch {
	case len(rt.ReplicaAssignment) > 0:
		for i, a := range rt.ReplicaAssignment {
			if len(a.Replicas) != 1 || a.Replicas[0] != s.cfg.NodeID || a.Partition < 0 || int(a.Partition) >= len(rt.ReplicaAssignment) {
				return codeInvalidAssignment, fmt.Errorf("replica assignment %d: this node is %d, and the only one", i, s.cfg.NodeID)
			}
		}
		cfg.Partitions = int32(len(rt.ReplicaAssignment))
	case rt.NumPartitions == -1:
		cfg.Partitions = s.cfg.DefaultPartitions
	}
	if cfg.Partitions < 1 || cfg.Partitions > maxPartitions {
		return codeInvalidPartitions, fmt.Errorf("%d partitions: want 1 to %d", cfg.Partitions, maxPartitions)
	}
	if err := s.checkReplication(rt); err != nil {
		return codeInvalidReplication, err
	}
	if err := applyConfigs(&cfg, rt.Configs); err != nil {
		return codeInvalidConfig, err
	}
	if dry {
		_, err := s.topics.get(s.hardCtx, rt.Topic)
		switch {
		case err == nil:
			return codeTopicAlreadyExists, broker.ErrTopicExists
		case !errors.Is(err, broker.ErrUnknownTopic):
			return codeOf(err), err
		}
	} else {
		in, err := s.log.CreateTopic(s.hardCtx, rt.Topic, cfg)
		s.topics.invalidate()
		if err != nil {
			return codeOf(err), err
		}
		ot.TopicID, cfg = in.ID, in.Own
		s.lg.Info("topic made", "topic", rt.Topic, "partitions", cfg.Partitions)
	}
	if err := s.allowedTopic(r, acl.DescribeConfigs, rt.Topic); err != nil {
		ot.ConfigErrorCode = codeOf(err)
		return codeNone, nil
	}
	ot.NumPartitions, ot.ReplicationFactor = cfg.Partitions, 1
	for _, c := range topicEntries(cfg, said()) {
		oc := kmsg.NewCreateTopicsResponseTopicConfig()
		oc.Name, oc.Value, oc.Source = c.Name, c.Value, int8(c.Source)
		ot.Configs = append(ot.Configs, oc)
	}
	return codeNone, nil
}

// checkReplication holds a topic to what one node can give, unless more may be asked for.
func (s *Server) checkReplication(rt *kmsg.CreateTopicsRequestTopic) error {
	n := rt.ReplicationFactor
	if len(rt.ReplicaAssignment) > 0 || n == -1 || n == 1 || n > 1 && s.cfg.AnyReplication {
		return nil
	}
	return fmt.Errorf("replication factor %d: there is one node, so want 1 or -1, or serve with --any-replication", n)
}

// allowedCreate: who may create in the cluster may create every topic, others those that rules name.
func (s *Server) allowedCreate(r *request, topic string) error {
	if s.allowedCluster(r, acl.Create) == nil {
		return nil
	}
	return s.allowedTopic(r, acl.Create, topic)
}
