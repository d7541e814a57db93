package wire

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// AlterClientQuotas, key 49, versions 0 to 1.
//
// Sets and removes quotas of users, client-ids and pairs of them, durably: producer_byte_rate and
// consumer_byte_rate. Others, and quotas of addresses, are refused, since nothing would keep to them. Entries are
// each good or refused; the good ones are made together. Needs AlterConfigs on the cluster.
func apiAlterClientQuotas() api {
	return api{key: 49, name: "AlterClientQuotas", min: 0, max: 1, handle: (*Server).alterClientQuotas}
}

func (s *Server) alterClientQuotas(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.AlterClientQuotasRequest)
	resp := req.ResponseKind().(*kmsg.AlterClientQuotasResponse)
	resp.Entries = make([]kmsg.AlterClientQuotasResponseEntry, len(req.Entries))
	denied := s.allowedCluster(r, acl.AlterConfigs)
	var changes []quotaChange
	var good []int
	for i, in := range req.Entries {
		o := &resp.Entries[i]
		*o = kmsg.NewAlterClientQuotasResponseEntry()
		for _, e := range in.Entity {
			oe := kmsg.NewAlterClientQuotasResponseEntryEntity()
			oe.Type, oe.Name = e.Type, e.Name
			o.Entity = append(o.Entity, oe)
		}
		if denied != nil {
			o.ErrorCode, o.ErrorMessage = codeOf(denied), msgOf(denied)
			continue
		}
		c, err := readQuotaChange(in)
		if err != nil {
			o.ErrorCode, o.ErrorMessage = codeInvalidRequest, msgOf(err)
			continue
		}
		changes, good = append(changes, c), append(good, i)
	}
	if len(changes) == 0 || req.ValidateOnly {
		return resp, nil
	}
	err := s.quotas.change(s.hardCtx, changes)
	if err != nil {
		s.lg.Error("change quotas", "err", err)
	} else {
		s.lg.Info("quotas changed", "entries", len(changes), "by", r.proof.principal)
	}
	for _, i := range good {
		resp.Entries[i].ErrorCode, resp.Entries[i].ErrorMessage = codeOf(err), msgOf(err)
	}
	return resp, nil
}

func readQuotaChange(in kmsg.AlterClientQuotasRequestEntry) (quotaChange, error) {
	c := quotaChange{values: map[string]float64{}}
	for _, e := range in.Entity {
		if err := c.entity.part(e.Type, e.Name); err != nil {
			return c, err
		}
	}
	if c.entity == (quotaEntity{}) {
		return c, errNoEntity
	}
	for _, op := range in.Ops {
		rate := op.Value
		if op.Remove {
			rate = 1
		}
		if err := checkQuota(op.Key, rate); err != nil {
			return c, err
		}
		if c.values[op.Key] = rate; op.Remove {
			c.values[op.Key] = math.NaN()
		}
	}
	return c, nil
}
