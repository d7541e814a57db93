package expr

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// sort is what values are of; typ adds the sizes.
type sort int8

const (
	null sort = iota // the type of a bare NULL, which goes with all
	boolean
	integer
	float
	decimal
	text
	binary
	date
	instant // a time in UTC
	local   // a time without a zone
	other   // lists, maps, structs: only null or not
)

var sortNames = [...]string{"null", "boolean", "integer", "float", "decimal", "string", "binary", "date", "timestamp", "timestamp_ntz", "nested value"}

type typ struct {
	sort  sort
	bits  int   // of integers and floats
	p, s  int32 // of decimals: digits, and those behind the point
	union *arrow.StructType
}

func (t typ) String() string {
	switch t.sort {
	case integer:
		return map[int]string{8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}[t.bits]
	case float:
		return map[int]string{32: "float", 64: "double"}[t.bits]
	case decimal:
		return fmt.Sprintf("decimal(%d,%d)", t.p, t.s)
	}
	return sortNames[t.sort]
}

func (t typ) number() bool { return t.sort == integer || t.sort == float || t.sort == decimal }

var (
	boolType   = typ{sort: boolean}
	textType   = typ{sort: text}
	intType    = typ{sort: integer, bits: 32}
	longType   = typ{sort: integer, bits: 64}
	doubleType = typ{sort: float, bits: 64}
	dateType   = typ{sort: date}
	timeType   = typ{sort: instant}
	localType  = typ{sort: local}
)

func typeOf(t arrow.DataType) typ {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return boolType
	case *arrow.Int8Type:
		return typ{sort: integer, bits: 8}
	case *arrow.Int16Type:
		return typ{sort: integer, bits: 16}
	case *arrow.Int32Type:
		return intType
	case *arrow.Int64Type:
		return longType
	case *arrow.Float32Type:
		return typ{sort: float, bits: 32}
	case *arrow.Float64Type:
		return doubleType
	case *arrow.Decimal128Type:
		return typ{sort: decimal, p: t.Precision, s: t.Scale}
	case *arrow.StringType:
		return textType
	case *arrow.BinaryType:
		return typ{sort: binary}
	case *arrow.Date32Type:
		return dateType
	case *arrow.TimestampType:
		switch {
		case t.Unit != arrow.Microsecond:
		case t.TimeZone != "":
			return timeType
		default:
			return localType
		}
	case *arrow.StructType:
		return typ{sort: other, union: t}
	}
	return typ{sort: other}
}

// typeNamed reads a type of CAST.
func typeNamed(name string) (typ, error) {
	base, args, sized := strings.Cut(strings.TrimSuffix(name, ")"), "(")
	if base == "decimal" || base == "dec" || base == "numeric" {
		p, s := int32(10), int32(0)
		if sized {
			digits, scale, both := strings.Cut(args, ",")
			a, err := strconv.ParseInt(digits, 10, 32)
			b := int64(0)
			if both && err == nil {
				b, err = strconv.ParseInt(scale, 10, 32)
			}
			if err != nil || a < 1 || a > 38 || b < 0 || b > a {
				return typ{}, fmt.Errorf("%w: the type %s", ErrUnsupported, name)
			}
			p, s = int32(a), int32(b)
		}
		return typ{sort: decimal, p: p, s: s}, nil
	}
	if !sized {
		switch base {
		case "boolean":
			return boolType, nil
		case "tinyint", "byte":
			return typ{sort: integer, bits: 8}, nil
		case "smallint", "short":
			return typ{sort: integer, bits: 16}, nil
		case "int", "integer":
			return intType, nil
		case "bigint", "long":
			return longType, nil
		case "float", "real":
			return typ{sort: float, bits: 32}, nil
		case "double":
			return doubleType, nil
		case "string":
			return textType, nil
		case "binary":
			return typ{sort: binary}, nil
		case "date":
			return dateType, nil
		case "timestamp":
			return timeType, nil
		case "timestamp_ntz":
			return localType, nil
		}
	}
	return typ{}, fmt.Errorf("%w: the type %s", ErrUnsupported, name)
}

// value is one value of a type that is known from the expression.
type value struct {
	null bool
	i    int64 // integers; booleans as 0 and 1; days; microseconds
	f    float64
	s    string // text and bytes
	d    *big.Int
}

var none = value{null: true}

func truth(b bool) value {
	if b {
		return value{i: 1}
	}
	return value{}
}

// common gives the type that values of two types are compared and joined in.
func common(a, b typ) (typ, error) {
	switch {
	case a == b, b.sort == null:
		return a, nil
	case a.sort == null:
		return b, nil
	case a.sort == integer && b.sort == integer:
		return typ{sort: integer, bits: max(a.bits, b.bits)}, nil
	case a.sort == float && b.sort == float:
		return doubleType, nil
	case a.number() && b.number() && (a.sort == float || b.sort == float):
		if a.sort == integer && a.bits < 32 && b.bits == 32 || b.sort == integer && b.bits < 32 && a.bits == 32 {
			return typ{sort: float, bits: 32}, nil
		}
		return doubleType, nil
	case a.number() && b.number():
		x, y := asDecimal(a), asDecimal(b)
		s := max(x.s, y.s)
		return typ{sort: decimal, p: max(x.p-x.s, y.p-y.s) + s, s: s}, nil // above 38 digits only in between
	case a.sort == date && (b.sort == instant || b.sort == local):
		return b, nil
	case b.sort == date && (a.sort == instant || a.sort == local):
		return a, nil
	}
	return typ{}, fmt.Errorf("%w: %s beside %s", ErrUnsupported, a, b)
}

// asDecimal gives the decimals that hold all integers of a type.
func asDecimal(t typ) typ {
	if t.sort == decimal {
		return t
	}
	return typ{sort: decimal, p: map[int]int32{8: 3, 16: 5, 32: 10, 64: 20}[t.bits]}
}

// fits says whether an integer is one of the size.
func fits(i int64, bits int) bool {
	return bits == 64 || i >= -(1<<(bits-1)) && i < 1<<(bits-1)
}

var ten = big.NewInt(10)

func power(n int32) *big.Int { return new(big.Int).Exp(ten, big.NewInt(int64(n)), nil) }

// digits says whether a decimal has at most p digits.
func digits(d *big.Int, p int32) bool { return d.CmpAbs(power(p)) < 0 }

func nan(f float64) bool { return math.IsNaN(f) }
