package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program that is measured is a copy that starts; one that is missing, or does not start, is named.
func TestInstallProgram(t *testing.T) {
	from := filepath.Join(t.TempDir(), "program")
	script := []byte("#!/bin/sh\n[ \"$1\" = --help ]\n")
	if err := os.WriteFile(from, script, 0o600); err != nil {
		t.Fatal(err)
	}
	at, err := installProgram(t.Context(), t.TempDir(), from)
	if err != nil || at == from {
		t.Fatalf("%s, %v", at, err)
	}
	if got, err := os.ReadFile(at); err != nil || !bytes.Equal(got, script) {
		t.Errorf("the copy is %q, %v", got, err)
	}
	if err := os.WriteFile(from, []byte("#!/bin/sh\nexit 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{from, from + "-missing"} {
		if _, err := installProgram(t.Context(), t.TempDir(), name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
