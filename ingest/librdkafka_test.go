package ingest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker/kafka"
)

func client(t *testing.T, settings ...string) *Client {
	t.Helper()
	c := &Client{}
	for _, s := range settings {
		if err := c.Set(s); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestSettings(t *testing.T) {
	c := client(t, "client.id=me", "session.timeout.ms=6000", "group.instance.id=w1", "socket.timeout.ms = 5000",
		"metadata.max.age.ms=1000", "fetch.max.bytes=1048576", "auto.offset.reset=largest", "isolation.level=read_committed",
		"enable.auto.commit=false", "partition.assignment.strategy=cooperative-sticky")
	var cfg kafka.Config
	if err := c.Apply(&cfg); err != nil {
		t.Fatal(err)
	}
	if cfg.ClientID != "me" || c.SessionTimeout != 6*time.Second || c.InstanceID != "w1" || cfg.RequestTimeout != 5*time.Second ||
		cfg.MetadataMaxAge != time.Second || cfg.MaxFetchBytes != 1<<20 || c.OffsetReset != "latest" || cfg.TLS != nil || cfg.SASL != (kafka.SASL{}) {
		t.Errorf("%+v %+v", c, cfg)
	}
}

// A setting that cannot be honoured is refused by its name: it is never quietly dropped (I8).
func TestSettingsRefused(t *testing.T) {
	for setting, want := range map[string]string{
		"queued.max.messages.kbytes=1":        "--memory",
		"sasl.kerberos.service.name=kafka":    "Kerberos",
		"sasl.mechanisms=GSSAPI":              "SCRAM-SHA-512",
		"isolation.level=read_uncommitted":    "only read_committed",
		"partition.assignment.strategy=range": "only cooperative-sticky",
		"enable.auto.commit=true":             "positions are in the table",
		"bootstrap.servers=x:1":               "--kafka",
		"session.timeout.ms=soon":             "milliseconds",
		"no.such.thing=1":                     "no.such.thing",
		"client.id":                           "NAME=VALUE",
	} {
		c := &Client{}
		if err := c.Set(setting); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to say %q", setting, err, want)
		}
	}
}

func TestSecurity(t *testing.T) {
	for _, tt := range []struct {
		settings []string
		env      map[string]string
		want     string // of the error; empty: taken
	}{
		{settings: []string{"security.protocol=SASL_SSL", "sasl.mechanisms=scram-sha-512", "sasl.username=u", "sasl.password=p=x"}},
		{settings: []string{"security.protocol=sasl_plaintext", "sasl.mechanism=PLAIN"}, env: map[string]string{"KAFKA_DELTA_INGEST_SCRAM_JSON": `{"username":"u","password":"p=x"}`}},
		{settings: []string{"security.protocol=sasl_ssl", "sasl.mechanism=PLAIN"}, want: "sasl.username"},
		{settings: []string{"security.protocol=sasl_ssl", "sasl.username=u"}, want: "sasl.mechanisms"},
		{settings: []string{"sasl.username=u"}, want: "security.protocol"},
		{settings: []string{"ssl.ca.location=/x"}, want: "security.protocol"},
		{settings: []string{"security.protocol=ssl", "ssl.ca.location=/no/such/file"}, want: "/no/such/file"},
		{settings: []string{"security.protocol=ssl", "ssl.ca.pem=no pem"}, want: "not PEM"},
		{settings: []string{"security.protocol=ssl"}, env: map[string]string{"KAFKA_DELTA_INGEST_CERT": "x"}, want: "go together"},
		{settings: []string{"security.protocol=ssl", "enable.ssl.certificate.verification=false"}},
		{env: map[string]string{"KAFKA_DELTA_INGEST_SCRAM_JSON": `secret`}, want: "KAFKA_DELTA_INGEST_SCRAM_JSON"},
	} {
		c := client(t, tt.settings...)
		var cfg kafka.Config
		err := c.Environment(func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok })
		if err == nil {
			err = c.Apply(&cfg)
		}
		switch {
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%v %v: %v, want %q", tt.settings, tt.env, err, tt.want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("the error shows a secret: %v", err)
		case tt.want == "" && strings.Contains(strings.ToLower(strings.Join(tt.settings, " ")), "ssl") != (cfg.TLS != nil):
			t.Errorf("%v: TLS %v", tt.settings, cfg.TLS)
		case tt.want == "" && strings.Contains(strings.Join(tt.settings, " "), "mechanism") && (cfg.SASL.User != "u" || cfg.SASL.Password != "p=x"):
			t.Errorf("%v: %+v", tt.settings, cfg.SASL)
		}
	}
}

// Each setting that is taken stands in the page for those who migrate,.
func TestSettingsAreDocumented(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "docs", "kafka-delta-ingest.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range settings {
		if !strings.Contains(string(raw), "`"+name+"`") {
			t.Errorf("docs/kafka-delta-ingest.md does not speak of %s", name)
		}
	}
}

// The tests that the page names as its proof are there.
func TestThePageNamesRealTests(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "docs", "kafka-delta-ingest.md"))
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	err = filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(src), -1) {
			have[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(raw), -1)
	if len(named) < 50 {
		t.Errorf("the page names only %d tests", len(named))
	}
	for _, m := range named {
		if !have[m[1]] {
			t.Errorf("there is no %s", m[1])
		}
	}
}
