package jsonschema_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/decode/jsonschema"
)

// I8: the work on a number is in proportion to its bytes. Without the bound each of these takes minutes to check.
func TestNumbersOfManyDigitsAreRefused(t *testing.T) {
	const form = `{"type":"object","properties":{"a":{"type":"array","items":{%s}}}}`
	for _, rule := range []string{`"type":"integer"`, `"type":"number","minimum":0`, `"type":"number","multipleOf":0.01`, `"enum":[1]`, `"const":2`} {
		s, err := jsonschema.Parse(fmt.Sprintf(form, rule), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []string{"1e999999", "1E+999999", "-1e-999999", "0e401", "1e99999999999999999999", strings.Repeat("9", 801), "0." + strings.Repeat("9", 1<<20)} {
			err := s.Validate([]byte(`{"a":[` + strings.TrimSuffix(strings.Repeat(n+",", 1+10_000/len(n)), ",") + `]}`))
			if err == nil || !strings.Contains(err.Error(), "number") || len(err.Error()) > 200 {
				t.Errorf("%s: Validate(%.30s) = %v", rule, n, err)
			}
		}
	}
	s, err := jsonschema.Parse(fmt.Sprintf(form, `"type":"number","minimum":0`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate([]byte(`{"a":[1.7976931348623157e308,5e-324,1e400,0.1,12345678901234567890]}`)); err != nil {
		t.Errorf("numbers that a double holds: %v", err)
	}
	if _, err := jsonschema.Parse(fmt.Sprintf(form, `"minimum":1e999999999`), nil); !errors.Is(err, jsonschema.ErrSchema) {
		t.Errorf("a schema of such a number: %v", err)
	}
}
