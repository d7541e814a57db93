package main

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// dropStartPages gives back the pages of the program's own file that were mapped for the start: package inits, the runtime's
// tables of types, and flags touch a little of everything, and the system maps 64 KiB around each touch, together most of an
// idle process. It is what a kernel does with its init sections. What is used again comes back from the page cache, a
// fraction of a millisecond in all. Best effort: where /proc does not say what is needed, nothing is done.
func dropStartPages() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	drop := func(m mapping) {
		if m.clean() && m.file == self {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, syscall.MADV_DONTNEED)
		}
	}
	var m mapping
	for s := bufio.NewScanner(f); s.Scan(); {
		if next, ok := parseMapping(s.Bytes()); ok {
			drop(m)
			m = next
		} else if kb, ok := bytes.CutPrefix(s.Bytes(), []byte("Anonymous:")); ok {
			m.untouched = strings.TrimSpace(string(kb)) == "0 kB"
		}
	}
	drop(m)
}

// mapping is what /proc/self/smaps says of one part of the address space.
type mapping struct {
	from, to  uintptr
	mode      string
	file      string
	untouched bool // no page of it differs from the file: no relocation, no breakpoint
}

// clean says that dropping the mapping's pages loses nothing: nobody can have written to them, nor can do so meanwhile.
func (m mapping) clean() bool { return m.untouched && (m.mode == "r-xp" || m.mode == "r--p") }

// parseMapping reads the first line of an entry: "from-to mode offset device inode path".
func parseMapping(line []byte) (mapping, bool) {
	f := strings.Fields(string(line))
	if len(f) < 5 {
		return mapping{}, false
	}
	from, to, ok := strings.Cut(f[0], "-")
	a, err := strconv.ParseUint(from, 16, 64)
	if !ok || err != nil {
		return mapping{}, false
	}
	b, err := strconv.ParseUint(to, 16, 64)
	if err != nil || b <= a {
		return mapping{}, false
	}
	m := mapping{from: uintptr(a), to: uintptr(b), mode: f[1]}
	if len(f) > 5 {
		m.file = strings.Join(f[5:], " ")
	}
	return m, true
}
