package wire

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerWeight is about what a decoded answer takes of its size.
const answerWeight = 6

// relayed are the keys that go to the cluster as they come. What is between brokers, delegation tokens, and who
// may do what or log in are not among them: the cluster would take all of that as ours.
var relayed = keySet(
	keyProduce, 3, 8, 9, 10, keyJoinGroup, 12, 13, keySyncGroup, 15, 16, 19, 20, 21, 22, 23, 24, 25, 26, 28, 29, 32, 33, 35, 37,
	42, 43, 44, 45, 46, 47, 48, 49, 60, 61, 65, 66, 68, 69, 74, 75,
	76, 77, keyShareFetch, keyShareAcknowledge, 88, 89, 90, 91, 92, // share and streams groups
)

// Keys whose answers name addresses, beside those of table.go.
const (
	keyMetadata         = 3
	keyFindCoordinator  = 10
	keyDescribeCluster  = 60
	keyShareFetch       = 78
	keyShareAcknowledge = 79
)

func keySet(keys ...int16) map[int16]bool {
	m := map[int16]bool{}
	for _, k := range keys {
		m[k] = true
	}
	return m
}

// named gives the answer of a key that names addresses, to be decoded; nil for the others.
func named(key, version int16) kmsg.Response {
	switch {
	case key == keyProduce && version >= 10, key == keyMetadata, key == keyFindCoordinator, key == keyDescribeCluster,
		key == keyShareFetch, key == keyShareAcknowledge:
		resp := kmsg.ResponseForKey(key)
		resp.SetVersion(version)
		return resp
	}
	return nil
}

// gatewayTable has what the gateway answers itself. The rest is relayed.
func gatewayTable() map[int16]api {
	fetch, offsets, versions := apiFetch(), apiListOffsets(), apiAPIVersions()
	fetch.handle, offsets.handle, versions.handle = (*Server).gatewayFetch, (*Server).gatewayListOffsets, (*Server).gatewayVersions
	t := map[int16]api{}
	for _, a := range []api{fetch, offsets, versions, apiSASLHandshake(), apiSASLAuthenticate()} {
		t[a.key] = a
	}
	return t
}

// announce gives the versions of a key that a client may use: those of the node that we understand, where we must.
func (g *gateway) announce(k kmsg.ApiVersionsResponseApiKey) (kmsg.ApiVersionsResponseApiKey, bool) {
	out := kmsg.NewApiVersionsResponseApiKey()
	out.ApiKey, out.MinVersion, out.MaxVersion = k.ApiKey, k.MinVersion, k.MaxVersion
	if a, ok := g.s.table[k.ApiKey]; ok {
		out.MinVersion, out.MaxVersion = max(out.MinVersion, a.min), min(out.MaxVersion, a.max)
		return out, out.MinVersion <= out.MaxVersion
	}
	if named(k.ApiKey, k.MaxVersion) != nil {
		out.MaxVersion = min(out.MaxVersion, kmsg.RequestForKey(k.ApiKey).MaxVersion())
	}
	return out, relayed[k.ApiKey] && out.MinVersion <= out.MaxVersion
}

// speaksNow gives the versions of the node: as it said last to strangers, whom it shall cost no connection, if it has said so.
func (u *upstreamConn) speaksNow(ctx context.Context, p *proof) (*kmsg.ApiVersionsResponse, error) {
	if v := u.g.spoken(u.node); v != nil && u.g.s.cfg.Users != nil && p.user == "" {
		return v, nil
	}
	err := u.ready(ctx)
	return u.versions, err
}

// announced gives what clients may use of what a node says.
func (g *gateway) announced(v *kmsg.ApiVersionsResponse) (out []kmsg.ApiVersionsResponseApiKey) {
	for _, k := range v.ApiKeys {
		if k, ok := g.announce(k); ok && !ownKeys[k.ApiKey] {
			out = append(out, k)
		}
	}
	for key := range ownKeys {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = key, g.s.table[key].min, g.s.table[key].max
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b kmsg.ApiVersionsResponseApiKey) int { return cmp.Compare(a.ApiKey, b.ApiKey) })
	return out
}

// ownKeys are those that the cluster has no part in.
var ownKeys = keySet(keySASLHandshake, keyAPIVersions, keySASLAuthenticate)

// gatewayVersions gives what the node speaks and we let through, with the cluster's features as they are.
func (s *Server) gatewayVersions(r *request) (kmsg.Response, error) {
	resp := r.body.ResponseKind().(*kmsg.ApiVersionsResponse)
	v, err := r.up.speaksNow(r.ctx, r.proof)
	if err != nil {
		return nil, err
	}
	resp.ApiKeys = s.gateway.announced(v)
	resp.FinalizedFeatures, resp.FinalizedFeaturesEpoch = v.FinalizedFeatures, v.FinalizedFeaturesEpoch
	for _, f := range v.SupportedFeatures {
		if f.MinVersion > 0 || r.version >= 4 { // older clients do not understand a zero
			resp.SupportedFeatures = append(resp.SupportedFeatures, f)
		}
	}
	return resp, nil
}

// passing is a request on its way to the cluster, and back.
type passing struct {
	frame
	corr   []byte        // of the client
	number int32         // of the request to the cluster
	resp   kmsg.Response // of an answer that names addresses
	x      exchange
	began  time.Time
}

