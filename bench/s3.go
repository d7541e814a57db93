package bench

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore/openstore"
)

// s3Node is an S3 server that the bench has started: versitygw over a folder, with one bucket, "lake".
type s3Node struct {
	endpoint string
	bucket   string // the folder in which the bucket's objects lie
	log      string // a line a request
	opts     openstore.Options
	env      []string // by which other programs find it
}

// startS3 starts the server below a scratch directory; ok is false when it is not installed. Requests are written down
// when they are to be counted.
func startS3(ctx context.Context, scratch string, counted bool) (n *s3Node, stop func(), ok bool, err error) {
	server, ok := installed("bin", "versitygw")
	if !ok {
		return nil, func() {}, false, nil
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, nil, true, err
	}
	data := filepath.Join(scratch, "s3")
	n = &s3Node{
		endpoint: "http://" + addr, bucket: filepath.Join(data, "lake"), log: filepath.Join(scratch, "s3.log"),
		opts: openstore.Options{S3Endpoint: "http://" + addr, S3Region: "us-east-1", S3PathStyle: true, S3AccessKey: "benchkey", S3SecretKey: "benchsecret"},
		env: []string{
			"AWS_ENDPOINT_URL=http://" + addr, "AWS_ACCESS_KEY_ID=benchkey", "AWS_SECRET_ACCESS_KEY=benchsecret", "AWS_REGION=us-east-1",
			"AWS_ALLOW_HTTP=true", "AWS_EC2_METADATA_DISABLED=true",
		},
	}
	if err := os.MkdirAll(n.bucket, 0o755); err != nil {
		return nil, nil, true, fmt.Errorf("make bucket: %w", err)
	}
	args := []string{"--port", addr, "--access", "benchkey", "--secret", "benchsecret", "--region", "us-east-1", "--keep-alive", "--quiet"}
	if counted {
		args = append(args, "--access-log", n.log)
	}
	cmd := exec.Command(server, append(args, "posix", data)...)
	if err := cmd.Start(); err != nil {
		return nil, nil, true, fmt.Errorf("start versitygw: %w", err)
	}
	stop = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	for try := 0; ; try++ {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			return n, stop, true, c.Close()
		}
		if try > 600 || ctx.Err() != nil {
			stop()
			return nil, nil, true, fmt.Errorf("versitygw does not listen: %w", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// requests counts by kind what was asked of the server for the objects below a prefix.
func (n *s3Node) requests(prefix string) (map[string]int64, error) {
	f, err := os.Open(n.log)
	if err != nil {
		return nil, fmt.Errorf("requests of the store: %w", err)
	}
	defer f.Close()
	return countRequests(bufio.NewScanner(f), prefix)
}

// countRequests reads lines in the form of S3's server access log: after "s3_" the operation, the key, and the target. A
// listing has no key, and names its prefix in the target.
func countRequests(lines *bufio.Scanner, prefix string) (map[string]int64, error) {
	out := map[string]int64{}
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		_, rest, ok := strings.Cut(lines.Text(), " s3_")
		if !ok {
			continue
		}
		f := strings.Fields(rest)
		if len(f) < 3 {
			continue
		}
		listed := strings.HasPrefix(f[0], "List") && strings.Contains(strings.ReplaceAll(f[2], "%2F", "/"), "prefix="+prefix)
		if listed || strings.HasPrefix(f[1], prefix) {
			out[f[0]]++
		}
	}
	return out, lines.Err()
}
