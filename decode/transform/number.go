package transform

import (
	"cmp"
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"unsafe"

	"github.com/jmespath-community/go-jmespath/pkg/parsing"
)

// Numbers are exact as long as they are whole and fit 64 bits: as int64, since a float has but 53 bits. What is larger
// keeps its text, and is compared by it. Fractions are floats.

// exactFloat is the bound below which a whole float stands for one whole number alone.
const exactFloat = 1 << 53

func floatValue(v float64) value {
	out := value{kind: number, num: v}
	if v == math.Trunc(v) && math.Abs(v) < exactFloat {
		out.whole, out.exact = int64(v), true
	}
	return out
}

func wholeValue(v int64) value { return value{kind: number, num: float64(v), whole: v, exact: true} }

// numberValue is a number as JSON writes it, which it keeps.
func numberValue(raw []byte) value {
	v := value{kind: number, raw: raw}
	v.num, v.whole, v.exact = parseNumber(raw)
	return v
}

// parseNumber reads a number as JSON writes it.
func parseNumber(raw []byte) (num float64, whole int64, exact bool) {
	text := unsafe.String(unsafe.SliceData(raw), len(raw))
	if isWhole(raw) {
		if len(raw) < 19 {
			for _, c := range raw {
				if c != '-' {
					whole = whole*10 + int64(c-'0')
				}
			}
			if raw[0] == '-' {
				whole = -whole
			}
			return float64(whole), whole, true
		}
		if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
			return float64(whole), whole, true
		}
	}
	num, err := strconv.ParseFloat(text, 64)
	if err != nil && math.IsInf(num, 0) {
		num = math.Copysign(math.MaxFloat64, num)
	}
	v := floatValue(num)
	return num, v.whole, v.exact
}

// isWhole says whether a number is written with digits alone.
func isWhole(raw []byte) bool {
	if len(raw) > 0 && raw[0] == '-' {
		raw = raw[1:]
	}
	for _, c := range raw {
		if c-'0' > 9 {
			return false
		}
	}
	return len(raw) > 0
}

// order compares two numbers. Floats decide when they differ, since rounding keeps the order.
func order(a, b value) int {
	if c := cmp.Compare(a.num, b.num); c != 0 {
		return c
	}
	switch {
	case a.exact && b.exact:
		return cmp.Compare(a.whole, b.whole)
	case isWhole(a.raw) && isWhole(b.raw): // both beyond 64 bits, or close to it
		return orderText(a.raw, b.raw)
	case a.exact && math.Abs(b.num) < 1<<63:
		return cmp.Compare(a.whole, int64(b.num))
	case b.exact && math.Abs(a.num) < 1<<63:
		return cmp.Compare(int64(a.num), b.whole)
	}
	return 0
}

// orderText compares whole numbers of one sign, as JSON writes them: without zeros in front.
func orderText(a, b []byte) int {
	c := cmp.Compare(len(a), len(b))
	if c == 0 {
		c = cmp.Compare(string(a), string(b))
	}
	if a[0] == '-' {
		return -c
	}
	return c
}

// ordered is what a comparison says of an order.
func ordered(how parsing.TokType, c int) bool {
	switch how {
	case parsing.TOKLT:
		return c < 0
	case parsing.TOKLTE:
		return c <= 0
	case parsing.TOKGT:
		return c > 0
	case parsing.TOKGTE:
		return c >= 0
	}
	return false
}

// treeNumber is a number of a tree, where those that no float holds are json.Number.
func treeNumber(v any) (value, bool) {
	switch v := v.(type) {
	case float64:
		return floatValue(v), true
	case json.Number:
		return numberValue([]byte(v)), true
	}
	return value{}, false
}

// inTree is the other way.
func (v value) inTree() any {
	switch {
	case v.exact && math.Abs(v.num) < exactFloat:
		return v.num
	case v.exact:
		return json.Number(strconv.FormatInt(v.whole, 10))
	case v.raw != nil && math.Abs(v.num) >= exactFloat:
		return json.Number(v.raw)
	}
	return v.num
}

// same says whether two trees are equal.
func same(x, y any) bool {
	if a, ok := treeNumber(x); ok {
		b, ok := treeNumber(y)
		return ok && order(a, b) == 0
	}
	switch x := x.(type) {
	case []any:
		y, ok := y.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !same(x[i], y[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		y, ok := y.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k := range x {
			if other, ok := y[k]; !ok || !same(x[k], other) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(x, y)
}

// errDigits says that a number cannot be worked on without loss.
var errDigits = &typeError{"a number has more digits than can be worked with: whole ones have 64 bits, others 15 digits"}

// calculate does arithmetic; whole numbers stay whole where they can.
func calculate(how parsing.TokType, a, b value) (value, error) {
	if beyond(a) || beyond(b) || a.exact != b.exact && (rounded(a) || rounded(b)) {
		return value{}, errDigits
	}
	if a.exact && b.exact {
		x, y, z := big.NewInt(a.whole), big.NewInt(b.whole), new(big.Int)
		switch how {
		case parsing.TOKPlus:
			z.Add(x, y)
		case parsing.TOKMinus:
			z.Sub(x, y)
		case parsing.TOKStar, parsing.TOKMultiply:
			z.Mul(x, y)
		default:
			if b.whole == 0 {
				return value{}, nil
			}
			rest := new(big.Int)
			z.QuoRem(x, y, rest)
			switch {
			case how == parsing.TOKModulo:
				z = rest
			case how == parsing.TOKDiv && rest.Sign() != 0 && rest.Sign() != y.Sign():
				z.Sub(z, big.NewInt(1))
			case how == parsing.TOKDivide && rest.Sign() != 0:
				return floatValue(a.num / b.num), nil
			}
		}
		if !z.IsInt64() {
			return value{}, errDigits
		}
		return wholeValue(z.Int64()), nil
	}
	switch how {
	case parsing.TOKPlus:
		return floatValue(a.num + b.num), nil
	case parsing.TOKMinus:
		return floatValue(a.num - b.num), nil
	case parsing.TOKStar, parsing.TOKMultiply:
		return floatValue(a.num * b.num), nil
	case parsing.TOKDivide:
		return floatValue(a.num / b.num), nil
	case parsing.TOKModulo:
		return floatValue(math.Mod(a.num, b.num)), nil
	}
	return floatValue(math.Floor(a.num / b.num)), nil
}

// rounded says that a float does not hold a whole number.
func rounded(v value) bool { return v.exact && math.Abs(v.num) >= exactFloat }

// beyond says that a number is whole and has more than 64 bits, or more digits than a float.
func beyond(v value) bool { return !v.exact && v.raw != nil && math.Abs(v.num) >= exactFloat }
