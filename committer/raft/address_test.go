package raft

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// Loopback is the host of this process's nodes: one of the millions of loopback, where the system has them. Ports of other
// programs, and those of outgoing connections, which come from 127.0.0.1, are not in the way of a node that comes back there.
var Loopback = ownLoopback()

func ownLoopback() string {
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "127.0.0.1"
	}
	_ = ln.Close()
	return host
}

// FreeAddr is an address of Loopback where nobody listens, another one at each call.
func FreeAddr(t *testing.T) string {
	t.Helper()
	for {
		ln, err := net.Listen("tcp", net.JoinHostPort(Loopback, "0"))
		if err != nil {
			t.Fatal(err)
		}
		addr := ln.Addr().String()
		_ = ln.Close()
		if _, twice := given.LoadOrStore(addr, true); !twice {
			return addr
		}
	}
}

var given sync.Map // addresses
