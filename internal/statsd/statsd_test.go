package statsd

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

func receive(t *testing.T, pc net.PacketConn) string {
	t.Helper()
	buf := make([]byte, 65536)
	if err := pc.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	n, _, err := pc.ReadFrom(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func TestLines(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	c, err := Dial(pc.LocalAddr().String(), "old", "topic:a,b", "env:x")
	if err != nil {
		t.Fatal(err)
	}
	send := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	send(c.Count("n", 3), c.Count("none", 0), c.Gauge("g", 7), c.Gauge("below", -2), c.Timing("t", 1500*time.Microsecond), c.Count("x:y|z", 1), c.Flush())
	const tags = "|#topic:a_b,env:x"
	want := strings.Join([]string{"old.n:3|c", "old.g:7|g", "old.below:0|g", "old.below:-2|g", "old.t:1.5|ms", "old.x_y_z:1|c"}, tags+"\n") + tags
	if got := receive(t, pc); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for i := range 100 {
		send(c.Count(fmt.Sprintf("some.long.name.of.a.counter.%d", i), 1))
	}
	send(c.Close())
	lines := 0
	for lines < 100 {
		p := receive(t, pc)
		if len(p) > packet {
			t.Fatalf("a packet of %d bytes", len(p))
		}
		lines += strings.Count(p, "\n") + 1
	}
	if lines != 100 {
		t.Errorf("%d lines", lines)
	}
}
