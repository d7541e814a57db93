package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// parseIngest gives what a command line means, without running it.
func parseIngest(t *testing.T, args ...string) (*ingestFlags, error) {
	t.Helper()
	f := &ingestFlags{}
	cmd := newIngest()
	cmd.ResetFlags()
	f.register(cmd.Flags())
	cmd.Flags().String("config", "", "")
	cmd.Flags().String("log-level", "info", "")
	if err := cmd.ParseFlags(args); err != nil {
		return nil, err
	}
	if err := bindConfig(cmd); err != nil {
		return nil, err
	}
	return f, f.old.takeOver(cmd, cmd.Flags().Args(), f)
}

// The command line and the environment of kafka-delta-ingest mean here what they meant there.
func TestOldCommandLine(t *testing.T) {
	f, err := parseIngest(t, "web", "/lake/web")
	p := &f.stream.plan
	if err != nil || p.topic != "web" || p.tableURL != "/lake/web" || p.app != "kafka_delta_ingest" || f.stream.group.name != "kafka_delta_ingest" ||
		!slices.Equal(f.conn.brokers, []string{"localhost:9092"}) || p.tiering.MaxAge != 300*time.Second || p.tiering.MaxBytes != 134217728 ||
		f.start != "earliest" || !p.tiering.AsItIs || p.tiering.UntilEnd || f.statsd != nil {
		t.Errorf("defaults: %v %+v", err, f)
	}
	f, err = parseIngest(t, "web", "/lake/web", "-k", "a:1,b:2", "-g", "grp", "-a", "app", "--seek_offsets", `{"0":5}`, "-o", "latest", "-l", "60",
		"-m", "1000", "-b", "1048576", "-c", "-K", "session.timeout.ms=6000", "-K", "client.id=x=y", "-s", "127.0.0.1:8125", "--dlq_table_location", "/lake/dlq", "--json", "",
		"--dlq_transform", "day date: timestamp")
	p = &f.stream.plan
	if err != nil || !slices.Equal(f.conn.brokers, []string{"a:1", "b:2"}) || f.stream.group.name != "grp" || p.app != "app" || f.stream.start.Seek[0] != 5 ||
		f.start != "latest" || p.tiering.MaxAge != time.Minute || p.tiering.MaxBytes != 1<<20 || f.stream.group.session != 6*time.Second ||
		f.statsd == nil || f.statsd.Addr != "127.0.0.1:8125" || p.deadLetters() != "/lake/dlq" || len(p.tiering.LetterTransform.Set) != 1 || p.tiering.LetterTransform.Set[0].Type != "date" || p.format != "json" {
		t.Errorf("flags: %v %+v", err, f)
	}
	if f, err = parseIngest(t, "web", "/lake/web", "-e"); err != nil || !f.stream.plan.tiering.UntilEnd || f.stream.group.name != "" {
		t.Errorf("-e: %v %+v", err, f)
	}
}

func TestOldEnvironment(t *testing.T) {
	for name, v := range map[string]string{"KAFKA_TOPIC": "web", "TABLE_LOCATION": "/lake/web", "KAFKA_BROKERS": "a:1", "APP_ID": "env", "ALLOWED_LATENCY": "7",
		"ENDS_AT_LATEST_OFFSETS": "yes", "WRITE_CHECKPOINTS": "0", "RUST_LOG": "WARN", "LEDGERLAKE_FLUSH_BYTES": "99"} {
		t.Setenv(name, v)
	}
	f, err := parseIngest(t, "--app_id", "flag")
	p := &f.stream.plan
	if err != nil || p.topic != "web" || p.app != "flag" || f.conn.brokers[0] != "a:1" || p.tiering.MaxAge != 7*time.Second || !p.tiering.UntilEnd ||
		f.old.checkpoint || p.tiering.MaxBytes != 99 {
		t.Errorf("%v %+v", err, f)
	}
	// The old variables are not for who does not use the old form.
	if f, err = parseIngest(t, "--topic", "t", "--table", "/t"); err != nil || f.stream.plan.app != "" || f.stream.plan.tiering.UntilEnd || f.conn.brokers[0] == "a:1" {
		t.Errorf("%v %+v", err, f)
	}
}

func TestOldCommandLineRefused(t *testing.T) {
	for line, want := range map[string]string{
		"web":                             "a table is needed",
		"web /t --topic x":                "twice",
		"web /t -K queued.min.messages=1": "queued.min.messages",
		"web /t -o sometime":              "earliest or latest",
		"web /t --seek_offsets nothing":   "seek offsets",
		"web /t -k a:1 --brokers b:1":     "--kafka and --brokers",
		"web /t -l 100000":                "--allowed-latency",
		"web /t -t x":                     "PROPERTY: SOURCE",
		"web /t --dlq_transform x":        "--dlq-transform: ",
	} {
		if _, err := parseIngest(t, strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}
