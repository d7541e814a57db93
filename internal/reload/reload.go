// Package reload keeps what was made of some files, and makes it anew when they have changed: a certificate or a
// list of users changes without a restart. What cannot be read or is wrong changes nothing and is logged.
//
// A Value may be used by several goroutines; one of them at a time looks at the files, at most once a second, when
// Get is called. There is no goroutine of its own and nothing to close.
package reload

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// every is how often the files are looked at.
const every = time.Second

// Value is what was made of files.
type Value[T any] struct {
	files []string
	load  func() (T, error)
	lg    *slog.Logger

	mu     sync.Mutex
	value  T
	stamp  string
	looked time.Time
}

// New loads the value for the first time. load reads the files.
func New[T any](lg *slog.Logger, load func() (T, error), files ...string) (*Value[T], error) {
	v := &Value[T]{files: files, load: load, lg: lg, looked: time.Now()}
	v.stamp = v.look() // before the load: a change in between is seen later
	var err error
	v.value, err = load()
	return v, err
}

// Get gives the value of the newest files that could be read, and logs that a new one is in use.
func (v *Value[T]) Get() T {
	value, changed := v.Look()
	if changed {
		v.lg.Info("changed files are in use", "files", v.files)
	}
	return value
}

// Look is Get for who has more to do before the value is in use, and says so itself: changed is true once for each new one.
func (v *Value[T]) Look() (value T, changed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	if now.Sub(v.looked) < every {
		return v.value, false
	}
	v.looked = now
	stamp := v.look()
	if stamp == v.stamp {
		return v.value, false
	}
	v.stamp = stamp
	next, err := v.load()
	if err != nil {
		v.lg.Error("changed files are not taken: what was read before stays in use", "files", v.files, "err", err)
		return v.value, false
	}
	v.value = next
	return next, true
}

// look gives a text that changes with the files.
func (v *Value[T]) look() string {
	s := ""
	for _, name := range v.files {
		info, err := os.Stat(name)
		if err != nil {
			s += err.Error()
			continue
		}
		s += fmt.Sprintf("%d %d %s;", info.ModTime().UnixNano(), info.Size(), info.Mode())
	}
	return s
}
