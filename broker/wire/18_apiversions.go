package wire

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ApiVersions, key 18, versions 0 to 4.
//
// Announces the table. A version that is not known is answered in version 0 with UNSUPPORTED_VERSION and the
// whole table, so that the client can choose (KIP-511). No features are announced: transaction.version makes
// Java producers skip calls that a server of older versions needs.
func apiAPIVersions() api {
	return api{key: keyAPIVersions, name: "ApiVersions", min: 0, max: 4, handle: (*Server).apiVersions}
}

func (s *Server) apiVersions(r *request) (kmsg.Response, error) {
	resp := r.body.ResponseKind().(*kmsg.ApiVersionsResponse)
	resp.ApiKeys = s.announced()
	return resp, nil
}

func (s *Server) apiVersionsDowngrade() kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = 0
	resp.ErrorCode = codeUnsupportedVersion
	resp.ApiKeys = s.announced()
	return resp
}

func (s *Server) announced() []kmsg.ApiVersionsResponseApiKey {
	out := make([]kmsg.ApiVersionsResponseApiKey, 0, len(s.table))
	for _, key := range slices.Sorted(maps.Keys(s.table)) {
		a := s.table[key]
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = a.key, a.min, a.max
		out = append(out, k)
	}
	return out
}
