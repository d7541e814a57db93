package acl

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Set is a set of rules, ready to decide. It is never changed; its methods may be called concurrently.
type Set struct {
	// Open says that a resource that no rule speaks of is everybody's (allow.everyone.if.no.acl.found).
	open  bool
	super map[string]bool

	rules    map[Rule]Rule // as they are kept: with their hosts as they are compared
	literal  map[resource][]Rule
	prefixed map[resource][]Rule
	lengths  map[Kind][]int // of the prefixes that there are: a name is looked up by each of them
}

type resource struct {
	kind Kind
	name string
}

// NewSet gives a set without rules. Principals in super may everything.
func NewSet(open bool, super []string) *Set {
	s := &Set{open: open, super: map[string]bool{}}
	for _, p := range super {
		s.super[p] = true
	}
	return s.With(nil, nil)
}

// With gives a set with some rules more and some less.
func (s *Set) With(add, remove []Rule) *Set {
	n := &Set{open: s.open, super: s.super, rules: maps.Clone(s.rules)}
	if n.rules == nil {
		n.rules = map[Rule]Rule{}
	}
	for _, r := range remove {
		delete(n.rules, r)
	}
	for _, r := range add {
		c := r
		c.Host = Host(r.Host)
		n.rules[r] = c
	}
	n.literal, n.prefixed, n.lengths = map[resource][]Rule{}, map[resource][]Rule{}, map[Kind][]int{}
	for _, r := range n.rules {
		at := resource{r.Kind, r.Name}
		if r.Pattern == Literal {
			n.literal[at] = append(n.literal[at], r)
			continue
		}
		n.prefixed[at] = append(n.prefixed[at], r)
		if !slices.Contains(n.lengths[r.Kind], len(r.Name)) {
			n.lengths[r.Kind] = append(n.lengths[r.Kind], len(r.Name))
		}
	}
	return n
}

// Len is the number of rules.
func (s *Set) Len() int { return len(s.rules) }

// Has says whether a rule is in the set.
func (s *Set) Has(r Rule) bool { _, ok := s.rules[r]; return ok }

// Find gives the rules that a filter names, those of one resource together.
func (s *Set) Find(f Filter) []Rule {
	return s.FindFirst([]Filter{f})[0]
}

// FindFirst gives for each filter the rules that it names and none before it does, those of one resource together: no
// more rules altogether than there are. It looks at every rule with every filter.
func (s *Set) FindFirst(filters []Filter) [][]Rule {
	out := make([][]Rule, len(filters))
	filters = slices.Clone(filters)
	for i, f := range filters {
		if f.Host != nil {
			host := Host(*f.Host)
			filters[i].Host = &host
		}
	}
	for r, c := range s.rules {
		if i := slices.IndexFunc(filters, func(f Filter) bool { return f.matches(c) }); i >= 0 {
			out[i] = append(out[i], r)
		}
	}
	for _, rules := range out {
		slices.SortFunc(rules, func(a, b Rule) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Pattern, b.Pattern), cmp.Compare(a.Name, b.Name),
				cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Effect, b.Effect))
		})
	}
	return out
}

// Allows says whether a principal on a host, spelled as Host does, may do something with a resource.
func (s *Set) Allows(principal, host string, op Operation, kind Kind, name string) bool {
	if s.super[principal] {
		return true
	}
	spoken, allowed := false, false
	for rules := range s.about(kind, name) {
		for i := range rules {
			r := &rules[i]
			spoken = true
			switch {
			case !r.is(principal, host) || !r.covers(op):
			case r.Effect == Deny:
				return false
			default:
				allowed = true
			}
		}
	}
	return allowed || !spoken && s.open
}

// about gives the rules that speak of a resource.
func (s *Set) about(kind Kind, name string) func(yield func([]Rule) bool) {
	return func(yield func([]Rule) bool) {
		if !yield(s.literal[resource{kind, name}]) {
			return
		}
		if name != Wildcard && !yield(s.literal[resource{kind, Wildcard}]) {
			return
		}
		for _, n := range s.lengths[kind] {
			if n <= len(name) && !yield(s.prefixed[resource{kind, name[:n]}]) {
				return
			}
		}
	}
}

// AllowsAny says whether a principal on a host, spelled as Host does, may do something with at least one resource of a kind, which need
// not exist (KIP-679).
func (s *Set) AllowsAny(principal, host string, op Operation, kind Kind) bool {
	if s.super[principal] {
		return true
	}
	var allow, deny []Rule
	for _, r := range s.rules {
		switch {
		case r.Kind != kind || !r.is(principal, host) || !r.covers(op):
		case r.Effect == Allow:
			allow = append(allow, r)
		case r.Pattern == Literal && r.Name == Wildcard:
			return false
		default:
			deny = append(deny, r)
		}
	}
	if s.open {
		return true // no rule denies all, so there is a name that none speaks of, or one that is not denied
	}
	return slices.ContainsFunc(allow, func(a Rule) bool {
		return !slices.ContainsFunc(deny, func(d Rule) bool { return d.swallows(a) })
	})
}

// swallows says whether a rule speaks of every name that another one speaks of.
func (r Rule) swallows(o Rule) bool {
	if r.Pattern == Prefixed {
		return (o.Pattern == Prefixed || o.Name != Wildcard) && strings.HasPrefix(o.Name, r.Name)
	}
	return o.Pattern == Literal && r.Name == o.Name
}
