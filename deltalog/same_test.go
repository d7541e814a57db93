package deltalog

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// content is a snapshot as plain values, for comparison. Checkpoints do not keep dataChange, nor the statistics
// and tags of tombstones.
type content struct {
	Version   Version
	Protocol  Protocol
	Metadata  Metadata
	Txns      map[string]Txn
	Domains   map[string]DomainMetadata
	Files     map[string]Add
	Removed   map[string]Remove
	SizeBytes int64
}

func contentOf(s *Snapshot) content {
	c := content{Version: s.version, Protocol: *s.protocol, Metadata: *s.metadata, Txns: s.txns, Domains: s.domains,
		Files: map[string]Add{}, Removed: map[string]Remove{}, SizeBytes: s.SizeBytes()}
	c.Metadata.normalize()
	for a := range s.Files() {
		x := *a
		x.DataChange = false
		c.Files[fileKey(x.Path, x.DeletionVector)] = x
	}
	for r := range s.Removed() {
		if r.DeletionTimestamp == nil {
			continue // counts as expired
		}
		x := *r
		x.DataChange, x.Stats, x.Tags = false, "", nil
		c.Removed[fileKey(x.Path, x.DeletionVector)] = x
	}
	return c
}

func sameContent(t testing.TB, what string, got, want *Snapshot) {
	t.Helper()
	if d := cmp.Diff(contentOf(want), contentOf(got), cmpopts.EquateEmpty(), cmp.Comparer(func(a, b json.RawMessage) bool { return string(a) == string(b) })); d != "" {
		if len(d) > 4000 {
			d = d[:4000]
		}
		t.Errorf("%s differs (-want +got):\n%s", what, d)
	}
}
