package acl_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

func rule(effect acl.Effect, who string, op acl.Operation, kind acl.Kind, pattern acl.Pattern, name string) acl.Rule {
	return acl.Rule{Kind: kind, Name: name, Pattern: pattern, Principal: "User:" + who, Host: "*", Operation: op, Effect: effect}
}

// Kafka's rules of decision, one by one.
func TestDecisions(t *testing.T) {
	onHost := rule(acl.Allow, "ann", acl.Read, acl.Topic, acl.Literal, "t")
	onHost.Host = "10.0.0.1"
	type ask struct {
		who  string
		op   acl.Operation
		name string
		want bool
	}
	for name, c := range map[string]struct {
		open  bool
		rules []acl.Rule
		asks  []ask
	}{
		"nothing is said": {false, nil, []ask{{"ann", acl.Read, "t", false}, {"root", acl.Read, "t", true}}},
		"open": {true, []acl.Rule{rule(acl.Allow, "ann", acl.Read, acl.Topic, acl.Literal, "t")}, []ask{
			{"bob", acl.Read, "t", false}, {"bob", acl.Read, "u", true}, {"ann", acl.Write, "t", false},
		}},
		"literal": {false, []acl.Rule{rule(acl.Allow, "ann", acl.Write, acl.Topic, acl.Literal, "t")}, []ask{
			{"ann", acl.Write, "t", true}, {"ann", acl.Describe, "t", true}, {"ann", acl.Read, "t", false},
			{"ann", acl.Write, "tt", false}, {"ann", acl.DescribeConfigs, "t", false}, {"bob", acl.Write, "t", false},
		}},
		"prefix": {false, []acl.Rule{rule(acl.Allow, "ann", acl.All, acl.Topic, acl.Prefixed, "a.")}, []ask{
			{"ann", acl.Delete, "a.b", true}, {"ann", acl.Delete, "a.", true}, {"ann", acl.Delete, "a", false}, {"ann", acl.Delete, "b", false},
		}},
		"wildcard": {false, []acl.Rule{rule(acl.Allow, "*", acl.Read, acl.Topic, acl.Literal, "*")}, []ask{
			{"ann", acl.Read, "t", true}, {"ANONYMOUS", acl.Read, "x", true}, {"ann", acl.Write, "t", false},
		}},
		"a star is no wildcard in a prefix": {false, []acl.Rule{rule(acl.Allow, "ann", acl.Read, acl.Topic, acl.Prefixed, "*")}, []ask{{"ann", acl.Read, "t", false}}},
		"deny wins": {true, []acl.Rule{
			rule(acl.Allow, "*", acl.All, acl.Topic, acl.Literal, "*"), rule(acl.Deny, "bob", acl.Read, acl.Topic, acl.Prefixed, "secret"),
		}, []ask{{"bob", acl.Read, "secrets", false}, {"ann", acl.Read, "secrets", true}, {"bob", acl.Read, "t", true}, {"bob", acl.Describe, "secrets", true}}},
		"deny of describe": {false, []acl.Rule{
			rule(acl.Allow, "bob", acl.Read, acl.Topic, acl.Literal, "t"), rule(acl.Deny, "bob", acl.Describe, acl.Topic, acl.Literal, "t"),
		}, []ask{{"bob", acl.Read, "t", true}, {"bob", acl.Describe, "t", false}}},
		"super users are not denied": {false, []acl.Rule{rule(acl.Deny, "*", acl.All, acl.Topic, acl.Literal, "*")}, []ask{{"root", acl.Write, "t", true}}},
		"configs":                    {false, []acl.Rule{rule(acl.Allow, "ann", acl.AlterConfigs, acl.Topic, acl.Literal, "t")}, []ask{{"ann", acl.DescribeConfigs, "t", true}, {"ann", acl.Describe, "t", false}}},
		"other kind":                 {false, []acl.Rule{rule(acl.Allow, "ann", acl.All, acl.Group, acl.Literal, "t")}, []ask{{"ann", acl.Read, "t", false}}},
		"host":                       {false, []acl.Rule{onHost}, []ask{{"ann", acl.Read, "t", false}}},
	} {
		s := acl.NewSet(c.open, []string{"User:root"}).With(c.rules, nil)
		for _, a := range c.asks {
			if got := s.Allows("User:"+a.who, "10.9.9.9", a.op, acl.Topic, a.name); got != a.want {
				t.Errorf("%s: %s %s %q: %v, want %v", name, a.who, a.op, a.name, got, a.want)
			}
		}
	}
	s := acl.NewSet(false, nil).With([]acl.Rule{onHost}, nil)
	if !s.Allows("User:ann", "10.0.0.1", acl.Read, acl.Topic, "t") {
		t.Error("the host of the rule is refused")
	}
	if s = s.With(nil, []acl.Rule{onHost}); s.Len() != 0 || s.Allows("User:ann", "10.0.0.1", acl.Read, acl.Topic, "t") {
		t.Error("a rule that was removed still decides")
	}
}

