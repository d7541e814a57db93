package wire

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Clients of every age speak their own versions of all keys: produce, a group with commits, and reading on.
func TestOldClients(t *testing.T) {
	for name, v := range map[string]*kversion.Versions{
		"0.11": kversion.V0_11_0(), "1.0": kversion.V1_0_0(), "2.0": kversion.V2_0_0(), "2.3": kversion.V2_3_0(),
		"2.4": kversion.V2_4_0(), "2.8": kversion.V2_8_0(), "3.1": kversion.V3_1_0(), "3.9": kversion.V3_9_0(), "4.0": kversion.V4_0_0(),
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, newMemLog(t), nil)
			ctx := within(t, 15*time.Second)
			group := []kgo.Opt{
				kgo.MaxVersions(v), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
				kgo.DisableAutoCommit(), kgo.Balancers(kgo.RangeBalancer()),
			}
			for round := range 2 {
				produce(t, ctx, client(t, s, kgo.MaxVersions(v)), "t", 30)
				cl := client(t, s, group...)
				if got := consume(t, ctx, cl, 30); len(got) != 30 {
					t.Fatalf("round %d: %d records, want 30", round, len(got))
				}
				if err := cl.CommitUncommittedOffsets(ctx); err != nil {
					t.Fatal(err)
				}
				cl.Close()
			}
		})
	}
}

// A server on all addresses tells each client the one that it came to.
func TestAdvertise(t *testing.T) {
	for name, c := range map[string]struct{ listen, advertise, want string }{
		"bound": {"127.0.0.1:0", "", "127.0.0.1"},
		"all":   {"0.0.0.0:0", "", "127.0.0.1"},
		"told":  {"127.0.0.1:0", "kafka.example:0", "kafka.example"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, newMemLog(t), func(cfg *Config) { cfg.Listen, cfg.Advertise = c.listen, c.advertise })
			_, port, err := splitAddr(s.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			nc, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if _, err := nc.Write(frameOf(kmsg.NewPtrMetadataRequest(), 7, 1)); err != nil {
				t.Fatal(err)
			}
			_, body := readAnswer(t, nc)
			resp := kmsg.NewPtrMetadataResponse()
			resp.Version = 7
			if err := resp.ReadFrom(body); err != nil || resp.Brokers[0].Host != c.want || resp.Brokers[0].Port != port {
				t.Fatalf("%+v %v, want %s:%d", resp.Brokers, err, c.want, port)
			}
		})
	}
}
