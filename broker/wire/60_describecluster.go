package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// DescribeCluster, key 60, versions 0 to 2.
//
// One broker, which is also the controller. The controllers' own endpoint (type 2) does not exist here.
func apiDescribeCluster() api {
	return api{key: 60, name: "DescribeCluster", min: 0, max: 2, handle: (*Server).describeCluster}
}

func (s *Server) describeCluster(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DescribeClusterRequest)
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	resp.EndpointType = 1
	resp.ClusterID = s.cfg.ClusterID
	resp.ControllerID = s.cfg.NodeID
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = s.operations(r, acl.Cluster, acl.ClusterName)
	}
	if r.version >= 1 && req.EndpointType != 1 {
		resp.EndpointType = req.EndpointType
		resp.ErrorCode = codeUnsupportedEndpoint
		m := "there are no separate controllers"
		resp.ErrorMessage = &m
		return resp, nil
	}
	b := kmsg.NewDescribeClusterResponseBroker()
	b.NodeID = s.cfg.NodeID
	b.Host, b.Port = s.endpoint(r)
	resp.Brokers = []kmsg.DescribeClusterResponseBroker{b}
	return resp, nil
}
