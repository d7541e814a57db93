package main

import "testing"

func TestByteSize(t *testing.T) {
	for text, want := range map[string]byteSize{"0": 0, "1000": 1000, "64MiB": 64 << 20, "64m": 64 << 20, " 1 GiB": -1, "1GB": 1 << 30, "3k": 3 << 10,
		"2tib": 2 << 40, "": -1, "x": -1, "-1": -1, "9999999999g": -1, "12.5m": -1, "k": -1} {
		var b byteSize
		err := b.Set(text)
		if want < 0 && err == nil || want >= 0 && (err != nil || b != want) {
			t.Errorf("%q: %d %v, want %d", text, b, err, want)
		}
		var again byteSize
		if err == nil && (again.Set(b.String()) != nil || again != b) {
			t.Errorf("%q: %s does not read back", text, b)
		}
	}
}
