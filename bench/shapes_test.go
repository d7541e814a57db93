package bench

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestShapesAreTheSameForASeedAndTheirIDsAreFound(t *testing.T) {
	for _, s := range shapes() {
		one, two, other := s.make(7), s.make(7), s.make(8)
		var first, again, third content
		for range 200 {
			value := one(nil)
			m := map[string]any{s.unique: string(s.id(value))} // of Avro
			if s.avro == "" {
				if err := json.Unmarshal(value, &m); err != nil {
					t.Fatalf("%s: %v in %s", s.name, err, value)
				}
			}
			id, _, _ := strings.Cut(string(s.id(value)), "|")
			if want, _ := m[s.unique].(string); id == "" || id != want {
				t.Fatalf("%s: id %q of %s", s.name, id, value)
			}
			if s.divides != nil && len(s.divides(value)) < 4 {
				t.Fatalf("%s: divided by %q, of %s", s.name, s.divides(value), value)
			}
			first.add(s.id(value))
			again.add(s.id(two(nil)))
			third.add(s.id(other(nil)))
		}
		if first != again || first == third {
			t.Errorf("%s: content %v, with the same seed %v, with another %v", s.name, first, again, third)
		}
		if _, err := s.columns(); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

func TestShufflingKeepsTheObject(t *testing.T) {
	plain, shuffled := shopEvents(165, false)(3), shopEvents(165, true)(3)
	moved := false
	for range 100 {
		a, b := plain(nil), shuffled(nil)
		var x, y map[string]any
		if err := json.Unmarshal(a, &x); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &y); err != nil {
			t.Fatalf("%v in %s", err, b)
		}
		if !reflect.DeepEqual(x, y) {
			t.Fatalf("%s\nis not\n%s", b, a)
		}
		moved = moved || string(a) != string(b)
	}
	if !moved {
		t.Error("no member has moved")
	}
}

func TestContentTellsWhatIsWrong(t *testing.T) {
	of := func(ids ...string) (c content) {
		for _, id := range ids {
			c.add([]byte(id))
		}
		return c
	}
	want := of("a", "b", "c")
	if got := of("c", "a", "b"); got != want {
		t.Errorf("another order is other content: %v, %v", got, want)
	}
	for name, got := range map[string]content{"lost": of("a", "b"), "doubled": of("a", "b", "c", "c"), "replaced": of("a", "b", "d"), "doubled and lost": of("a", "a", "b")} {
		if got == want {
			t.Errorf("%s is not seen", name)
		}
	}
}

// The specification gives this fingerprint for the schema "int".
func TestAvroFingerprint(t *testing.T) {
	if got := avroFingerprint(`"int"`); got != 0x7275d51a3f395c8f {
		t.Errorf("%#x", got)
	}
}
