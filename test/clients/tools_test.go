package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// want fails unless what a tool printed matches each of the expressions.
func want(t *testing.T, who, out string, expressions ...string) {
	t.Helper()
	for _, e := range expressions {
		if !regexp.MustCompile(e).MatchString(out) {
			t.Errorf("%s printed nothing that matches %q:\n%.3000s", who, e, out)
		}
	}
}

// Kafka's own test programs: its client's view of what a broker can do, and a producer and consumers that count what
// they sent and read, in groups of both protocols.
func TestVerifiablePrograms(t *testing.T) {
	need(t)
	s := harness.Serve(t, t.TempDir(), "", "--no-tiering", "--topic", "compat:1", "--topic", "verified:2")
	out := tool(t, "ClientCompatibilityTest", "--bootstrap-server", s.Addr, "--topic", "compat", "--num-cluster-nodes", "1",
		"--offsets-for-times-supported", "true", "--cluster-id-supported", "true", "--expect-record-too-large-exception", "false",
		"--describe-acls-supported", "true", "--create-topics-supported", "true", "--describe-configs-supported", "true",
		"--idempotent-producer-supported", "true")
	want(t, "ClientCompatibilityTest", out, "SUCCESS")
	out = tool(t, "VerifiableProducer", "--bootstrap-server", s.Addr, "--topic", "verified", "--max-messages", "1000", "--acks", "-1")
	want(t, "VerifiableProducer", out, `"sent":1000,"acked":1000`)
	for _, protocol := range []string{"classic", "consumer"} {
		out = tool(t, "VerifiableConsumer", "--bootstrap-server", s.Addr, "--topic", "verified", "--group-id", protocol,
			"--max-messages", "1000", "--reset-policy", "earliest", "--group-protocol", protocol)
		read := 0
		for _, m := range regexp.MustCompile(`"name":"records_consumed"[^}]*?"count":(\d+)|"count":(\d+)[^}]*?"name":"records_consumed"`).FindAllStringSubmatch(out, -1) {
			n := 0
			_, _ = fmt.Sscan(m[1]+m[2], &n)
			read += n
		}
		if read != 1000 {
			t.Errorf("VerifiableConsumer, group protocol %s: %d records, want 1000:\n%.3000s", protocol, read, out)
		}
	}
	out = tool(t, "BrokerApiVersionsCommand", "--bootstrap-server", s.Addr)
	want(t, "BrokerApiVersionsCommand", out, `Produce\(0\): 0 to 13`, `Fetch\(1\): \d+ to 18`, `ConsumerGroupHeartbeat\(68\): 0 to 1`)
}

// operators starts a server with the topic ops, which holds 50 records, and gives the first arguments of every tool.
func operators(t *testing.T) (at []string) {
	t.Helper()
	need(t)
	s := harness.Serve(t, t.TempDir(), "", "--no-tiering", "--topic", "ops:1")
	var values []string
	for i := range 50 {
		values = append(values, fmt.Sprint("value ", i))
	}
	send(t, s.Addr, "ops", values)
	return []string{"--bootstrap-server", s.Addr}
}

// A group is listed, described, moved, and deleted.
func TestGroupTools(t *testing.T) {
	at := operators(t)
	tool(t, "consumer.ConsoleConsumer", append(at, "--topic", "ops", "--group", "readers", "--from-beginning", "--max-messages", "50", "--timeout-ms", "300000")...)
	groups := func(args ...string) string {
		t.Helper()
		return tool(t, "consumer.group.ConsumerGroupCommand", append(at, args...)...)
	}
	want(t, "groups --list", groups("--list"), `(?m)^readers$`)
	want(t, "groups --describe", groups("--describe", "--group", "readers"), `readers +ops +0 +(\S+ +)?50 +50 +0 `)
	want(t, "groups --describe --state", groups("--describe", "--group", "readers", "--state"), `Empty`)
	want(t, "groups --reset-offsets", groups("--reset-offsets", "--group", "readers", "--topic", "ops", "--to-offset", "20", "--execute"), `readers +ops +0 +20`)
	want(t, "groups --describe", groups("--describe", "--group", "readers"), `readers +ops +0 +(\S+ +)?20 +50 +30 `)
	want(t, "groups --delete-offsets", groups("--delete-offsets", "--group", "readers", "--topic", "ops"), `Successful`)
	want(t, "groups --delete", groups("--delete", "--group", "readers"), `(?i)success`)
	if out := groups("--list"); strings.Contains(out, "readers") {
		t.Errorf("a deleted group is listed: %q", out)
	}
}

