package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// DeleteTopics, key 20, versions 1 to 6 (by id from 6).
//
// Removes the topic, its records and the positions of groups of every kind in it.
func apiDeleteTopics() api {
	return api{key: 20, name: "DeleteTopics", min: 1, max: 6, handle: (*Server).deleteTopics}
}

func (s *Server) deleteTopics(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DeleteTopicsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	asked := req.Topics
	for i := range req.TopicNames {
		asked = append(asked, kmsg.DeleteTopicsRequestTopic{Topic: &req.TopicNames[i]})
	}
	for _, t := range asked {
		o := kmsg.NewDeleteTopicsResponseTopic()
		o.Topic, o.TopicID = t.Topic, t.TopicID
		name, err := s.resolveFor(s.hardCtx, r, acl.Delete, deref(t.Topic), t.TopicID, t.Topic == nil)
		if err == nil || t.Topic == nil && name != "" && s.allowedTopic(r, acl.Describe, name) == nil {
			o.Topic = &name
		}
		if err == nil {
			err = s.deleteTopic(name)
		}
		o.ErrorCode, o.ErrorMessage = codeOf(err), msgOf(err)
		resp.Topics = append(resp.Topics, o)
	}
	return resp, nil
}

func (s *Server) deleteTopic(name string) error {
	if internalTopic(name) {
		return errInternalTopic
	}
	in, err := s.topics.get(s.hardCtx, name)
	if err == nil {
		err = s.log.DeleteTopic(s.hardCtx, name)
	}
	s.topics.invalidate()
	if err != nil {
		return err
	}
	s.lg.Info("topic deleted", "topic", name)
	if err := s.offsets.forgetTopic(s.hardCtx, name); err != nil {
		s.lg.Error("forget the positions in a deleted topic", "topic", name, "err", err)
	}
	if err := s.shares.forgetTopic(s.hardCtx, in.ID); err != nil {
		s.lg.Error("forget what share groups know of a deleted topic", "topic", name, "err", err)
	}
	return nil
}
