// Package acl decides by Kafka's access rules who may do what.
//
// A Set is immutable: changes give a new one, and whoever holds the old one goes on with it. The semantics are those
// of Kafka's own authorizer (KIP-11, KIP-290 for prefixes, KIP-679 for ByType): super users may everything; a
// rule that denies wins over all that allow; what no rule speaks of is decided by Set.Open. Read, Write, Delete and
// Alter imply Describe, and AlterConfigs implies DescribeConfigs, in rules that allow; a rule that denies denies what
// it says alone. Hosts are compared as addresses, whatever their spelling. Numbers of kinds, operations and patterns are
// those of the wire.
package acl
