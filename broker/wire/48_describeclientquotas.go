package wire

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// DescribeClientQuotas, key 48, versions 0 to 1.
//
// The quotas whose users and client-ids the request names; a strict request wants those that are for nothing else.
// Needs DescribeConfigs on the cluster.
func apiDescribeClientQuotas() api {
	return api{key: 48, name: "DescribeClientQuotas", min: 0, max: 1, handle: (*Server).describeClientQuotas}
}

func (s *Server) describeClientQuotas(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DescribeClientQuotasRequest)
	resp := req.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
	if err := s.allowedCluster(r, acl.DescribeConfigs); err != nil {
		resp.ErrorCode, resp.ErrorMessage = codeOf(err), msgOf(err)
		return resp, nil
	}
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{} // null is for errors
	all := s.quotas.all()
	for _, e := range slices.SortedFunc(maps.Keys(all), compareEntities) {
		ok, err := matchesQuota(req, e)
		if err != nil {
			resp.ErrorCode, resp.ErrorMessage, resp.Entries = codeInvalidRequest, msgOf(err), nil
			return resp, nil
		}
		if !ok {
			continue
		}
		if err := s.charge(r, 256+len(e.User.Name)+len(e.Client.Name)); err != nil {
			return nil, err
		}
		o := kmsg.NewDescribeClientQuotasResponseEntry()
		for _, p := range e.parts() {
			oe := kmsg.NewDescribeClientQuotasResponseEntryEntity()
			oe.Type, oe.Name = p.kind, p.name
			o.Entity = append(o.Entity, oe)
		}
		for _, name := range slices.Sorted(maps.Keys(all[e])) {
			v := kmsg.NewDescribeClientQuotasResponseEntryValue()
			v.Key, v.Value = name, all[e][name]
			o.Values = append(o.Values, v)
		}
		resp.Entries = append(resp.Entries, o)
	}
	return resp, nil
}

func compareEntities(a, b quotaEntity) int {
	return cmp.Or(cmp.Compare(a.User.Name, b.User.Name), cmp.Compare(a.Client.Name, b.Client.Name),
		cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
}

type quotaPart struct {
	kind string
	name *string
}

// parts gives an entity as answers have it.
func (e quotaEntity) parts() (out []quotaPart) {
	for _, p := range []struct {
		kind string
		name quotaName
	}{{quotaUser, e.User}, {quotaClient, e.Client}} {
		switch {
		case p.name.Set:
			out = append(out, quotaPart{p.kind, &p.name.Name})
		case p.name.Rest:
			out = append(out, quotaPart{p.kind, nil})
		}
	}
	return out
}

func matchesQuota(req *kmsg.DescribeClientQuotasRequest, e quotaEntity) (bool, error) {
	named := map[string]bool{}
	for _, c := range req.Components {
		has := e.User
		switch {
		case named[c.EntityType]:
			return false, fmt.Errorf("%s stands twice", c.EntityType)
		case c.EntityType == quotaClient:
			has = e.Client
		case c.EntityType != quotaUser:
			return false, fmt.Errorf("quotas for %q are not known: want user or client-id", c.EntityType)
		}
		named[c.EntityType] = true
		ok := false
		switch c.MatchType {
		case kmsg.QuotasMatchTypeExact:
			ok = c.Match != nil && has == quotaName{Name: *c.Match, Set: true}
		case kmsg.QuotasMatchTypeDefault:
			ok = has.Rest
		case kmsg.QuotasMatchTypeAny:
			ok = has != quotaName{}
		default:
			return false, fmt.Errorf("match type %d is not known", c.MatchType)
		}
		if !ok {
			return false, nil
		}
	}
	if req.Strict {
		return named[quotaUser] == (e.User != quotaName{}) && named[quotaClient] == (e.Client != quotaName{}), nil
	}
	return true, nil
}
