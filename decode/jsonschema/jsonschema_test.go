package jsonschema_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/decode/jsonschema"
)

func TestColumns(t *testing.T) {
	s, err := jsonschema.Parse(`{"$schema":"http://json-schema.org/draft-07/schema#","title":"Order","type":"object","properties":{
		"z":{"type":"integer"},
		"name":{"oneOf":[{"type":"null"},{"type":"string"}]},
		"at":{"type":"string","format":"date-time"},
		"day":{"type":["string","null"],"format":"date"},
		"n":{"type":["number","null"]},
		"any":{"type":["string","integer"]},
		"color":{"enum":["red","green",null]},
		"tags":{"type":"array","items":{"type":"string"}},
		"attrs":{"type":"object","additionalProperties":{"type":"number"}},
		"who":{"$ref":"customer.json"},
		"also":{"$ref":"#/definitions/Also"}},
		"definitions":{"Also":{"allOf":[{"type":"object","properties":{"b":{"type":"boolean"}}},{"properties":{"a":{"type":"integer"}}}],"type":"object"}}}`,
		map[string]string{"customer.json": `{"type":"object","properties":{"id":{"type":"integer"},"mail":{"type":"string"}}}`})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range got.Fields() {
		lines = append(lines, f.Name+" "+f.Type.String())
	}
	want := `z int64
name utf8
at timestamp[us, tz=UTC]
day date32
n float64
any utf8
color utf8
tags list<item: utf8, nullable>
attrs map<utf8, float64, items_nullable>
who struct<id: int64 nullable, mail: utf8 nullable>
also struct<b: bool nullable, a: int64 nullable>`
	if strings.Join(lines, "\n") != want {
		t.Errorf("got\n%s", strings.Join(lines, "\n"))
	}
	for value, bad := range map[string]string{
		`{"z":1,"who":{"id":4}}`:    "",
		`{"z":"1"}`:                 "at '/z': got string, want integer",
		`{"who":{"id":"x"}}`:        "at '/who/id': got string, want integer",
		`{`:                         "not JSON",
		`{"at":"yesterday","z":1}`:  "at '/at': 'yesterday' is not valid date-time",
		`{"tags":["a",1],"day":""}`: "at '",
	} {
		err := s.Validate([]byte(value))
		if bad == "" && err != nil || bad != "" && (err == nil || !strings.Contains(err.Error(), bad) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("Validate(%s) = %v, want %q", value, err, bad)
		}
	}
}

func TestSchemasThatTellNoColumns(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                 "unexpected",
		`{"type":"string"}`: "no object",
		`{"type":"object","properties":{"a":{"$ref":"#"}}}`:                          "a contains itself",
		`{"type":"object","properties":{"a":{"$ref":"http://else.where/x"}}}`:        "not among the references",
		`{"type":"object","properties":{"a":{"type":"nothing"}}}`:                    "at '/properties/a/type'",
		`{"type":"object","properties":{"a":{"items":{"$ref":"#"},"type":"array"}}}`: "a[] contains itself",
	} {
		s, err := jsonschema.Parse(text, nil)
		if err == nil {
			_, err = s.Columns()
		}
		if !errors.Is(err, jsonschema.ErrSchema) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
