package bench

import "testing"

// Only puts of versions are slow: not those of checkpoints or their hint.
func TestIsVersion(t *testing.T) {
	for path, want := range map[string]bool{
		"/lake/t/_delta_log/00000000000000000007.json":                     true,
		"/lake/t/_delta_log/00000000000000000010.checkpoint.parquet":       false,
		"/lake/t/_delta_log/_last_checkpoint":                              false,
		"/lake/t/_delta_log/_commits/00000000000000000007.x.json":          false,
		"/lake/t/00000000000000000007.json":                                false,
		"/lake/t/_delta_log/0000000000000000000a.json":                     false,
		"/lake/t/_delta_log/_staged_commits/00000000000000000007.uid.json": false,
	} {
		if got := isVersion(path); got != want {
			t.Errorf("%s = %v", path, got)
		}
	}
}
