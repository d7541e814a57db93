package acl

import (
	"errors"
	"fmt"
	"strings"
)

// Kind is the kind of a resource.
type Kind int8

// Kinds of resources. There are no delegation tokens here, so Kafka's other two mean nothing.
const (
	AnyKind         Kind = 1 // in filters
	Topic           Kind = 2
	Group           Kind = 3
	Cluster         Kind = 4
	TransactionalID Kind = 5
)

// ClusterName is the one name of a resource of kind Cluster.
const ClusterName = "kafka-cluster"

// Pattern says how the name of a rule is compared with that of a resource.
type Pattern int8

// Patterns. A literal "*" stands for every name.
const (
	AnyPattern Pattern = 1 // in filters
	Match      Pattern = 2 // in filters: every rule that speaks of the name
	Literal    Pattern = 3
	Prefixed   Pattern = 4
)

// Operation is what somebody wants to do.
type Operation int8

// Operations.
const (
	AnyOperation    Operation = 1 // in filters
	All             Operation = 2
	Read            Operation = 3
	Write           Operation = 4
	Create          Operation = 5
	Delete          Operation = 6
	Alter           Operation = 7
	Describe        Operation = 8
	ClusterAction   Operation = 9
	DescribeConfigs Operation = 10
	AlterConfigs    Operation = 11
	IdempotentWrite Operation = 12
)

var operationNames = [...]string{
	All: "All", Read: "Read", Write: "Write", Create: "Create", Delete: "Delete", Alter: "Alter", Describe: "Describe",
	ClusterAction: "ClusterAction", DescribeConfigs: "DescribeConfigs", AlterConfigs: "AlterConfigs", IdempotentWrite: "IdempotentWrite",
}

func (o Operation) String() string {
	if o < All || int(o) >= len(operationNames) {
		return fmt.Sprintf("operation %d", int8(o))
	}
	return operationNames[o]
}

func (k Kind) String() string {
	switch k {
	case Topic:
		return "Topic"
	case Group:
		return "Group"
	case Cluster:
		return "Cluster"
	case TransactionalID:
		return "TransactionalId"
	}
	return fmt.Sprintf("resource type %d", int8(k))
}

// Effect is what a rule does.
type Effect int8

// Effects.
const (
	AnyEffect Effect = 1 // in filters
	Deny      Effect = 2
	Allow     Effect = 3
)

// Wildcard stands for every name, host, or, behind "User:", principal.
const Wildcard = "*"

const anybody = "User:" + Wildcard

// Rule is one access rule. The zero value is no rule.
type Rule struct {
	Kind      Kind      `json:"kind"`
	Name      string    `json:"name"`
	Pattern   Pattern   `json:"pattern"`
	Principal string    `json:"principal"` // Type:name; nobody has another type than User here
	Host      string    `json:"host"`      // an IP address, or "*"
	Operation Operation `json:"operation"`
	Effect    Effect    `json:"effect"`
}

// maxField bounds the strings of a rule.
const maxField = 1 << 10

// Canonical gives a new rule as it is to be kept, its host in the spelling of Host, or says what is wrong with it. A
// host that is no address is refused: a rule that denies would deny nobody.
func (r Rule) Canonical() (Rule, error) {
	if err := r.Validate(); err != nil {
		return r, err
	}
	if err := checkHost(r.Host); err != nil {
		return r, err
	}
	r.Host = Host(r.Host)
	return r, nil
}

// Validate says what is wrong with a rule that is kept. Its host may be in any spelling: earlier versions kept it as
// it came.
func (r Rule) Validate() error {
	switch {
	case r.Kind < Topic || r.Kind > TransactionalID:
		return fmt.Errorf("%s: want Topic, Group, Cluster or TransactionalId", r.Kind)
	case r.Pattern != Literal && r.Pattern != Prefixed:
		return fmt.Errorf("pattern type %d: want literal or prefixed", r.Pattern)
	case r.Name == "":
		return errors.New("the resource has no name")
	case r.Kind == Cluster && (r.Name != ClusterName || r.Pattern != Literal):
		return fmt.Errorf("the cluster is named %q, not %q", ClusterName, r.Name)
	case r.Operation < All || r.Operation > IdempotentWrite:
		return fmt.Errorf("%s is not known", r.Operation)
	case r.Effect != Allow && r.Effect != Deny:
		return fmt.Errorf("permission type %d: want allow or deny", r.Effect)
	case r.Host == "":
		return errors.New("the rule has no host: want an address or *")
	case len(r.Name) > maxField || len(r.Principal) > maxField || len(r.Host) > maxField:
		return fmt.Errorf("name, principal or host is longer than %d bytes", maxField)
	}
	if kind, name, ok := strings.Cut(r.Principal, ":"); !ok || kind == "" || name == "" {
		return fmt.Errorf("principal %q: want Type:name, like User:ann", r.Principal)
	}
	return nil
}

// is says whether a rule is about somebody on some host, both spelled as Host does.
func (r *Rule) is(principal, host string) bool {
	return (r.Principal == principal || r.Principal == anybody) && (r.Host == host || r.Host == Wildcard)
}

// covers says whether a rule speaks of an operation.
func (r *Rule) covers(op Operation) bool {
	if r.Operation == op || r.Operation == All {
		return true
	}
	if r.Effect != Allow {
		return false
	}
	switch op {
	case Describe:
		return r.Operation == Read || r.Operation == Write || r.Operation == Delete || r.Operation == Alter
	case DescribeConfigs:
		return r.Operation == AlterConfigs
	}
	return false
}

// Filter names rules. Nil strings and Any values match everything.
type Filter struct {
	Kind            Kind
	Name            *string
	Pattern         Pattern
	Principal, Host *string // an address matches in every spelling
	Operation       Operation
	Effect          Effect
}

// Validate says what is wrong with a filter.
func (f Filter) Validate() error {
	switch {
	case f.Kind < AnyKind || f.Pattern < AnyPattern || f.Pattern > Prefixed || f.Operation < AnyOperation || f.Effect < AnyEffect || f.Effect > Allow:
		return errors.New("the filter has a value that is not known")
	case f.Host != nil:
		return checkHost(*f.Host)
	}
	return nil
}

// matches says whether a filter names a rule, both with their hosts as Host spells them.
func (f Filter) matches(r Rule) bool {
	same := func(want *string, got string) bool { return want == nil || *want == got }
	return (f.Kind == AnyKind || f.Kind == r.Kind) && f.matchesName(r) &&
		same(f.Principal, r.Principal) && same(f.Host, r.Host) &&
		(f.Operation == AnyOperation || f.Operation == r.Operation) && (f.Effect == AnyEffect || f.Effect == r.Effect)
}

func (f Filter) matchesName(r Rule) bool {
	switch {
	case f.Pattern == Literal || f.Pattern == Prefixed:
		return f.Pattern == r.Pattern && (f.Name == nil || *f.Name == r.Name)
	case f.Name == nil:
		return true
	case f.Pattern == AnyPattern:
		return *f.Name == r.Name
	case r.Pattern == Prefixed:
		return strings.HasPrefix(*f.Name, r.Name)
	}
	return r.Name == *f.Name || r.Name == Wildcard
}
