package harness

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// The comparison that all tests here rest on sees every kind of difference, and no difference where
// there is none.
func TestDifference(t *testing.T) {
	row := func(text string) map[string]any {
		r, err := DecodeRow([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, c := range []struct {
		name, got, want string
		same            bool
	}{
		{"equal", `{"a":1,"b":[1,{"c":null}]}`, `{"b":[1,{"c":null}],"a":1}`, true},
		{"number forms", `{"a":1e3,"b":2.50}`, `{"a":1000,"b":2.5}`, true},
		{"large numbers differ in the last digit", `{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		{"null and absent", `{}`, `{"a":null}`, false},
		{"null and empty", `{"a":""}`, `{"a":null}`, false},
		{"number and its text", `{"a":"1"}`, `{"a":1}`, false},
		{"deep", `{"a":[{"b":1}]}`, `{"a":[{"b":2}]}`, false},
		{"length", `{"a":[1]}`, `{"a":[1,2]}`, false},
		{"one column more", `{"a":1,"b":2}`, `{"a":1}`, false},
	} {
		if d := Difference(row(c.got), row(c.want)); (d == "") != c.same {
			t.Errorf("%s: difference %q", c.name, d)
		}
	}
}

// An event is the same each time, and its message is its row without the absent fields.
func TestEventsAreRepeatable(t *testing.T) {
	nulls, absent := 0, 0
	for n := range 500 {
		e, again := NewEvent(9, n), NewEvent(9, n)
		if !bytes.Equal(e.Value, again.Value) || !reflect.DeepEqual(e.Row, again.Row) {
			t.Fatalf("event %d differs from itself", n)
		}
		message, err := DecodeRow(e.Value)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range e.Row {
			got, there := message[name]
			switch {
			case !there && want == nil:
				absent++
			case want == nil:
				nulls++
			}
			if !sameValue(got, want) {
				t.Fatalf("event %d: the message has %v in %s, the row %v", n, got, name, want)
			}
		}
	}
	if nulls == 0 || absent == 0 {
		t.Errorf("%d nulls and %d absent fields: both are wanted", nulls, absent)
	}
	var schema struct{ Fields []struct{ Name string } }
	if err := json.Unmarshal([]byte(EventSchema), &schema); err != nil {
		t.Fatal(err)
	}
	if len(schema.Fields) != len(NewEvent(9, 0).Row) {
		t.Errorf("the schema has %d fields, the event %d", len(schema.Fields), len(NewEvent(9, 0).Row))
	}
}

// A port is one test's at a time, with those that go with it, and anybody's after it.
func TestPortsAreReserved(t *testing.T) {
	var port int
	t.Run("one test", func(t *testing.T) {
		port = FreePort(t, 2)
		for i := range 3 {
			if reserve(t, port+1000*i, 0) {
				t.Errorf("port %d is given twice", port+1000*i)
			}
		}
		if reserve(t, port-1000, 1) {
			t.Error("two ports are given, of which one is taken")
		}
	})
	if !reserve(t, port, 2) {
		t.Error("the ports are not given back")
	}
}

// The account that a Load keeps is true of a real Kafka that is killed once: what it says was
// acknowledged is what a consumer reads. So where a test fails on ledgerlake, ledgerlake is at fault.
func TestLoadAgainstRealKafka(t *testing.T) {
	k := Kafka(t)
	for _, transactions := range []bool{false, true} {
		topic := map[bool]string{false: "plain", true: "transactions"}[transactions]
		CreateTopic(t, k.Addr, topic, 3)
		load := StartLoad(t, LoadConfig{Addr: k.Addr, Topic: topic, Seed: 1, Transactions: transactions})
		Eventually(t, time.Minute, func() error { return load.Reached(1000) })
		if !transactions {
			k.Kill(t)
			k.Start(t)
			Eventually(t, time.Minute, func() error { return load.Reached(4000) })
		}
		acked := load.Stop(t)
		if transactions && load.Aborted() == 0 {
			t.Error("no transaction was aborted")
		}
		got := map[Position]Record{}
		for _, r := range Consume(t, k.Addr, topic) {
			got[r.Position] = r
		}
		for n, at := range acked {
			if !bytes.Equal(got[at].Value, NewEvent(1, n).Value) {
				t.Fatalf("%s: event %d was acknowledged at %s, where %.80q is", topic, n, at, got[at].Value)
			}
		}
		if len(got) != len(acked) {
			t.Errorf("%s: %d records were read, %d acknowledged", topic, len(got), len(acked))
		}
	}
}
