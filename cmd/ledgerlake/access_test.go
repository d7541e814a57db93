package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// PLAIN is offered only where the password cannot be seen, unless the user insists; flags that make no sense
// together are refused.
func TestAccessFlags(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("ann:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lg := slog.New(slog.DiscardHandler)
	for name, c := range map[string]struct {
		flags  accessFlags
		listen string
		plain  bool
		err    string
	}{
		"loopback":           {accessFlags{users: users}, "127.0.0.1:0", true, ""},
		"open":               {accessFlags{users: users}, "0.0.0.0:9092", false, ""},
		"open, insisted":     {accessFlags{users: users, insecure: true}, ":9092", true, ""},
		"open, asked":        {accessFlags{users: users, mechanisms: []string{"PLAIN"}}, "[::]:9092", false, "--insecure"},
		"open, SCRAM":        {accessFlags{users: users, mechanisms: []string{"SCRAM-SHA-256"}}, ":9092", false, ""},
		"mechanisms alone":   {accessFlags{mechanisms: []string{"PLAIN"}}, "127.0.0.1:0", false, "--kafka-users"},
		"session alone":      {accessFlags{session: time.Hour}, "127.0.0.1:0", false, "--kafka-users"},
		"certificate alone":  {accessFlags{cert: "x"}, "127.0.0.1:0", false, "go together"},
		"authority alone":    {accessFlags{clientCA: "x"}, "127.0.0.1:0", false, "needs both"},
		"no such files":      {accessFlags{cert: users + "1", key: users + "2"}, "127.0.0.1:0", false, "--kafka-tls-cert"},
		"no such users":      {accessFlags{users: users + "1"}, "127.0.0.1:0", false, "--kafka-users"},
		"negative session":   {accessFlags{users: users, session: -1}, "127.0.0.1:0", false, "--kafka-session"},
		"rules":              {accessFlags{users: users, acls: "deny", superUsers: []string{"User:ann"}}, "127.0.0.1:0", true, ""},
		"rules for nobody":   {accessFlags{users: users, acls: "deny"}, "127.0.0.1:0", false, "--kafka-super-users"},
		"open rules":         {accessFlags{acls: "allow"}, ":9092", false, ""},
		"super users alone":  {accessFlags{superUsers: []string{"User:ann"}}, ":9092", false, "--kafka-acls"},
		"rules, misspelt":    {accessFlags{acls: "denny"}, ":9092", false, "denny"},
		"nothing, anywhere":  {accessFlags{}, ":9092", false, ""},
		"nothing, loopback":  {accessFlags{}, "localhost:9092", false, ""},
		"insecure by itself": {accessFlags{insecure: true}, ":9092", false, ""},
	} {
		if c.flags.timeout == 0 {
			c.flags.timeout = time.Second
		}
		got, err := c.flags.open(c.listen, lg)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: error %v, want %q", name, err, c.err)
		}
		if err == nil && slices.Contains(got.mechanisms, "PLAIN") != c.plain {
			t.Errorf("%s: mechanisms %v", name, got.mechanisms)
		}
	}
}
