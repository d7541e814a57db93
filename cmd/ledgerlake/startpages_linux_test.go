package main

import (
	"bytes"
	"os"
	"testing"
)

// What is dropped is the program's own code and constants, never memory that anybody can write to or has written to.
func TestStartPages(t *testing.T) {
	for _, c := range []struct {
		line, mode, file string
		ok               bool
	}{
		{"00400000-01bda000 r-xp 00001000 fd:00 123 /usr/bin/ledgerlake", "r-xp", "/usr/bin/ledgerlake", true},
		{"00400000-01bda000 rw-p 00001000 fd:00 123 /a b", "rw-p", "/a b", true},
		{"c000000000-c000400000 rw-p 00000000 00:00 0 ", "rw-p", "", true},
		{"Anonymous:             0 kB", "", "", false},
		{"VmFlags: rd ex mr mw me", "", "", false},
		{"x-01bda000 r-xp 00001000 fd:00 123 /x", "", "", false},
	} {
		m, ok := parseMapping([]byte(c.line))
		if ok != c.ok || m.mode != c.mode || m.file != c.file {
			t.Errorf("%q: got %+v %v, want %+v", c.line, m, ok, c)
		}
	}
	for _, m := range []mapping{{mode: "r-xp"}, {mode: "rw-p", untouched: true}, {mode: "r-xs", untouched: true}} {
		if m.clean() {
			t.Errorf("%+v is called clean", m)
		}
	}
	before, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip("no /proc/self/smaps: ", err)
	}
	if !bytes.Contains(before, []byte("Anonymous:")) {
		t.Skip("/proc/self/smaps does not tell written pages apart")
	}
	dropStartPages()
	if len(newRoot().Commands()) == 0 { // code and constants are still there
		t.Error("no commands")
	}
}
