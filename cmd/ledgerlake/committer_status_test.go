package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/committer/rpc"
)

// A node that does not answer has its address in the column of addresses, and why it is away below the nodes.
func TestStatusOfANodeThatIsAway(t *testing.T) {
	var out strings.Builder
	leader := &rpc.StatusReply{ID: "a", Addr: "10.0.0.1:7070", State: "leader", Term: 3}
	err := writeStatus(&out, []string{"10.0.0.1:7070", "10.0.0.2:7070"}, []*rpc.StatusReply{leader, nil}, []error{nil, errors.New("10.0.0.2:7070: connection refused")})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if f := strings.Fields(lines[2]); len(f) != 3 || f[1] != "10.0.0.2:7070" || f[2] != "away" {
		t.Errorf("the node that is away: %q", lines[2])
	}
	if lines[3] != "no answer: 10.0.0.2:7070: connection refused" {
		t.Errorf("why: %q", lines[3])
	}
	if strings.Index(lines[1], "leader") != strings.Index(lines[2], "away") {
		t.Errorf("columns are not in line:\n%s", out.String())
	}
}
