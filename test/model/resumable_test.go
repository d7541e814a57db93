package model

import (
	"errors"
	"testing"

	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/table"
)

// A table whose rows have no place in a log is read whole or not at all: neither a token of it nor one that goes on in it
// gives rows twice (I4).
func TestReaderWithoutPlacesHasNoTokens(t *testing.T) {
	w := filled(t, 40, 40)
	plain, err := table.Open(t.Context(), w.store, table.Config{Names: table.Names{Value: "_value"}})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Log.Close()
	whole := reader.Config{Table: plain}
	r, err := reader.OpenTopics(t.Context(), reader.TopicsConfig{Streams: []reader.Stream{{Name: "a", Config: whole}}})
	if err != nil {
		t.Fatal(err)
	}
	if rows := countRows(t, r.Next); rows != 40 {
		t.Errorf("%d rows", rows)
	}
	token := r.Token()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	wanted := whole
	wanted.Resumable = true
	for name, cfg := range map[string]reader.TopicsConfig{
		"from a token":      {Streams: []reader.Stream{{Name: "a", Config: whole}}, Token: token},
		"a token is wanted": {Streams: []reader.Stream{{Name: "a", Config: wanted}}},
	} {
		r, err := reader.OpenTopics(t.Context(), cfg)
		if err == nil {
			_ = r.Close()
		}
		if !errors.Is(err, reader.ErrNotReplayable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if c, err := reader.Open(t.Context(), wanted); !errors.Is(err, reader.ErrNotReplayable) {
		t.Errorf("one topic: %v", err)
		if err == nil {
			_ = c.Close()
		}
	}
	placed := reader.Config{Table: w.table, Resumable: true}
	if rows := countRows(t, open(t, placed).Next); rows != 40 {
		t.Errorf("with places: %d rows", rows)
	}
}
