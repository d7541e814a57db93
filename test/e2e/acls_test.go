package e2e

import (
	"regexp"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// Kafka's own tool makes, lists and removes access rules; a Java client meets them.
func TestJavaACLs(t *testing.T) {
	s := harness.Serve(t, t.TempDir(), "", "--no-tiering", "--kafka-acls", "allow")
	at := []string{"--bootstrap-server", s.Addr}
	javaTool(t, "", "TopicCommand", append(at, "--create", "--topic", "open", "--partitions", "1")...)
	javaTool(t, "", "TopicCommand", append(at, "--create", "--topic", "secret-1", "--partitions", "1")...)
	javaTool(t, "", "AclCommand", append(at, "--add", "--deny-principal", "User:ANONYMOUS", "--operation", "Describe", "--topic", "secret", "--resource-pattern-type", "prefixed")...)
	javaTool(t, "", "AclCommand", append(at, "--add", "--allow-principal", "User:ann", "--consumer", "--topic", "open", "--group", "g")...)
	list := javaTool(t, "", "AclCommand", append(at, "--list")...)
	for _, want := range []string{"resourceType=TOPIC, name=secret, patternType=PREFIXED", "principal=User:ANONYMOUS, host=*, operation=DESCRIBE, permissionType=DENY", "resourceType=GROUP, name=g"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %q:\n%s", want, list)
		}
	}
	if n := len(regexp.MustCompile(`permissionType=ALLOW`).FindAllString(list, -1)); n != 3 {
		t.Errorf("%d rules that allow, want 3:\n%s", n, list)
	}
	if out := javaTool(t, "", "TopicCommand", append(at, "--list")...); strings.Contains(out, "secret") || strings.Contains(out, "open") {
		t.Errorf("topics that the rules keep from the client are listed: %q", out)
	}
	javaTool(t, "", "AclCommand", append(at, "--remove", "--force", "--topic", "secret-1", "--resource-pattern-type", "match")...)
	javaTool(t, "", "AclCommand", append(at, "--remove", "--force", "--topic", "open")...)
	if out := javaTool(t, "", "TopicCommand", append(at, "--list")...); !strings.Contains(out, "secret-1") || !strings.Contains(out, "open") {
		t.Errorf("after the rules are gone the list is %q", out)
	}
}
