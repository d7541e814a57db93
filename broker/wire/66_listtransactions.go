package wire

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// ListTransactions, key 66, versions 0 to 2 (filter by duration from 1, by a pattern of the id from 2), when the
// Log takes transactions.
func apiListTransactions() api {
	return api{key: 66, name: "ListTransactions", min: 0, max: 2, handle: (*Server).listTransactions}
}

func (s *Server) listTransactions(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ListTransactionsRequest)
	resp := req.ResponseKind().(*kmsg.ListTransactionsResponse)
	var ids *pattern
	if p := deref(req.TransactionalIDPattern); p != "" {
		var err error
		if ids, err = compilePattern(p); err != nil {
			resp.ErrorCode = codeInvalidRegex
			return resp, nil
		}
	}
	for _, f := range req.StateFilters {
		if _, err := kmsg.ParseTransactionState(f); err != nil {
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, f)
		}
	}
	now := s.txns.now().UnixMilli()
	for _, t := range s.txns.all() {
		st, ok := s.txns.describe(t.id)
		runs := st.state == txnOngoing || st.prepared()
		switch {
		case !ok, s.allowedTxn(r, acl.Describe, t.id) != nil:
		case len(req.StateFilters) > 0 && !slices.Contains(req.StateFilters, st.state.String()):
		case len(req.ProducerIDFilters) > 0 && !slices.Contains(req.ProducerIDFilters, st.producer):
		case r.version >= 1 && req.DurationFilterMillis >= 0 && (!runs || now-st.started < req.DurationFilterMillis):
		case ids != nil && !ids.matches(t.id):
		default:
			if err := s.charge(r, 128+len(t.id)); err != nil {
				return nil, err
			}
			o := kmsg.NewListTransactionsResponseTransactionState()
			o.TransactionalID, o.ProducerID, o.TransactionState = t.id, st.producer, st.state.String()
			resp.TransactionStates = append(resp.TransactionStates, o)
		}
	}
	return resp, nil
}