// Settings of topics and brokers, credentials of users and quotas of clients are set and shown.
func TestConfigTools(t *testing.T) {
	at := operators(t)
	configs := func(args ...string) string { t.Helper(); return tool(t, "ConfigCommand", append(at, args...)...) }
	configs("--alter", "--entity-type", "topics", "--entity-name", "ops", "--add-config", "retention.ms=86400000")
	want(t, "configs of a topic", configs("--describe", "--entity-type", "topics", "--entity-name", "ops"), `retention.ms=86400000`)
	broker := []string{"--entity-type", "brokers", "--entity-name", "0"}
	configs(append(broker, "--alter", "--add-config", "log.retention.ms=7200000,log.segment.bytes=2097152")...)
	configs("--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "log.retention.ms=10800000,log.cleanup.policy=[compact,delete]")
	want(t, "configs of a broker", configs(append(broker, "--describe")...), `log.segment.bytes=2097152 `,
		`log.retention.ms=7200000 .*\{DYNAMIC_BROKER_CONFIG:log.retention.ms=7200000, DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=10800000, DEFAULT_CONFIG:log.retention.ms=-1\}`)
	want(t, "configs of all brokers", configs("--describe", "--entity-type", "brokers", "--entity-default"), `log.retention.ms=10800000 `, `log.cleanup.policy=compact,delete `)
	want(t, "configs of a topic", configs("--describe", "--all", "--entity-type", "topics", "--entity-name", "ops"), `cleanup.policy=compact,delete `, `segment.bytes=2097152 `,
		`retention.ms=86400000 .*\{DYNAMIC_TOPIC_CONFIG:retention.ms=86400000, DYNAMIC_BROKER_CONFIG:log.retention.ms=7200000, `)
	configs(append(broker, "--alter", "--delete-config", "log.retention.ms,log.segment.bytes")...)
	if out := configs(append(broker, "--describe", "--all")...); strings.Contains(out, "7200000") || !strings.Contains(out, "log.retention.ms=10800000 ") {
		t.Errorf("what was deleted of a broker: %s", out)
	}
	configs("--alter", "--entity-type", "users", "--entity-name", "ann", "--add-config", "SCRAM-SHA-256=[iterations=4096,password=secret],SCRAM-SHA-512=[password=secret]")
	want(t, "configs of a user", configs("--describe", "--entity-type", "users", "--entity-name", "ann"), `SCRAM-SHA-256=iterations=4096`, `SCRAM-SHA-512=iterations=4096`)
	configs("--alter", "--entity-type", "clients", "--entity-name", "greedy", "--add-config", "producer_byte_rate=1000000")
	want(t, "configs of a client", configs("--describe", "--entity-type", "clients", "--entity-name", "greedy"), `producer_byte_rate=1000000`)
}

// What is sent in one codec is kept in another when the topic says so: Kafka's own tool sets it and reads it in the segment files,
// and its consumer reads all of it (I4).
func TestCompressionTool(t *testing.T) {
	need(t)
	dir := t.TempDir()
	s := harness.Serve(t, dir, "", "--no-tiering", "--topic", "packed:1")
	at := []string{"--bootstrap-server", s.Addr}
	var values []string
	for i := range 50 {
		values = append(values, fmt.Sprint("a value that repeats, a value that repeats, ", i))
	}
	kinds := []string{"gzip", "snappy", "lz4", "zstd", "uncompressed"}
	for _, kind := range kinds {
		tool(t, "ConfigCommand", append(at, "--alter", "--entity-type", "topics", "--entity-name", "packed", "--add-config", "compression.type="+kind)...)
		send(t, s.Addr, "packed", values)
	}
	want(t, "configs of a topic", tool(t, "ConfigCommand", append(at, "--describe", "--entity-type", "topics", "--entity-name", "packed")...), `compression.type=uncompressed`)
	out := tool(t, "consumer.ConsoleConsumer", append(at, "--topic", "packed", "--from-beginning", "--max-messages", fmt.Sprint(len(kinds)*len(values)), "--timeout-ms", "300000")...)
	if got, all := strings.Split(strings.TrimSpace(out), "\n"), slices.Repeat(values, len(kinds)); !slices.Equal(got, all) {
		t.Errorf("Kafka's consumer read %d values, want %d:\n%.2000s", len(got), len(all), out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "log", "data", "packed-0", "*.log"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	dump := tool(t, "DumpLogSegments", "--files", files[0])
	for _, kind := range append(kinds[:4:4], "none") {
		want(t, "DumpLogSegments", dump, `compresscodec: `+kind)
	}
}

// Offsets by special times, before and after records are deleted.
func TestOffsetTools(t *testing.T) {
	at := operators(t)
	offsets := func(time string) string {
		t.Helper()
		return strings.TrimSpace(tool(t, "GetOffsetShell", append(at, "--topic", "ops", "--time", time)...))
	}
	for time, end := range map[string]string{"-1": "50", "-2": "0", "-4": "0"} {
		if got := offsets(time); got != "ops:0:"+end {
			t.Errorf("GetOffsetShell --time %s: %q, want ops:0:%s", time, got, end)
		}
	}
	want(t, "GetOffsetShell --time -3", offsets("-3"), `^ops:0:\d+$`)
	deletions := filepath.Join(t.TempDir(), "deletions.json")
	if err := os.WriteFile(deletions, []byte(`{"partitions":[{"topic":"ops","partition":0,"offset":10}],"version":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, "DeleteRecordsCommand", tool(t, "DeleteRecordsCommand", append(at, "--offset-json-file", deletions)...), `ops-0\s+low_watermark: 10`)
	if got := offsets("-2"); got != "ops:0:10" {
		t.Errorf("GetOffsetShell --time -2 after the deletion: %q", got)
	}
}

// Topics get partitions and are deleted; directories and features are shown; what one node has no answer for is refused
// in words.
func TestTopicAndClusterTools(t *testing.T) {
	at := operators(t)
	want(t, "LogDirsCommand", tool(t, "LogDirsCommand", append(at, "--describe", "--topic-list", "ops")...), `"partition":"ops-0","size":[1-9]`)
	tool(t, "TopicCommand", append(at, "--alter", "--topic", "ops", "--partitions", "3")...)
	want(t, "TopicCommand --describe", tool(t, "TopicCommand", append(at, "--describe", "--topic", "ops")...), `PartitionCount: 3`, `Partition: 2\s+Leader: 0`)
	want(t, "FeatureCommand", tool(t, "FeatureCommand", append(at, "describe")...), `transaction.version`)
	tool(t, "TopicCommand", append(at, "--delete", "--topic", "ops")...)
	if out := tool(t, "TopicCommand", append(at, "--list")...); strings.Contains(out, "ops") {
		t.Errorf("a deleted topic is listed: %q", out)
	}
	// There is no quorum to describe: the tool must end with a word of why, and not hang.
	cmd := exec.CommandContext(t.Context(), script(t, "kafka.sh"), append([]string{"tool", "org.apache.kafka.tools.MetadataQuorumCommand"}, append(at, "describe", "--status")...)...)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "UnsupportedVersionException") {
		t.Errorf("MetadataQuorumCommand: %v, %.2000s", err, out)
	}
}

// A user made with Kafka's tool logs in with a Java client, by both mechanisms; a wrong password does not.
func TestUserMadeByTool(t *testing.T) {
	need(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	properties := func(user, password, mechanism string) string {
		return write(user+password+mechanism, fmt.Sprintf("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=%s\n"+
			"sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username=\"%s\" password=\"%s\";\n", mechanism, user, password))
	}
	s := harness.Serve(t, t.TempDir(), "", "--no-tiering", "--topic", "t:1", "--kafka-users", write("users", "root:toor\n"))
	at := []string{"--bootstrap-server", s.Addr, "--command-config"}
	tool(t, "ConfigCommand", append(at, properties("root", "toor", "SCRAM-SHA-512"), "--alter", "--entity-type", "users", "--entity-name", "ann",
		"--add-config", "SCRAM-SHA-256=[iterations=8192,password=pw],SCRAM-SHA-512=[password=pw]")...)
	for _, m := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		want(t, "TopicCommand as ann", tool(t, "TopicCommand", append(at, properties("ann", "pw", m), "--list")...), `(?m)^t$`)
	}
	cmd := exec.CommandContext(t.Context(), script(t, "kafka.sh"), append([]string{"tool", "org.apache.kafka.tools.TopicCommand"},
		append(at, properties("ann", "wrong", "SCRAM-SHA-256"), "--list")...)...)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "SaslAuthenticationException") {
		t.Errorf("with a wrong password: %v, %.2000s", err, out)
	}
}
