package wire

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker/kafka/txnend"
	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// guardedServer has the users root, who may everything, and ann and bob, who may what rules say.
func guardedServer(t *testing.T, log *memLog, edit func(*Config)) *Server {
	t.Helper()
	return start(t, log, func(c *Config) {
		c.Users = userList(t, "root:secret\nann:secret\nbob:secret")
		c.Access = Access{Enforce: true, SuperUsers: []string{"User:root"}}
		if edit != nil {
			edit(c)
		}
	})
}

func as(t *testing.T, s *Server, user string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	return client(t, s, append(opts, kgo.SASL(mechanisms(user, "secret")["PLAIN"]), kgo.RequestRetries(2))...)
}

// grant has root make rules.
func grant(t *testing.T, s *Server, rules ...acl.Rule) {
	t.Helper()
	if err := s.access.change(t.Context(), func(*acl.Set) ([]acl.Rule, []acl.Rule) { return rules, nil }); err != nil {
		t.Fatal(err)
	}
}

func allow(who string, op acl.Operation, kind acl.Kind, name string) acl.Rule {
	return acl.Rule{Kind: kind, Name: name, Pattern: acl.Literal, Principal: "User:" + who, Host: "*", Operation: op, Effect: acl.Allow}
}

// fill puts something into every array of a request, so that there is something to refuse.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && v.Type().Field(i).Name != "UnknownTags" {
				fill(f)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("t")
	}
}

// refusals finds the error codes of an answer that say that somebody may not do something, and those that say something else.
func refusals(v reflect.Value, name string, out map[int16]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			refusals(v.Elem(), name, out)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			refusals(v.Field(i), v.Type().Field(i).Name, out)
		}
	case reflect.Slice:
		for i := range v.Len() {
			refusals(v.Index(i), name, out)
		}
	case reflect.Int16:
		if name == "ErrorCode" {
			out[int16(v.Int())] = true
		}
	}
}

// Every key that is served refuses somebody for whom there is no rule, in every version, and gives nothing away: what
// exists and what does not is answered alike. Looked at is what stands on the wire. Keys that need no right, or whose lists are just empty, are named here.
func TestEveryKeyIsGuarded(t *testing.T) {
	log := newMemLog(t)
	s := guardedServer(t, log, nil)
	root := as(t, s, "root")
	produce(t, within(t, 10*time.Second), root, "t", 3)
	free := []int16{keyAPIVersions, keySASLHandshake, keySASLAuthenticate, 60} // DescribeCluster: addresses alone
	empty := []int16{16, 66}                                                   // lists without what the client may not see
	denied := []int16{codeTopicAuthorization, codeGroupAuthorization, codeClusterAuthorization, codeTxnIDAuthorization}
	for _, a := range buildTable(log) {
		if slices.Contains(free, a.key) {
			continue
		}
		for version := max(a.min, a.served); version <= a.max; version++ {
			for _, name := range []string{"t", "none"} {
				req := kmsg.RequestForKey(a.key)
				req.SetVersion(version)
				fill(reflect.ValueOf(req).Elem())
				adapt(t, log, req, version, name)
				r := &request{ctx: t.Context(), host: "10.0.0.1", version: version, body: req, proof: &proof{user: "bob", principal: "User:bob"}, proved: func() {}}
				resp, err := a.handle(s, r)
				if r.later != nil {
					<-r.later.ready
					resp, err = r.later.finish()
				}
				if err != nil || resp == nil {
					t.Errorf("%s %d: %v", a.name, version, err)
					continue
				}
				got := req.ResponseKind() // what the client reads: some versions have no place for some codes
				got.SetVersion(version)
				resp.SetVersion(version)
				if err := got.ReadFrom(resp.AppendTo(nil)); err != nil {
					t.Errorf("%s %d: %v", a.name, version, err)
					continue
				}
				codes := map[int16]bool{}
				refusals(reflect.ValueOf(got), "", codes)
				refused := false
				for code := range codes {
					refused = refused || slices.Contains(denied, code)
				}
				if slices.Contains(empty, a.key) {
					refused = reflect.ValueOf(got).Elem().FieldByNameFunc(func(f string) bool { return f == "Groups" || f == "TransactionStates" }).Len() == 0
				}
				refused = refused || name == "none" && codes[codeUnknownTopicID] // an id of nothing says nothing
				if !refused || len(codes) > 2 || len(codes) == 2 && !codes[0] && !(codes[codeNotAttempted]) {
					t.Errorf("%s version %d, topic %q: error codes %v", a.name, version, name, codes)
				}
			}
		}
	}
}

