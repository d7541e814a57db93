package share

import (
	"encoding/json"
	"errors"
	"testing"
)

// What a server wrote is read by all later ones, and written the same.
func TestFormat(t *testing.T) {
	const kept = `{"start":7,"runs":[{"n":3,"s":1,"a":2,"o":"m","u":99},{"n":1,"s":2},{"n":2,"a":1}]}`
	var p Partition
	if err := json.Unmarshal([]byte(kept), &p); err != nil {
		t.Fatal(err)
	}
	if raw, err := json.Marshal(&p); err != nil || string(raw) != kept {
		t.Errorf("%s, %v, want %s", raw, err, kept)
	}
	if p.Start() != 7 || p.End() != 13 || p.Open() != 5 {
		t.Errorf("[%d, %d) with %d open", p.Start(), p.End(), p.Open())
	}
	for _, bad := range []string{`{"start":-1}`, `{"start":0,"runs":[{"n":0}]}`, `{"start":0,"runs":[{"n":-5}]}`, `{"start":0,"runs":[{"n":1,"s":7}]}`, `{"start":0,"runs":[{"n":1,"s":1}]}`,
		`{"start":9223372036854775807,"runs":[{"n":1}]}`} {
		if err := json.Unmarshal([]byte(bad), &Partition{}); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

// What is malformed is told apart from what is not with the member.
func TestAcknowledgeErrors(t *testing.T) {
	l := Limits{Attempts: 5, Locks: 10, Lock: 10}
	p := New(0)
	p.Acquire(Read{Batches: []Span{{0, 4}}, To: 5}, Claim{Owner: "a", Max: 10}, l)
	for _, c := range []struct {
		owner string
		acks  []Ack
		want  error
	}{
		{"a", []Ack{{3, 2, []Kind{Accept}}}, ErrRequest},
		{"a", []Ack{{0, 2, []Kind{Accept, Accept}}}, ErrRequest},
		{"a", []Ack{{0, 2, nil}}, ErrRequest},
		{"a", []Ack{{0, 0, []Kind{5}}}, ErrRequest},
		{"a", []Ack{{0, 5, []Kind{Accept}}}, ErrRequest},
		{"a", []Ack{{2, 3, []Kind{Accept}}, {3, 4, []Kind{Accept}}}, ErrRequest},
		{"b", []Ack{{0, 0, []Kind{Accept}}}, ErrState},
		{"a", []Ack{{0, 0, []Kind{Accept}}, {1, 4, []Kind{Accept}}}, nil},
	} {
		if err := p.Clone().Acknowledge(c.owner, c.acks, 0, l); !errors.Is(err, c.want) {
			t.Errorf("%s says %+v: %v, want %v", c.owner, c.acks, err, c.want)
		}
	}
}

// I8: whatever stands in the topic is read as a Partition or refused, and what is read is written the same.
func FuzzPartition(f *testing.F) {
	f.Add([]byte(`{"start":7,"runs":[{"n":3,"s":1,"a":2,"o":"m","u":99},{"n":1,"s":2},{"n":2,"a":1}]}`))
	f.Add([]byte(`{"start":9223372036854775806,"runs":[{"n":9223372036854775807}]}`))
	f.Fuzz(func(t *testing.T, kept []byte) {
		var p, again Partition
		if json.Unmarshal(kept, &p) != nil {
			return
		}
		raw, err := json.Marshal(&p)
		if err == nil {
			err = json.Unmarshal(raw, &again)
		}
		if err != nil || again.Start() != p.Start() || again.End() != p.End() || again.Open() != p.Open() {
			t.Fatalf("%s is read again as %+v: %v", raw, again, err)
		}
	})
}
