package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// Principals, as Kafka spells them.
const (
	userPrefix = "User:"
	anonymous  = userPrefix + "ANONYMOUS"
)

// maxRules bounds the access rules of a server.
const maxRules = 100_000

// Access says what is checked of those who are connected.
type Access struct {
	Enforce    bool     // access rules decide, and can be made; else everyone may do everything
	Open       bool     // what no rule speaks of is everybody's (Kafka's allow.everyone.if.no.acl.found)
	SuperUsers []string // principals, like User:ann, that may do everything whatever the rules say
}

func (a Access) validate() error {
	if !a.Enforce {
		if a.Open || len(a.SuperUsers) > 0 {
			return errors.New("wire config: Access.Open and Access.SuperUsers mean nothing without Access.Enforce")
		}
		return nil
	}
	for _, p := range a.SuperUsers {
		r := acl.Rule{Kind: acl.Topic, Name: "t", Pattern: acl.Literal, Principal: p, Host: acl.Wildcard, Operation: acl.All, Effect: acl.Allow}
		if err := r.Validate(); err != nil {
			return fmt.Errorf("wire config: Access.SuperUsers: %w", err)
		}
	}
	return nil
}

// deniedError is what a rule, or the lack of one, refuses.
type deniedError struct {
	principal string
	op        acl.Operation
	kind      acl.Kind
	name      string
}

func (e *deniedError) Error() string {
	return fmt.Sprintf("%s may not %s on %s %q: an access rule must allow it", e.principal, e.op, e.kind, e.name)
}

func (e *deniedError) code() int16 {
	switch e.kind {
	case acl.Topic:
		return codeTopicAuthorization
	case acl.Group:
		return codeGroupAuthorization
	case acl.TransactionalID:
		return codeTxnIDAuthorization
	}
	return codeClusterAuthorization
}

// access holds the rules. They are kept in the settings; a request reads the set that was there when it asked.
type access struct {
	settings *settings
	kept     *held
	set      atomic.Pointer[acl.Set]
}

func newAccess(cfg Access, st *settings, kept *held) *access {
	a := &access{settings: st, kept: kept}
	a.set.Store(acl.NewSet(cfg.Open, cfg.SuperUsers))
	return a
}

// replay gives what takes the records of rules when the settings are loaded, and what is called behind the last: it
// gives the rules that bind nobody, since earlier versions took hosts that are no addresses.
func (a *access) replay() (take func(what, value []byte) error, done func() (idle []acl.Rule)) {
	rules := map[acl.Rule]bool{}
	take = func(what, value []byte) error {
		var r acl.Rule
		if err := json.Unmarshal(what, &r); err != nil {
			return err
		}
		if err := r.Validate(); err != nil {
			return err
		}
		if value == nil {
			delete(rules, r)
		} else {
			rules[r] = true
		}
		return nil
	}
	return take, func() (idle []acl.Rule) {
		add := make([]acl.Rule, 0, len(rules))
		for r := range rules {
			add = append(add, r)
			a.kept.add(ruleCost(r))
			if _, err := r.Canonical(); err != nil {
				idle = append(idle, r)
			}
		}
		a.set.Store(a.set.Load().With(add, nil))
		return idle
	}
}

// change makes the rules that pick names durable and then counts them. pick sees the present set.
func (a *access) change(ctx context.Context, pick func(*acl.Set) (add, remove []acl.Rule)) error {
	a.settings.mu.Lock()
	defer a.settings.mu.Unlock()
	now := a.set.Load()
	add, remove := pick(now)
	if len(add)+len(remove) == 0 {
		return nil
	}
	if len(add) > 0 && now.Len()+len(add) > maxRules {
		return fmt.Errorf("there can be %d access rules: %w", maxRules, errTooMany)
	}
	var recs []stateRecord
	var need int64
	for _, r := range add {
		rec, err := settingRecord(settingACL, r, struct{}{})
		if err != nil {
			return err
		}
		recs, need = append(recs, rec), need+ruleCost(r)
	}
	for _, r := range remove {
		rec, err := settingRecord(settingACL, r, nil)
		if err != nil {
			return err
		}
		recs = append(recs, rec)
	}
	if need > 0 && !a.kept.take(need) {
		return errNoMemory
	}
	if err := a.settings.topic.append(ctx, recs); err != nil { // COMMIT POINT
		a.kept.add(-need)
		return err
	}
	for _, r := range remove {
		a.kept.add(-ruleCost(r))
	}
	a.set.Store(now.With(add, remove))
	return nil
}

func ruleCost(r acl.Rule) int64 { return int64(512 + 4*(len(r.Name)+len(r.Principal)+len(r.Host))) }

// allowed says, with a nil error, that whoever sent a request may do something. It is asked before anything is
// looked up, so that nobody learns from an answer what there is.
func (s *Server) allowed(r *request, op acl.Operation, kind acl.Kind, name string) error {
	if s.access == nil {
		if kind == acl.Topic && name == SettingsTopic && op != acl.Describe { // it holds credentials
			return &deniedError{principal: r.proof.principal, op: op, kind: kind, name: name}
		}
		return nil
	}
	if kind == acl.Topic && name == SettingsTopic { // who may read all topics may not read who may what
		op, kind, name = acl.ClusterAction, acl.Cluster, acl.ClusterName
	}
	p := r.proof.principal
	if s.access.set.Load().Allows(p, r.host, op, kind, name) {
		return nil
	}
	return &deniedError{principal: p, op: op, kind: kind, name: name}
}

func (s *Server) allowedCluster(r *request, op acl.Operation) error {
	return s.allowed(r, op, acl.Cluster, acl.ClusterName)
}

func (s *Server) allowedTopic(r *request, op acl.Operation, name string) error {
	return s.allowed(r, op, acl.Topic, name)
}

func (s *Server) allowedGroup(r *request, op acl.Operation, name string) error {
	return s.allowed(r, op, acl.Group, name)
}

func (s *Server) allowedTxn(r *request, op acl.Operation, id string) error {
	return s.allowed(r, op, acl.TransactionalID, id)
}

// resolveFor is resolve for somebody who wants to do something with the topic.
func (s *Server) resolveFor(ctx context.Context, r *request, op acl.Operation, name string, id [16]byte, byID bool) (string, error) {
	n, err := s.resolve(ctx, name, id, byID)
	if err == nil {
		err = s.allowedTopic(r, op, n)
	}
	if err != nil && byID && n != "" && s.allowedTopic(r, acl.Describe, n) != nil {
		err = &deniedError{principal: r.proof.principal, op: op, kind: acl.Topic, name: "of that id"} // it does not learn the name
	}
	return n, err
}

// noOperations is what the answers say where the operations that somebody may do were not asked for.
const noOperations = -2147483648

// operations are those that a client may do with a resource, a bit each (KIP-430).
func (s *Server) operations(r *request, kind acl.Kind, name string) int32 {
	ops := []acl.Operation{acl.Read, acl.Write, acl.Create, acl.Delete, acl.Alter, acl.Describe, acl.DescribeConfigs, acl.AlterConfigs}
	switch kind {
	case acl.Group:
		ops = []acl.Operation{acl.Read, acl.Delete, acl.Describe, acl.DescribeConfigs, acl.AlterConfigs}
	case acl.Cluster:
		ops = []acl.Operation{acl.Create, acl.Alter, acl.Describe, acl.ClusterAction, acl.DescribeConfigs, acl.AlterConfigs, acl.IdempotentWrite}
	}
	var bits int32
	for _, op := range ops {
		if s.allowed(r, op, kind, name) == nil {
			bits |= 1 << op
		}
	}
	return bits
}