// adapt gives a filled request what its handler looks at before the rights.
func adapt(t *testing.T, log *memLog, req kmsg.Request, version int16, name string) {
	var id [16]byte
	if name == "t" {
		infos, err := log.Topics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range infos {
			if in.Name == name {
				id = in.ID
			}
		}
	}
	setNames(reflect.ValueOf(req).Elem(), name, id)
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		r.TransactionID, r.Acks = nil, 1
	case *kmsg.MetadataRequest:
		r.AllowAutoTopicCreation = true
	case *kmsg.DescribeConfigsRequest:
		r.Resources[0].ResourceType = kmsg.ConfigResourceTypeTopic
	case *kmsg.AlterConfigsRequest:
		r.Resources[0].ResourceType = kmsg.ConfigResourceTypeTopic
	case *kmsg.IncrementalAlterConfigsRequest:
		r.Resources[0].ResourceType = kmsg.ConfigResourceTypeTopic
	case *kmsg.FindCoordinatorRequest:
		r.CoordinatorType = int8(version % 2)
	case *kmsg.ListGroupsRequest:
		r.StatesFilter, r.TypesFilter = nil, nil
	case *kmsg.ListTransactionsRequest:
		r.StateFilters, r.ProducerIDFilters, r.TransactionalIDPattern = nil, nil, nil
	}
	// An id that is none of a topic is answered as such: it gives nothing away. Names are used then.
	if name == "none" {
		switch r := req.(type) {
		case *kmsg.DeleteTopicsRequest:
			for i := range r.Topics {
				r.Topics[i].Topic = &name
			}
		}
	}
}

func setNames(v reflect.Value, name string, id [16]byte) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			setNames(v.Elem(), name, id)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				setNames(f, name, id)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			setNames(v.Index(i), name, id)
		}
	case reflect.String:
		v.SetString(name)
	case reflect.Array:
		if v.Type() == reflect.TypeFor[[16]byte]() {
			v.Set(reflect.ValueOf(id))
		}
	}
}

