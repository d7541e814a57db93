package harness

import (
	"fmt"
	"net"
	"testing"
)

// FreePort gives a loopback port whose next `more` ports at distance 1000 are free too. They are this test's until it
// ends, whatever starts and stops on them: no other test, of this process or another, gets one of them.
func FreePort(t testing.TB, more int) int {
	t.Helper()
	for range 1000 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		// Low ports are not given to outgoing connections, so nobody takes them in between.
		if port = 20000 + port%9000; reserve(t, port, more) {
			return port
		}
	}
	t.Fatal("no free port in 1000 tries")
	return 0
}

// reserve takes ports for the test. The UDP port of the same number is the mark of who has one: the kernel gives it to one
// process, and takes it back however that ends.
func reserve(t testing.TB, port, more int) bool {
	var marks []net.PacketConn
	give := func() {
		for _, m := range marks {
			_ = m.Close()
		}
	}
	for i := range more + 1 {
		addr := fmt.Sprintf("127.0.0.1:%d", port+1000*i)
		m, err := net.ListenPacket("udp", addr)
		if err == nil {
			marks = append(marks, m)
			var l net.Listener
			if l, err = net.Listen("tcp", addr); err == nil {
				_ = l.Close()
			}
		}
		if err != nil {
			give()
			return false
		}
	}
	t.Cleanup(give)
	return true
}
