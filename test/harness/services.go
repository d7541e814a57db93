package harness

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Missing ends a test that needs what is not there: it is skipped, or failed when CI=true.
func Missing(t testing.TB, what, remedy string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing, and CI=true: %s", what, remedy)
	}
	t.Skipf("%s is missing: %s", what, remedy)
}

// cache is the folder of installed services.
func cache(t testing.TB) string {
	if dir := os.Getenv("LEDGERLAKE_CACHE"); dir != "" {
		return dir
	}
	return filepath.Join(Top(t), ".cache")
}

func script(t testing.TB, name string) string {
	return filepath.Join(Top(t), "test", "services", name)
}

// Python gives the interpreter of the foreign readers and clients.
func Python(t testing.TB) string {
	t.Helper()
	if !HasPython(t) {
		Missing(t, "the Python environment", "run 'make services'")
	}
	return filepath.Join(cache(t), "venv", "bin", "python")
}

// HasPython says whether the environment of the foreign readers and clients is installed, for tests that are worth
// running without it too.
func HasPython(t testing.TB) bool {
	_, err := os.Stat(filepath.Join(cache(t), "venv", "installed"))
	return err == nil
}

// RunPython runs a script of the test's folder and gives its standard output.
func RunPython(t testing.TB, stdin io.Reader, file string, args ...string) []byte {
	t.Helper()
	out, err := command(t, stdin, []string{"PYTHONDONTWRITEBYTECODE=1"}, Python(t), append([]string{file}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// RealKafka is a running Apache Kafka.
type RealKafka struct {
	Addr string
	dir  string
	port int
}

// NeedKafka skips without Java or the jars of a real Kafka; Kafka does it by itself.
func NeedKafka(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("java"); err != nil && os.Getenv("JAVA_HOME") == "" {
		Missing(t, "Java", "install Java 17")
	}
	if jars, _ := filepath.Glob(filepath.Join(cache(t), "kafka", "*", "kafka-clients-*.jar")); len(jars) == 0 {
		Missing(t, "the Kafka jars", "run 'make services'")
	}
}

// Kafka starts a real Kafka, with one node, that is killed when the test ends.
func Kafka(t testing.TB) *RealKafka {
	t.Helper()
	NeedKafka(t)
	k := &RealKafka{dir: filepath.Join(t.TempDir(), "kafka"), port: FreePort(t, 1)}
	k.Addr = fmt.Sprintf("127.0.0.1:%d", k.port)
	ended := serviceEnds(t, script(t, "kafka.sh"), "kill", k.dir)
	t.Cleanup(func() {
		defer ended()
		// KILL: a clean stop takes seconds, and its data goes with the folder.
		if out, err := exec.Command(script(t, "kafka.sh"), "kill", k.dir).CombinedOutput(); err != nil {
			t.Errorf("end Kafka: %v\n%s", err, out)
		}
	})
	k.Start(t)
	return k
}

// LogDir is where the node keeps the segments of its topics.
func (k *RealKafka) LogDir() string { return filepath.Join(k.dir, "data") }

// Kill ends the node at once.
func (k *RealKafka) Kill(t testing.TB) {
	t.Helper()
	if _, err := command(t, nil, nil, script(t, "kafka.sh"), "kill", k.dir); err != nil {
		t.Fatal(err)
	}
}

// Start starts the node again after Kill.
func (k *RealKafka) Start(t testing.TB) {
	t.Helper()
	if _, err := command(t, nil, nil, script(t, "kafka.sh"), "start", k.dir, fmt.Sprint(k.port)); err != nil {
		t.Fatal(err)
	}
}

// KafkaTool runs one of Kafka's own command line tools, from org.apache.kafka.tools, and gives what it
// printed and what it complained about. The test ends when the tool fails.
func KafkaTool(t testing.TB, stdin io.Reader, class string, args ...string) (stdout, stderr string) {
	t.Helper()
	NeedKafka(t)
	ctx, cancel := context.WithTimeout(t.Context(), RunTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, script(t, "kafka.sh"), append([]string{"tool", "org.apache.kafka.tools." + class}, args...)...)
	var out, complaints strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdin, &out, &complaints, lastWords
	if err := RunCommand(t, cmd); err != nil {
		t.Fatalf("%s %s: %v\n%s\n%s", class, strings.Join(args, " "), err, out.String(), complaints.String())
	}
	return out.String(), complaints.String()
}

// S3Server is a running S3 server.
type S3Server struct {
	Endpoint string   // http://127.0.0.1:port
	Bucket   string   // exists
	Dir      string   // the bucket's objects are files in it
	Env      []string // NAME=value: the credentials, as AWS clients take them from the environment
}

// S3 starts an S3 server with one bucket. Its credentials are set in the environment of the test.
func S3(t *testing.T) *S3Server {
	t.Helper()
	if _, err := os.Stat(filepath.Join(cache(t), "bin", "versitygw")); err != nil {
		Missing(t, "the S3 server", "run 'LEDGERLAKE_S3=1 make services' (four minutes of CPU)")
	}
	dir, port := filepath.Join(t.TempDir(), "s3"), FreePort(t, 0)
	s := &S3Server{Endpoint: fmt.Sprintf("http://127.0.0.1:%d", port), Bucket: "lake"}
	s.Dir = filepath.Join(dir, "data", s.Bucket)
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ended := serviceEnds(t, script(t, "versitygw.sh"), "stop", dir)
	if _, err := command(t, nil, nil, script(t, "versitygw.sh"), "start", dir, fmt.Sprint(port)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer ended()
		if out, err := exec.Command(script(t, "versitygw.sh"), "stop", dir).CombinedOutput(); err != nil {
			t.Errorf("end the S3 server: %v\n%s", err, out)
		}
	})
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": "testsecret", "AWS_REGION": "us-east-1",
		"AWS_ENDPOINT_URL": s.Endpoint, "AWS_ALLOW_HTTP": "true", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	return s
}

// Kills is how many times a crash test kills: LEDGERLAKE_KILLS, else the default.
func Kills(t testing.TB, normal int) int {
	t.Helper()
	kills := normal
	if s := os.Getenv("LEDGERLAKE_KILLS"); s != "" {
		if _, err := fmt.Sscan(s, &kills); err != nil || kills < 1 {
			t.Fatalf("LEDGERLAKE_KILLS %q is not a number of kills", s)
		}
	}
	return kills
}
