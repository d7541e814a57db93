package main

import (
	"strings"
	"testing"
)

// What does not go with a gateway is refused before anything is opened, with the flag's name and what to do.
func TestGatewayFlags(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		err  string
	}{
		"no lake":               {"", "--lake"},
		"a topic":               {"--lake l --topic a", "--topic does not go with --upstream"},
		"retention":             {"--lake l --retention-age 1h", "--retention-age"},
		"rules":                 {"--lake l --kafka-acls deny --kafka-super-users User:a", "--kafka-acls"},
		"our user for everyone": {"--lake l --kafka-listen 0.0.0.0:9092 --sasl-user a --sasl-password b", "--kafka-users"},
		"a certificate of ours": {"--lake l --kafka-listen :9092 --tls-cert c --tls-key k", "--insecure"},
		"a path":                {"--lake l --upstream kafka://127.0.0.1:1/topic", "want kafka://"},
		"no scheme":             {"--lake l --upstream 127.0.0.1:1", "want kafka://"},
		"a bad mechanism":       {"--lake l --sasl-user a --sasl-mechanism NTLM", "NTLM"},
		"Pulsar, a topic":       {"--lake l --upstream pulsar://127.0.0.1:1/a/b/c --topic a", "--topic does not go with --upstream"},
		"Pulsar, no topic":      {"--lake l --upstream pulsar://127.0.0.1:1", "want pulsar://host:port/tenant/namespace/topic"},
		"Pulsar, a bad pattern": {"--lake l --upstream pulsar://127.0.0.1:1/a/b/~(", "topic pattern"},
		"Pulsar, our token":     {"--lake l --upstream pulsar://127.0.0.1:1/a/b/c --pulsar-token t --kafka-listen :9092", "--kafka-users"},
		"Pulsar, nobody there":  {"--lake l --upstream pulsar://127.0.0.1:1/a/b/c", "connect to pulsar"},
		"no topics there":       {"--lake-table s --upstream pulsar://127.0.0.1:1/a/b/c", "--lake-table is for"},
		"a shared table alone":  {"--lake-table s --kafka-listen 127.0.0.1:0", "does not answer"},
		"nobody there":          {"--lake l --kafka-listen 127.0.0.1:0", "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRoot()
			root.SetArgs(append([]string{"serve", "--log-level", "error", "--upstream", "kafka://127.0.0.1:1"}, strings.Fields(c.args)...))
			err := root.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "\n\n") {
				t.Errorf("%s: error %v, want one that names %q", c.args, err, c.err)
			}
		})
	}
}
