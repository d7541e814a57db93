package wire

import (
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The feature of KIP-890. Level 2 needs Produce 12, EndTxn 5 and TxnOffsetCommit 5.
const (
	featureTxn      = "transaction.version"
	featureTxnLevel = 2
)

// ApiVersions, key 18, versions 0 to 4.
//
// Announces the table. A version that is not known is answered in version 0 with UNSUPPORTED_VERSION and the
// whole table, so that the client can choose (KIP-511). Where the Log takes transactions the feature
// transaction.version is 2: producers then add no partitions but let Produce do it, and get an epoch with each end.
func apiAPIVersions() api {
	return api{key: keyAPIVersions, name: "ApiVersions", min: 0, max: 4, handle: (*Server).apiVersions}
}

func (s *Server) apiVersions(r *request) (kmsg.Response, error) {
	resp := r.body.ResponseKind().(*kmsg.ApiVersionsResponse)
	resp.ApiKeys = s.announced()
	if s.txns != nil {
		f := kmsg.NewApiVersionsResponseFinalizedFeature()
		f.Name, f.MinVersionLevel, f.MaxVersionLevel = featureTxn, featureTxnLevel, featureTxnLevel
		resp.FinalizedFeatures, resp.FinalizedFeaturesEpoch = append(resp.FinalizedFeatures, f), 0
		sup := kmsg.NewApiVersionsResponseSupportedFeature()
		sup.Name, sup.MinVersion, sup.MaxVersion = featureTxn, 1, featureTxnLevel
		if r.version >= 4 {
			sup.MinVersion = 0 // older clients do not understand a zero
		}
		resp.SupportedFeatures = append(resp.SupportedFeatures, sup)
	}
	return resp, nil
}

func (s *Server) apiVersionsDowngrade(ctx context.Context, c *conn) (kmsg.Response, error) {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = 0
	resp.ErrorCode = codeUnsupportedVersion
	if s.gateway == nil {
		resp.ApiKeys = s.announced()
		return resp, nil
	}
	v, err := c.up.speaksNow(ctx, &c.proof)
	if err == nil {
		resp.ApiKeys = s.gateway.announced(v)
	}
	return resp, err
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