// pass sees that a request may go to the node that is connected. released is called when it is sent.
func (g *gateway) pass(c *conn, f *frame, released func()) (*passing, error) {
	in := f.body
	p := &passing{corr: bytes.Clone(in[4:8]), began: time.Now()}
	key, version := int16(binary.BigEndian.Uint16(in)), int16(binary.BigEndian.Uint16(in[2:]))
	k, ok := g.announce(c.up.ranges[key])
	if k.ApiKey != key || !ok {
		return nil, fmt.Errorf("%w: api key %d is not served", errFrame, key)
	}
	if version < k.MinVersion || version > k.MaxVersion {
		return nil, fmt.Errorf("%w: key %d version %d, want %d to %d", errFrame, key, version, k.MinVersion, k.MaxVersion)
	}
	p.x = exchange{weight: 1, wait: mayWait(key), lend: g.s.waitLease, sent: released}
	if p.resp = named(key, version); p.resp != nil {
		p.x.weight = answerWeight
	}
	if key == keyProduce {
		acks, err := produceAcks(in, version)
		if err != nil {
			return nil, fmt.Errorf("decode Produce version %d: %w", version, err)
		}
		p.x.quiet = acks == 0
	}
	return p, nil
}

// back makes the cluster's answer ours.
func (g *gateway) back(c *conn, p *passing, out []byte) ([]byte, error) {
	copy(out[4:8], p.corr)
	if p.resp == nil {
		return out, nil
	}
	return g.rewrite(c.local, p.corr, out, p.resp)
}

// relay sends a request to the cluster and gives its answer.
func (g *gateway) relay(ctx context.Context, c *conn, f *frame) (answer, error) {
	if err := c.up.ready(ctx); err != nil {
		return answer{}, err
	}
	p, err := g.pass(c, f, func() { g.s.letGo(f) })
	if err != nil {
		return answer{}, err
	}
	out, mem, err := c.up.exchange(ctx, f.body, p.x)
	if err != nil || p.x.quiet {
		return answer{}, err
	}
	ans := answer{done: mem.release}
	ans.out, err = g.back(c, p, out)
	return ans, err
}

// letGo gives back the memory of a frame that is not needed any more.
func (s *Server) letGo(f *frame) {
	s.budget.Release(f.held)
	f.held, f.body = 0, nil
}

// produceAcks reads which acknowledgement a Produce request asks for.
func produceAcks(in []byte, version int16) (int16, error) {
	w := walker{flexible: version >= 9}
	if _, w.b, w.err = readHeader(in[8:], w.flexible); w.err == nil && version >= 3 {
		w.skip(w.length(2))
	}
	if w.err == nil && len(w.b) < 2 {
		w.err = errFrame
	}
	if w.err != nil {
		return 0, w.err
	}
	return int16(binary.BigEndian.Uint16(w.b)), nil
}

// rewrite puts our addresses into an answer.
func (g *gateway) rewrite(local string, corr, out []byte, resp kmsg.Response) ([]byte, error) {
	if err := decodeAnswer(out, resp); err != nil {
		return nil, fmt.Errorf("%w: decode its answer to key %d: %w", errUpstream, resp.Key(), err)
	}
	changed, err := g.replace(local, resp)
	if err != nil || !changed {
		return out, err
	}
	return encode(corr, resp, resp.IsFlexible()), nil
}

// replace changes the addresses in a decoded answer, and says whether it has any.
func (g *gateway) replace(local string, resp kmsg.Response) (changed bool, err error) {
	put := func(node int32, host *string, port *int32) {
		changed = true
		err = errors.Join(err, g.ours(local, node, host, port))
	}
	switch r := resp.(type) {
	case *kmsg.ProduceResponse:
		for i := range r.Brokers {
			put(r.Brokers[i].NodeID, &r.Brokers[i].Host, &r.Brokers[i].Port)
		}
	case *kmsg.FetchResponse:
		for i := range r.Brokers {
			put(r.Brokers[i].NodeID, &r.Brokers[i].Host, &r.Brokers[i].Port)
		}
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			put(r.Brokers[i].NodeID, &r.Brokers[i].Host, &r.Brokers[i].Port)
		}
	case *kmsg.FindCoordinatorResponse:
		put(r.NodeID, &r.Host, &r.Port)
		for i := range r.Coordinators {
			put(r.Coordinators[i].NodeID, &r.Coordinators[i].Host, &r.Coordinators[i].Port)
		}
	case *kmsg.DescribeClusterResponse:
		if r.EndpointType > 1 { // controllers, for which there are no ports
			r.Brokers, r.ErrorCode = nil, codeUnsupportedEndpoint
			r.ErrorMessage = msgOf(errors.New("the gateway does not lead to the controllers"))
			return true, nil
		}
		for i := range r.Brokers {
			put(r.Brokers[i].NodeID, &r.Brokers[i].Host, &r.Brokers[i].Port)
		}
	case *kmsg.ShareFetchResponse:
		for i := range r.NodeEndpoints {
			put(r.NodeEndpoints[i].NodeID, &r.NodeEndpoints[i].Host, &r.NodeEndpoints[i].Port)
		}
	case *kmsg.ShareAcknowledgeResponse:
		for i := range r.NodeEndpoints {
			put(r.NodeEndpoints[i].NodeID, &r.NodeEndpoints[i].Host, &r.NodeEndpoints[i].Port)
		}
	}
	return changed, err
}