// KIP-679: may somebody write to any topic at all.
func TestAllowsAny(t *testing.T) {
	allow := func(p acl.Pattern, name string) acl.Rule {
		return rule(acl.Allow, "ann", acl.Write, acl.Topic, p, name)
	}
	deny := func(p acl.Pattern, name string) acl.Rule { return rule(acl.Deny, "*", acl.Write, acl.Topic, p, name) }
	for name, c := range map[string]struct {
		open  bool
		rules []acl.Rule
		want  bool
	}{
		"nothing":             {false, nil, false},
		"open":                {true, nil, true},
		"open, all denied":    {true, []acl.Rule{deny(acl.Literal, "*")}, false},
		"one topic":           {false, []acl.Rule{allow(acl.Literal, "t")}, true},
		"that one is denied":  {false, []acl.Rule{allow(acl.Literal, "t"), deny(acl.Literal, "t")}, false},
		"by a prefix":         {false, []acl.Rule{allow(acl.Literal, "tt"), deny(acl.Prefixed, "t")}, false},
		"part of a prefix is": {false, []acl.Rule{allow(acl.Prefixed, "t"), deny(acl.Prefixed, "tt")}, true},
		"all but a prefix":    {false, []acl.Rule{allow(acl.Literal, "*"), deny(acl.Prefixed, "t")}, true},
		"reading only":        {false, []acl.Rule{rule(acl.Allow, "ann", acl.Read, acl.Topic, acl.Literal, "t")}, false},
	} {
		if got := acl.NewSet(c.open, nil).With(c.rules, nil).AllowsAny("User:ann", "h", acl.Write, acl.Topic); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// The index decides as a plain look at every rule does.
func TestIndexAgainstScan(t *testing.T) {
	rnd := rand.New(rand.NewPCG(seedtest.New(t), 1))
	names := []string{"a", "ab", "abc", "b", "*", "a.b", "bb"}
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	for range 300 {
		open := rnd.IntN(2) == 0
		var rules []acl.Rule
		for range rnd.IntN(8) {
			rules = append(rules, acl.Rule{
				Kind: acl.Topic + acl.Kind(rnd.IntN(2)), Name: pick(names...), Pattern: acl.Literal + acl.Pattern(rnd.IntN(2)),
				Principal: pick("User:ann", "User:bob", "User:*"), Host: pick("*", "h"), Operation: acl.All + acl.Operation(rnd.IntN(11)),
				Effect: acl.Deny + acl.Effect(rnd.IntN(2)),
			})
		}
		s := acl.NewSet(open, nil).With(rules, nil)
		for _, name := range names {
			for op := acl.Read; op <= acl.IdempotentWrite; op++ {
				who, host := pick("User:ann", "User:bob"), pick("h", "g")
				if got, want := s.Allows(who, host, op, acl.Topic, name), scan(rules, open, who, host, op, name); got != want {
					t.Fatalf("%s@%s %s %q: %v, want %v\n%s", who, host, op, name, got, want, strings.ReplaceAll(fmt.Sprint(rules), "} {", "}\n{"))
				}
			}
		}
	}
}

func scan(rules []acl.Rule, open bool, who, host string, op acl.Operation, name string) bool {
	implied := map[acl.Operation][]acl.Operation{
		acl.Describe: {acl.Read, acl.Write, acl.Delete, acl.Alter}, acl.DescribeConfigs: {acl.AlterConfigs},
	}
	spoken, allow, deny := false, false, false
	for _, r := range rules {
		if r.Kind != acl.Topic || !(r.Pattern == acl.Literal && (r.Name == name || r.Name == "*") || r.Pattern == acl.Prefixed && strings.HasPrefix(name, r.Name)) {
			continue
		}
		spoken = true
		if (r.Principal != who && r.Principal != "User:*") || (r.Host != host && r.Host != "*") {
			continue
		}
		direct := r.Operation == op || r.Operation == acl.All
		if r.Effect == acl.Deny {
			deny = deny || direct
			continue
		}
		allow = allow || direct
		for _, o := range implied[op] {
			allow = allow || r.Operation == o
		}
	}
	return !deny && (allow || !spoken && open)
}

// Filters of describe and delete; what is no rule is refused.
func TestFilters(t *testing.T) {
	lit, pre, star := rule(acl.Allow, "ann", acl.Read, acl.Topic, acl.Literal, "ab"), rule(acl.Deny, "bob", acl.Read, acl.Topic, acl.Prefixed, "a"), rule(acl.Allow, "*", acl.Write, acl.Topic, acl.Literal, "*")
	group := rule(acl.Allow, "ann", acl.Read, acl.Group, acl.Literal, "ab")
	s := acl.NewSet(false, nil).With([]acl.Rule{lit, pre, star, group}, nil)
	str := func(s string) *string { return &s }
	every := acl.Filter{Kind: acl.AnyKind, Pattern: acl.AnyPattern, Operation: acl.AnyOperation, Effect: acl.AnyEffect}
	for name, c := range map[string]struct {
		edit func(*acl.Filter)
		want int
	}{
		"all":       {func(*acl.Filter) {}, 4},
		"name":      {func(f *acl.Filter) { f.Name = str("ab") }, 2},
		"matching":  {func(f *acl.Filter) { f.Name, f.Pattern = str("ab"), acl.Match }, 4},
		"prefixed":  {func(f *acl.Filter) { f.Pattern = acl.Prefixed }, 1},
		"topic":     {func(f *acl.Filter) { f.Kind = acl.Topic }, 3},
		"principal": {func(f *acl.Filter) { f.Principal = str("User:ann") }, 2},
		"operation": {func(f *acl.Filter) { f.Operation = acl.Write }, 1},
		"denied":    {func(f *acl.Filter) { f.Effect = acl.Deny }, 1},
		"host":      {func(f *acl.Filter) { f.Host = str("10.0.0.1") }, 0},
	} {
		f := every
		c.edit(&f)
		if got := s.Find(f); len(got) != c.want || f.Validate() != nil {
			t.Errorf("%s: %v (%v), want %d", name, got, f.Validate(), c.want)
		}
	}
	for name, edit := range map[string]func(*acl.Rule){
		"kind": func(r *acl.Rule) { r.Kind = 7 }, "pattern": func(r *acl.Rule) { r.Pattern = acl.Match }, "name": func(r *acl.Rule) { r.Name = "" },
		"operation": func(r *acl.Rule) { r.Operation = acl.AnyOperation }, "effect": func(r *acl.Rule) { r.Effect = 1 }, "host": func(r *acl.Rule) { r.Host = "" },
		"principal": func(r *acl.Rule) { r.Principal = "ann" }, "cluster": func(r *acl.Rule) { r.Kind = acl.Cluster }, "long": func(r *acl.Rule) { r.Name = strings.Repeat("x", 2000) },
	} {
		r := lit
		if _, err := r.Canonical(); err != nil {
			t.Fatal(err)
		}
		edit(&r)
		if _, err := r.Canonical(); err == nil || r.Validate() == nil {
			t.Errorf("%s: %+v was taken", name, r)
		}
	}
	narrow := every
	narrow.Name = str("ab")
	if got := s.FindFirst([]acl.Filter{narrow, every, every}); len(got[0]) != 2 || len(got[1]) != 2 || len(got[2]) != 0 {
		t.Errorf("rules of three filters: %v, want each once", got)
	}
}

// spellings gives one address as people and programs write it.
func spellings(a netip.Addr) []string {
	out := []string{a.String(), a.StringExpanded(), strings.ToUpper(a.StringExpanded())}
	if a.Is4() {
		mapped := netip.AddrFrom16(a.As16())
		return append(out, mapped.String(), mapped.StringExpanded(), "0:0:0:0:0:FFFF:"+a.String())
	}
	var parts []string
	for b := a.As16(); len(parts) < 8; {
		i := 2 * len(parts)
		parts = append(parts, fmt.Sprintf("%x", int(b[i])<<8|int(b[i+1]))) // as Java prints it
	}
	return append(out, strings.Join(parts, ":"))
}

// I8: a rule is about an address, however it is spelled: in the rule, in a filter, where the connection comes from, or in a
// rule that an earlier version kept as it came. What is no address is refused.
func TestHostSpellings(t *testing.T) {
	rnd := rand.New(rand.NewPCG(seedtest.New(t), 1))
	addrs := []netip.Addr{netip.IPv6Loopback(), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("fe80::1")}
	for range 50 {
		var b [16]byte
		for i := range b {
			b[i] = byte(rnd.IntN(4) * rnd.IntN(256) * rnd.IntN(2))
		}
		addrs = append(addrs, netip.AddrFrom16(b).Unmap(), netip.AddrFrom4([4]byte(b[:4])))
	}
	every := acl.Filter{Kind: acl.AnyKind, Pattern: acl.AnyPattern, Operation: acl.AnyOperation, Effect: acl.AnyEffect}
	allow := rule(acl.Allow, "bob", acl.All, acl.Topic, acl.Literal, "t")
	for _, a := range addrs {
		for _, spelled := range spellings(a) {
			deny := rule(acl.Deny, "bob", acl.All, acl.Topic, acl.Literal, "t")
			deny.Host = spelled
			kept, err := deny.Canonical()
			if err != nil || kept.Host != a.String() {
				t.Fatalf("%q is kept as %q, want %s (%v)", spelled, kept.Host, a, err)
			}
			for _, denied := range []acl.Rule{deny, kept} {
				s := acl.NewSet(false, nil).With([]acl.Rule{allow, denied}, nil)
				for _, other := range spellings(a) {
					if host := acl.Host(other); s.Allows("User:bob", host, acl.Read, acl.Topic, "t") || s.AllowsAny("User:bob", host, acl.Read, acl.Topic) {
						t.Fatalf("%q is denied, and who comes from %q reads", denied.Host, other)
					}
					f := every
					if f.Host = &other; f.Validate() != nil || len(s.Find(f)) != 1 || s.Find(f)[0] != denied {
						t.Fatalf("the filter %q finds %v, want the rule of %q (%v)", other, s.Find(f), denied.Host, f.Validate())
					}
				}
				if !s.Allows("User:bob", "192.0.2.77", acl.Read, acl.Topic, "t") {
					t.Fatalf("%q denies who is elsewhere", denied.Host)
				}
			}
		}
	}
	if acl.Host("fe80::1%eth0") != "fe80::1" {
		t.Error("the zone of a connection is part of its address")
	}
	for _, host := range []string{"not an address", "localhost", "10.0.0.0/8", "10.0.0.01", "10.0.0", "10.0.0.1:80", "[::1]", "::1 ", "fe80::1%eth0", "**"} {
		deny := rule(acl.Deny, "bob", acl.All, acl.Topic, acl.Literal, "t")
		deny.Host = host
		if _, err := deny.Canonical(); err == nil {
			t.Errorf("the host %q was taken", host)
		}
		f := every
		if f.Host = &host; f.Validate() == nil {
			t.Errorf("a filter of the host %q was taken", host)
		}
	}
}
