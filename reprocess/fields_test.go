package reprocess

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// FuzzObject: an object that is cut has the fields that encoding/json finds, and is written as that writes them, whatever it
// holds; what is not cut is no object, or left to decode (I4, I8).
func FuzzObject(f *testing.F) {
	for _, s := range []string{`{}`, ` { "a" : 1 , "b":[1, {"x":"}]\""}],"a":2 } `, "{\"a\":null,\"c\":true,\"d\":-1.5e3,\"e\":\"\u00e9\\u2028 \u2028\",\"f\":\" <\"}", `{"\u0061":1}`, `{"<":1}`,
		`[1]`, `null`, `{"a":}`, `{"a":1}x`, `{"deep":[[[{}]]],"s":"\\"}`, `{"a":12345678901234567890,"b":1e999,"c":-0}`, "{\"a\":\"\xff\"}", `{"":{}}`, `{"a":"\ud800"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		fast, slow := object{names: map[string]string{}}, object{}
		cut, err := fast.cut(value), slow.decode(value)
		if err != nil {
			if cut {
				t.Fatalf("%q is cut, and encoding/json says %v", value, err)
			}
			return
		}
		if !cut {
			return
		}
		a, b := map[string]any{}, map[string]any{}
		for _, x := range []struct {
			o   *object
			out map[string]any
		}{{&fast, a}, {&slow, b}} {
			for _, f := range x.o.fields {
				if x.out[f.name], err = valueOf(f.text); err != nil {
					t.Fatal(err)
				}
				if _, err := json.Marshal(x.out[f.name]); err != nil {
					t.Fatal(err)
				}
			}
		}
		was, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		is, err := json.Marshal(a)
		if err != nil || string(is) != string(was) || !maps.Equal(keys(a), keys(b)) {
			t.Fatalf("%q: fields %s, want %s (%v)", value, is, was, err)
		}
		got, err := fast.appendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := slow.appendTo(nil); err != nil || string(got) != string(want) {
			t.Fatalf("%q became %q, want %q (%v)", value, got, want, err)
		}
	})
}

func keys(m map[string]any) map[string]bool {
	out := map[string]bool{}
	for k := range m {
		out[k] = true
	}
	return out
}

// What an expression sees of a value is what encoding/json makes of it, with whole numbers whole.
func TestValueOf(t *testing.T) {
	for text, want := range map[string]any{`1`: 1, `-0`: 0, `1.5`: 1.5, `1e2`: 100.0, `9223372036854775807`: 9223372036854775807, `9223372036854775808`: 9223372036854775808.0,
		`1e999`: "1e999", `"a b"`: "a b", `"\u0061"`: "a", "\"\xff\"": "\ufffd", `true`: true, `false`: false, `null`: nil} {
		if got, err := valueOf([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %v (%T), want %v (%T), %v", text, got, got, want, want, err)
		}
	}
	deep, err := valueOf([]byte(`[1,{"a":2.5}]`))
	if l, ok := deep.([]any); err != nil || !ok || l[0] != 1 || l[1].(map[string]any)["a"] != 2.5 {
		t.Errorf("%v, %v", deep, err)
	}
}

// Expressions that look at all fields get them; those that look at some get these alone.
func TestExpressionsSeeTheirFields(t *testing.T) {
	for where, want := range map[string]int{`a > 0`: 1, `$env["b"] == 2`: 3, `len($env) == 7`: 3, `all([1], # == a) and c == nil`: 2, `_offset == 0`: 0} {
		e, err := CompileExpressions(where, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := Record{}
		r.Value = []byte(`{"a":1,"b":2,"c":null}`)
		out, err := e.Apply(t.Context(), []Record{r})
		if err != nil || out[0].Err != nil || out[0].Drop || string(out[0].Value) != string(r.Value) || len(e.env) != want+4 {
			t.Errorf("%s: %+v of %d names, want %d fields, %v", where, out[0], len(e.env), want, err)
		}
	}
}

func BenchmarkExpressions(b *testing.B) {
	e, err := CompileExpressions("amount > 1000", nil, []Column{{Name: "total", Value: "amount * quantity"}})
	if err != nil {
		b.Fatal(err)
	}
	in := make([]Record, 1)
	in[0].Value = []byte(`{"user":"user-12345","kind":"page_view","amount":12345,"quantity":3}`)
	b.ReportAllocs()
	for b.Loop() {
		if out, err := e.Apply(b.Context(), in); err != nil || string(out[0].Value) != `{"amount":12345,"kind":"page_view","quantity":3,"total":37035,"user":"user-12345"}` {
			b.Fatal(out, err)
		}
	}
}

// Names are kept for the next objects, and however long those of hostile messages are, not many bytes of them.
func TestNamesKeptAreBounded(t *testing.T) {
	o := object{names: map[string]string{}}
	for i := range 2 * mostNames {
		for _, name := range []string{fmt.Sprint("short", i), fmt.Sprint(strings.Repeat("long", 1000), i)} {
			if !o.cut([]byte(`{"`+name+`":1}`)) || o.fields[0].name != name {
				t.Fatalf("%.20s... is not cut", name)
			}
		}
	}
	kept := 0
	for name := range o.names {
		kept += len(name)
	}
	if len(o.names) != mostNames || kept > mostNames*longestName {
		t.Errorf("%d names of %d bytes are kept", len(o.names), kept)
	}
}
