package acl

import (
	"fmt"
	"net/netip"
)

// Host gives the one spelling of an address that rules and connections are compared in: that of RFC 5952, IPv4 behind
// ::ffff: as IPv4, without a zone. What is no address stays as it is.
func Host(s string) string {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return s
	}
	return a.Unmap().WithZone("").String()
}

// checkHost says what is wrong with the host of a rule or a filter.
func checkHost(s string) error {
	if s == Wildcard {
		return nil
	}
	if a, err := netip.ParseAddr(s); err != nil || a.Zone() != "" {
		return fmt.Errorf("host %.64q is no address: want one like 10.0.0.1 or 2001:db8::1 (no name, network or zone), or *", s)
	}
	return nil
}
