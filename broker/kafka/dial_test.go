package kafka

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Dial logs in by each mechanism, and says what is wrong where it cannot.
func TestDial(t *testing.T) {
	c := newCluster(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser(Plain, "ann", "pass"), kfake.Superuser(ScramSHA256, "ann", "pass"), kfake.Superuser(ScramSHA512, "ann", "pass"))
	for _, mechanism := range []string{Plain, ScramSHA256, ScramSHA512} {
		for password, want := range map[string]string{"pass": "", "other": "log in to kafka at " + c.ListenAddrs()[0] + " by " + mechanism} {
			cfg := Config{Brokers: c.ListenAddrs(), SASL: SASL{Mechanism: mechanism, User: "ann", Password: password}}
			conn, _, err := cfg.Dial(testCtx(t), c.ListenAddrs()[0])
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s with password %q: error %v, want %q", mechanism, password, err, want)
			}
			if err == nil {
				_ = conn.Close()
			}
		}
	}
	cfg := Config{Brokers: []string{"127.0.0.1:1"}}
	if _, _, err := cfg.Dial(testCtx(t), "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("nobody listens: error %v", err)
	}
}
