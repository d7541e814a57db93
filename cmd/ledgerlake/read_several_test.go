package main

import (
	"io"
	"strings"
	"testing"
)

// A place in one topic is not applied to all of several.
func TestReadSeveralRefusesPlacesOfOne(t *testing.T) {
	for _, r := range []readFlags{
		{from: "0:5"}, {from: "id:7:1"},
		{from: "earliest", until: "0:5"}, {from: "earliest", until: "0:5,1:7"}, {from: "earliest", until: "token:abc"},
	} {
		r.travel.version = -1 // the default of --version
		if err := r.runSeveral(t.Context(), nil, nil, io.Discard); err == nil || !strings.Contains(err.Error(), "in one SOURCE") {
			t.Errorf("--from %q --until %q: %v", r.from, r.until, err)
		}
	}
}
