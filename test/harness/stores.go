package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// DynamoPython gives the interpreter with the last delta-rs that orders commits by a lock table in DynamoDB.
func DynamoPython(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(cache(t), "venv-dynamo")
	if _, err := os.Stat(filepath.Join(dir, "installed")); err != nil {
		Missing(t, "the Python environment of the lock table's tests", "run 'make services'")
	}
	return filepath.Join(dir, "bin", "python")
}

// FormatsPython gives the interpreter with the libraries that write Avro and Protobuf.
func FormatsPython(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(cache(t), "venv-formats")
	if _, err := os.Stat(filepath.Join(dir, "installed")); err != nil {
		Missing(t, "the Python environment of the tests of formats", "run 'make services'")
	}
	return filepath.Join(dir, "bin", "python")
}

// DynamoDB starts a server of the DynamoDB protocol and gives its URL. It is set in the environment, too.
func DynamoDB(t *testing.T) string {
	t.Helper()
	url := npmServer(t, "dynalite")
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", url)
	return url
}

// AzureBlobs starts a server of the Azure Blob Storage protocol and gives its URL.
func AzureBlobs(t *testing.T) string {
	t.Helper()
	return npmServer(t, "azurite")
}

func npmServer(t *testing.T, name string) string {
	t.Helper()
	if found, _ := filepath.Glob(filepath.Join(cache(t), "npm", name+"-*", "installed")); len(found) == 0 {
		Missing(t, "the server "+name, "run 'make services' (it needs Node.js 20 and npm)")
	}
	dir, port := filepath.Join(t.TempDir(), name), FreePort(t, 0)
	ended := serviceEnds(t, script(t, "npm.sh"), "stop", name, dir)
	if _, err := command(t, nil, nil, script(t, "npm.sh"), "start", name, dir, fmt.Sprint(port)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer ended()
		if out, err := exec.Command(script(t, "npm.sh"), "stop", name, dir).CombinedOutput(); err != nil {
			t.Errorf("end %s: %v\n%s", name, err, out)
		}
	})
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}

// Number gives a size of a test that the environment may enlarge.
func Number(t testing.TB, variable string, normal int) int {
	t.Helper()
	n := normal
	if s := os.Getenv(variable); s != "" {
		if _, err := fmt.Sscan(s, &n); err != nil || n < 1 {
			t.Fatalf("%s %q is not a number", variable, s)
		}
	}
	return n
}

// GoogleStorage starts a server of the Google Cloud Storage protocol, with the bucket lake, and gives its URL.
func GoogleStorage(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(cache(t), "bin", "fake-gcs-server")); err != nil {
		Missing(t, "the server of Google's storage protocol", "run 'test/services/fakegcs.sh prepare' (minutes of CPU)")
	}
	dir, port := filepath.Join(t.TempDir(), "gcs"), FreePort(t, 0)
	ended := serviceEnds(t, script(t, "fakegcs.sh"), "stop", dir)
	if _, err := command(t, nil, nil, script(t, "fakegcs.sh"), "start", dir, fmt.Sprint(port)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer ended()
		if out, err := exec.Command(script(t, "fakegcs.sh"), "stop", dir).CombinedOutput(); err != nil {
			t.Errorf("end fake-gcs-server: %v\n%s", err, out)
		}
	})
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}
