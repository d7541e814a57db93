package jsonschema

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	lib "github.com/santhosh-tekuri/jsonschema/v6"
)

// The library works on exact fractions, of which a few bytes of exponent make a million digits. Every double fits
// these bounds (I8).
const (
	maxDigits   = 800
	maxExponent = 400
)

// read parses JSON whose numbers can be worked on.
func read(r io.Reader) (any, error) {
	v, err := lib.UnmarshalJSON(r)
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	return v, checkNumbers(v)
}

func checkNumbers(v any) error {
	switch v := v.(type) {
	case json.Number:
		return checkNumber(string(v))
	case []any:
		for _, e := range v {
			if err := checkNumbers(e); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, e := range v {
			if err := checkNumbers(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkNumber(s string) error {
	digits, exponent := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		digits, exponent = s[:i], s[i+1:]
	}
	if len(digits) > maxDigits {
		return fmt.Errorf("a number has %d digits, and at most %d are checked", len(digits), maxDigits)
	}
	if exponent == "" {
		return nil
	}
	if n, err := strconv.Atoi(exponent); err != nil || n > maxExponent || n < -maxExponent {
		return fmt.Errorf("the number %.40s has an exponent beyond %d", s, maxExponent)
	}
	return nil
}
