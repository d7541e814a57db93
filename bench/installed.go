package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// installed gives the place of what `make services` installs: below LEDGERLAKE_CACHE, else .cache of the working
// directory.
func installed(parts ...string) (string, bool) {
	cache := os.Getenv("LEDGERLAKE_CACHE")
	if cache == "" {
		cache = ".cache"
	}
	at := filepath.Join(append([]string{cache}, parts...)...)
	found, _ := filepath.Glob(at)
	return at, len(found) > 0
}

// pythonOf is the interpreter of an environment. LEDGERLAKE_PYTHON takes the place of the one of most peers, "venv".
func pythonOf(venv string) (string, bool) {
	if at := os.Getenv("LEDGERLAKE_PYTHON"); at != "" && venv == "venv" {
		_, err := os.Stat(at)
		return at, err == nil
	}
	return installed(venv, "bin", "python")
}

// missing notes that a peer did not run, so that nobody takes its absence for an oversight.
func (r *Report) missing(peer string) {
	note := fmt.Sprintf("%s did not run: it is not installed (make services)", peer)
	if !slices.Contains(r.Notes, note) {
		r.Notes = append(r.Notes, note)
	}
}
