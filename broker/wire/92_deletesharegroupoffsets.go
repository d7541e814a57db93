package wire

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// DeleteShareGroupOffsets, key 92, version 0.
//
// Makes a share group without members forget all that it knows of topics.
func apiDeleteShareGroupOffsets() api {
	return api{key: 92, name: "DeleteShareGroupOffsets", min: 0, max: 0, handle: (*Server).deleteShareGroupOffsets}
}

func (s *Server) deleteShareGroupOffsets(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DeleteShareGroupOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteShareGroupOffsetsResponse)
	code, err := s.mayMoveShares(r, acl.Delete, req.GroupID)
	if err == nil && !s.shares.has(req.GroupID) {
		code, err = codeGroupIDNotFound, fmt.Errorf("there is no share group %q", req.GroupID)
	}
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = code, msgOf(err)
		return resp, nil
	}
	for _, rt := range req.Topics {
		t := kmsg.NewDeleteShareGroupOffsetsResponseTopic()
		t.Topic = rt.Topic
		err := s.allowedTopic(r, acl.Read, rt.Topic)
		if err == nil {
			in, look := s.topics.get(r.ctx, rt.Topic)
			if err = look; err == nil {
				t.TopicID = in.ID
				err = s.shares.forget(s.hardCtx, req.GroupID, func(k shareKey) bool { return k.Topic == in.ID })
			}
		}
		t.ErrorCode, t.ErrorMessage = coordinatorCode(err), msgOf(err)
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}