// A producer, a consumer in a group and a transaction work with the rules that Kafka's own documentation asks for,
// and with one rule less they do not.
func TestRightsOfClients(t *testing.T) {
	log := newMemLog(t)
	s := guardedServer(t, log, nil)
	ctx := within(t, 60*time.Second)
	produce(t, ctx, as(t, s, "root"), "t", 10)
	send := func(opts ...kgo.Opt) error {
		cl := as(t, s, "ann", append(opts, kgo.RecordRetries(1), kgo.RecordDeliveryTimeout(patience))...)
		defer cl.Close()
		return cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr()
	}
	if err := send(); !errors.Is(err, kerr.TopicAuthorizationFailed) && !errors.Is(err, kerr.ClusterAuthorizationFailed) {
		t.Fatalf("produce without a rule: %v", err)
	}
	grant(t, s, allow("ann", acl.Write, acl.Topic, "t"))
	if err := send(); err != nil {
		t.Fatal(err)
	}
	if err := send(kgo.TransactionalID("x")); err == nil {
		t.Fatal("a transactional id without a rule was taken")
	}
	grant(t, s, allow("ann", acl.Write, acl.TransactionalID, "x"))
	cl := as(t, s, "ann", kgo.TransactionalID("x"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := txnend.End(ctx, cl, kgo.TryCommit, "t"); err != nil {
		t.Fatal(err)
	}

	read := func() error {
		cl := as(t, s, "bob", kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
		defer cl.Close()
		for {
			fs := cl.PollFetches(ctx)
			var err error
			fs.EachError(func(_ string, _ int32, e error) { err = e })
			if err == nil && fs.NumRecords() > 0 {
				err = cl.CommitUncommittedOffsets(ctx)
			} else if err == nil {
				continue
			}
			return err
		}
	}
	if err := read(); err == nil {
		t.Fatal("bob reads without a rule")
	}
	grant(t, s, allow("bob", acl.Read, acl.Topic, "t"))
	if err := read(); !errors.Is(err, kerr.GroupAuthorizationFailed) {
		t.Fatalf("a group without a rule: %v", err)
	}
	grant(t, s, allow("bob", acl.Read, acl.Group, "g"))
	if err := read(); err != nil {
		t.Fatal(err)
	}
	topics, err := kadm.NewClient(as(t, s, "bob")).ListTopics(ctx)
	if err != nil || len(topics) != 1 || !topics.Has("t") {
		t.Fatalf("bob sees %v (%v), want t alone", topics.Names(), err)
	}
}

// Who may not know a topic does not learn its name by its id; who may not use a transactional id changes nothing of it.
func TestNothingIsGivenAway(t *testing.T) {
	log := newMemLog(t)
	s := guardedServer(t, log, nil)
	info, err := log.CreateTopic(t.Context(), "secret", topicOf(1))
	if err != nil {
		t.Fatal(err)
	}
	bob := func(h func(*request) (kmsg.Response, error), req kmsg.Request, version int16) kmsg.Response {
		req.SetVersion(version)
		resp, err := h(&request{ctx: t.Context(), host: "h", version: version, body: req, proof: &proof{principal: "User:bob"}})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: info.ID}}
	if got := bob(s.deleteTopics, del, 6).(*kmsg.DeleteTopicsResponse).Topics[0]; got.Topic != nil || strings.Contains(deref(got.ErrorMessage), "secret") || got.ErrorCode != codeTopicAuthorization {
		t.Errorf("delete by id: %+v %q", got, deref(got.ErrorMessage))
	}
	if _, err := s.txns.init(t.Context(), "x", time.Minute, producerID{-1, -1}); err != nil {
		t.Fatal(err)
	}
	before, _ := s.txns.describe("x")
	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch = "x", before.producer, before.epoch
	bob(s.addPartitionsToTxn, add, 3)
	if after, _ := s.txns.describe("x"); after.state != before.state {
		t.Errorf("bob has moved the transaction of another from %s to %s", before.state, after.state)
	}
}

// Rules are made, described and deleted by an admin client, are there after a restart, and are not to be read from
// their topic by those who may read all topics.
func TestRulesAreKept(t *testing.T) {
	log := newMemLog(t)
	s := guardedServer(t, log, nil)
	ctx := within(t, 30*time.Second)
	adm := kadm.NewClient(as(t, s, "root"))
	add := kadm.NewACLs().Allow("User:ann").AllowHosts("*").Topics("t", "u").Operations(kadm.OpRead, kadm.OpDescribe).ResourcePatternType(kadm.ACLPatternLiteral)
	if res, err := adm.CreateACLs(ctx, add); err != nil || len(res) != 4 || res[0].Err != nil {
		t.Fatalf("%+v %v", res, err)
	}
	if res, err := adm.CreateACLs(ctx, kadm.NewACLs().Deny("User:bob").DenyHosts("*").Topics("*").Operations(kadm.OpAll).ResourcePatternType(kadm.ACLPatternLiteral)); err != nil || res[0].Err != nil {
		t.Fatalf("%+v %v", res, err)
	}
	grant(t, s, allow("ann", acl.Read, acl.Topic, "*"))
	every := kmsg.NewPtrDescribeACLsRequest()
	every.ResourceType, every.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	every.Operation, every.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	if resp, err := every.RequestWith(ctx, as(t, s, "ann")); err != nil || resp.ErrorCode != codeClusterAuthorization {
		t.Errorf("ann describes rules: %+v %v", resp, err)
	}
	if resp, err := every.RequestWith(ctx, as(t, s, "root")); err != nil || len(resp.Resources) != 3 {
		t.Errorf("root describes rules: %+v %v", resp, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = guardedServer(t, log, nil)
	if n := s.access.set.Load().Len(); n != 6 {
		t.Fatalf("%d rules after the restart, want 6", n)
	}
	adm = kadm.NewClient(as(t, s, "root"))
	gone, err := adm.DeleteACLs(ctx, kadm.NewACLs().Topics("t").ResourcePatternType(kadm.ACLPatternMatch).Operations().Allow().AllowHosts().Deny().DenyHosts())
	if err != nil || len(gone) == 0 || gone[0].Err != nil {
		t.Fatalf("%+v %v", gone, err)
	}
	if n := s.access.set.Load().Len(); n != 2 { // those of u
		t.Fatalf("%d rules left, want 2", n)
	}
	ann := &request{ctx: ctx, host: "h", proof: &proof{principal: "User:ann"}}
	grant(t, s, allow("ann", acl.Read, acl.Topic, "*"))
	if s.allowedTopic(ann, acl.Read, "any") != nil || s.allowedTopic(ann, acl.Read, SettingsTopic) == nil {
		t.Error("who may read all topics reads the rules")
	}
	bad := kmsg.NewPtrCreateACLsRequest()
	c := kmsg.NewCreateACLsRequestCreation()
	c.ResourceType, c.ResourceName, c.ResourcePatternType, c.Principal, c.Host = kmsg.ACLResourceTypeTopic, "t", kmsg.ACLResourcePatternTypeLiteral, "ann", "*"
	c.Operation, c.PermissionType = kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow
	bad.Creations = append(bad.Creations, c)
	resp, err := bad.RequestWith(ctx, as(t, s, "root"))
	if err != nil || resp.Results[0].ErrorCode != codeInvalidRequest {
		t.Fatalf("a principal without a type: %+v %v", resp, err)
	}
}

// A certificate names its user; who has shown nothing is anonymous, and may what everybody may.
func TestPrincipals(t *testing.T) {
	s := start(t, newMemLog(t), func(c *Config) { c.Access = Access{Enforce: true, Open: true, SuperUsers: []string{anonymous}} })
	if err := ping(t, s); err != nil {
		t.Fatal(err)
	}
	grant(t, s, allow("ann", acl.Read, acl.Topic, "t"))
	r := &request{ctx: t.Context(), host: "h", proof: &proof{principal: "User:eve"}}
	if s.allowedTopic(r, acl.Read, "t") == nil || s.allowedTopic(r, acl.Read, "u") != nil {
		t.Error("an open server refuses what no rule speaks of, or gives what a rule does")
	}
	cert, pool := certificate(t)
	mutual := start(t, newMemLog(t), func(c *Config) {
		c.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
		c.Access = Access{Enforce: true, SuperUsers: []string{"User:CN=test"}}
	})
	cl := client(t, mutual, kgo.DialTLSConfig(&tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}))
	produce(t, within(t, 10*time.Second), cl, "t", 5)
	for _, a := range []Access{{Open: true}, {SuperUsers: []string{"User:a"}}, {Enforce: true, SuperUsers: []string{"ann"}}} {
		if s, err := Open(t.Context(), Config{Listen: "127.0.0.1:0", Log: newMemLog(t), Access: a}); err == nil {
			t.Errorf("%+v was taken", a)
			_ = s.Close()
		}
	}
}

// from is a connection that comes from somewhere else.
type from struct {
	net.Conn
	addr net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.addr }

// I8: a rule about a host binds whoever connects from there, however the administrator spells the address; what is no
// address is refused when the rule is made, and in filters.
func TestHostsOfRules(t *testing.T) {
	s := guardedServer(t, newMemLog(t), nil)
	ctx := within(t, 30*time.Second)
	root := as(t, s, "root")
	produce(t, ctx, root, "t", 1)
	grant(t, s, allow("bob", acl.All, acl.Topic, "t"))
	adm := kadm.NewClient(root)
	read := func() error {
		res, err := kadm.NewClient(as(t, s, "bob")).ListEndOffsets(ctx, "t")
		if err != nil {
			return err
		}
		return res.Error()
	}
	deny := func(host string) *kadm.ACLBuilder {
		return kadm.NewACLs().Deny("User:bob").DenyHosts(host).Topics("t").Operations(kadm.OpAll).ResourcePatternType(kadm.ACLPatternLiteral)
	}
	if err := read(); err != nil {
		t.Fatalf("before the rule: %v", err)
	}
	if res, err := adm.CreateACLs(ctx, deny("0:0:0:0:0:FFFF:7f00:1")); err != nil || res[0].Err != nil {
		t.Fatalf("%+v %v", res, err)
	}
	if err := read(); err == nil {
		t.Error("who comes from 127.0.0.1 is denied in another spelling, and reads")
	}
	if gone, err := adm.DeleteACLs(ctx, deny("::ffff:127.0.0.1")); err != nil || len(gone) != 1 || len(gone[0].Deleted) != 1 || gone[0].Deleted[0].Host != "127.0.0.1" {
		t.Errorf("delete in a third spelling: %+v %v", gone, err)
	}
	if err := read(); err != nil {
		t.Errorf("after the rule: %v", err)
	}
	far := newConn(s, from{dial(t, s), &net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 1}})
	if far.host != "fe80::1" {
		t.Errorf("a connection from %s is compared as %q", far.peer, far.host)
	}
	for _, host := range []string{"localhost", "127.0.0.0/8"} {
		if res, err := adm.CreateACLs(ctx, deny(host)); err != nil || res[0].Err == nil {
			t.Errorf("a rule about the host %q: %+v %v", host, res, err)
		}
		if res, err := adm.DescribeACLs(ctx, deny(host)); err == nil && res[0].Err == nil {
			t.Errorf("a filter about the host %q: %+v", host, res)
		}
	}
}

// Rules that an earlier version kept with their hosts as they came bind after a restart, and are removed for good; one
// whose host is no address does not keep the server from its start.
func TestOldHostsOfRules(t *testing.T) {
	log := newMemLog(t)
	s := guardedServer(t, log, nil)
	long, none := allow("bob", acl.All, acl.Topic, "t"), allow("bob", acl.All, acl.Topic, "t")
	long.Host, long.Effect, none.Host, none.Effect = "0:0:0:0:0:0:0:1", acl.Deny, "localhost", acl.Deny
	grant(t, s, allow("bob", acl.All, acl.Topic, "t"), long, none)
	again := func(want int) {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s = guardedServer(t, log, nil); s.access.set.Load().Len() != want {
			t.Fatalf("%d rules after a restart, want %d", s.access.set.Load().Len(), want)
		}
	}
	again(3)
	if err := s.allowedTopic(&request{host: "::1", proof: &proof{principal: "User:bob"}}, acl.Read, "t"); err == nil {
		t.Error("who is denied in an old spelling reads")
	}
	adm := kadm.NewClient(as(t, s, "root"))
	for _, b := range []*kadm.ACLBuilder{kadm.NewACLs().Deny("User:bob").DenyHosts("::1"), kadm.NewACLs().Deny("User:bob").DenyHosts()} {
		gone, err := adm.DeleteACLs(within(t, 10*time.Second), b.Topics("t").Operations(kadm.OpAll).ResourcePatternType(kadm.ACLPatternLiteral))
		if err != nil || len(gone) != 1 || len(gone[0].Deleted) != 1 {
			t.Fatalf("%+v %v", gone, err)
		}
	}
	again(1)
}

// I8: an answer of DeleteAcls tells each rule once however many filters name it, and what there is no room to
// tell, or too many filters name, is not removed.
func TestDeleteRulesBounded(t *testing.T) {
	s := guardedServer(t, newMemLog(t), nil)
	const rules = 3000
	var add []acl.Rule
	for i := range rules {
		add = append(add, allow("ann", acl.Read, acl.Topic, fmt.Sprint("t", i)))
	}
	grant(t, s, add...)
	del := func(filters int) (*kmsg.DeleteACLsResponse, error) {
		req := kmsg.NewPtrDeleteACLsRequest()
		for range filters {
			f := kmsg.NewDeleteACLsRequestFilter()
			f.ResourceType, f.ResourcePatternType, f.Operation, f.PermissionType = 1, 1, 1, 1
			req.Filters = append(req.Filters, f)
		}
		req.SetVersion(3)
		r := &request{ctx: t.Context(), host: "h", version: 3, body: req, proof: &proof{principal: "User:root"}}
		defer r.mem.release()
		resp, err := s.deleteACLs(r)
		if err != nil {
			return nil, err
		}
		return resp.(*kmsg.DeleteACLsResponse), s.settle(r, len(resp.AppendTo(nil)))
	}
	left := func(want int) {
		t.Helper()
		if n := s.access.set.Load().Len(); n != want {
			t.Fatalf("%d rules are left, want %d", n, want)
		}
	}
	resp, err := del(maxFilters + 1)
	if err != nil || resp.Results[maxFilters].ErrorCode != codeInvalidRequest || resp.Results[0].ErrorCode != codeInvalidRequest {
		t.Fatalf("%d filters: %+v %v", maxFilters+1, resp, err)
	}
	left(rules)
	all := s.cfg.answerMemory()
	if err := s.answers.Acquire(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if _, err := del(1); !errors.Is(err, errAnswerMemory) {
		t.Fatalf("without memory: %v", err)
	}
	left(rules)
	s.answers.Release(all)
	if resp, err = del(maxFilters); err != nil {
		t.Fatal(err)
	}
	left(0)
	told := 0
	for _, o := range resp.Results {
		told += len(o.MatchingACLs)
	}
	if told != rules || len(resp.Results) != maxFilters {
		t.Errorf("%d rules are told for %d filters, want each of %d once", told, len(resp.Results), rules)
	}
	if !s.answers.TryAcquire(all) {
		t.Error("memory of an answer was not given back")
	}
	s.answers.Release(all)
}
