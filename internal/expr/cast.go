package expr

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

const microsPerDay = 24 * 60 * 60 * 1_000_000

// castTo converts a value. A literal is converted here and now: one that cannot be is refused.
func castTo(n node, from, to typ) (node, typ, error) {
	if from == to || from.sort == null {
		return n, to, nil
	}
	f := conversion(from, to)
	if f == nil {
		return nil, typ{}, fmt.Errorf("%w: CAST of %s to %s", ErrUnsupported, from, to)
	}
	out := &conversionOf{n, f}
	if !isConstant(n) {
		return out, to, nil
	}
	v, err := fold(out)
	if err != nil {
		return nil, typ{}, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return constant(v), to, nil
}

type conversionOf struct {
	x node
	f func(e *Evaluation, v value) value
}

func (n *conversionOf) eval(e *Evaluation) value {
	v := n.x.eval(e)
	if v.null {
		return none
	}
	return n.f(e, v)
}

// conversion gives the function from one type to another; nil when there is none here.
func conversion(from, to typ) func(*Evaluation, value) value {
	switch to.sort {
	case integer:
		return toInteger(from, to)
	case float:
		return toFloat(from, to)
	case decimal:
		return toDecimal(from, to)
	case text:
		return toText(from)
	case binary:
		if from.sort == text {
			return same
		}
	case date:
		switch from.sort {
		case text:
			return textToDate
		case instant, local:
			return func(_ *Evaluation, v value) value { return value{i: floorDiv(v.i, microsPerDay)} }
		}
	case instant, local:
		switch from.sort {
		case text:
			return textToTime(to.sort == instant)
		case date:
			return func(e *Evaluation, v value) value {
				if v.i > math.MaxInt64/microsPerDay || v.i < math.MinInt64/microsPerDay {
					return e.fail("the day %d is no time", v.i)
				}
				return value{i: v.i * microsPerDay}
			}
		case instant, local: // UTC
			return same
		}
	}
	return nil
}

func same(_ *Evaluation, v value) value { return v }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func toInteger(from, to typ) func(*Evaluation, value) value {
	checked := func(e *Evaluation, i int64) value {
		if !fits(i, to.bits) {
			return e.fail("%d is beyond %s", i, to)
		}
		return value{i: i}
	}
	switch from.sort {
	case integer, boolean:
		return func(e *Evaluation, v value) value { return checked(e, v.i) }
	case float:
		return func(e *Evaluation, v value) value {
			if f := math.Trunc(v.f); f >= -(1<<63) && f < 1<<63 {
				return checked(e, int64(f))
			}
			return e.fail("%v is beyond %s", v.f, to)
		}
	case decimal:
		u := power(from.s)
		return func(e *Evaluation, v value) value {
			if q := new(big.Int).Quo(v.d, u); q.IsInt64() {
				return checked(e, q.Int64())
			}
			return e.fail("a decimal is beyond %s", to)
		}
	case text:
		return func(e *Evaluation, v value) value {
			s := trimmed(v.s)
			i, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				return e.fail("%q is no %s", v.s, to)
			}
			return checked(e, i)
		}
	}
	return nil
}

// trimmed takes away what Spark does around numbers and dates.
func trimmed(s string) string {
	return strings.Trim(s, "\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f \x7f")
}

func toFloat(from, to typ) func(*Evaluation, value) value {
	sized := func(f float64) value {
		if to.bits == 32 {
			f = float64(float32(f))
		}
		return value{f: f}
	}
	switch from.sort {
	case integer:
		return func(_ *Evaluation, v value) value {
			if to.bits == 32 {
				return value{f: float64(float32(v.i))} // rounded once
			}
			return value{f: float64(v.i)}
		}
	case float:
		return func(_ *Evaluation, v value) value { return sized(v.f) }
	case decimal:
		return func(e *Evaluation, v value) value {
			f, err := strconv.ParseFloat(decimalText(v.d, from.s), to.bits)
			if err != nil {
				return e.fail("a decimal is beyond %s", to)
			}
			return value{f: f}
		}
	case text:
		return func(e *Evaluation, v value) value {
			s := trimmed(v.s)
			f, err := strconv.ParseFloat(s, to.bits)
			if err != nil || strings.ContainsAny(s, "_xXpPiInN") {
				return e.fail("%q is no plain number", v.s)
			}
			return value{f: f}
		}
	}
	return nil
}

func toDecimal(from, to typ) func(*Evaluation, value) value {
	checked := func(e *Evaluation, d *big.Int) value {
		if !digits(d, to.p) {
			return e.fail("%s is beyond %s", decimalText(d, to.s), to)
		}
		return value{d: d}
	}
	switch from.sort {
	case integer:
		u := power(to.s)
		return func(e *Evaluation, v value) value { return checked(e, new(big.Int).Mul(big.NewInt(v.i), u)) }
	case decimal:
		return func(e *Evaluation, v value) value { return checked(e, rescaled(v.d, from.s, to.s)) }
	case text:
		return func(e *Evaluation, v value) value {
			d, s, ok := parseDecimal(trimmed(v.s))
			if !ok {
				return e.fail("%q is no plain decimal", v.s)
			}
			return checked(e, rescaled(d, s, to.s))
		}
	}
	return nil
}

// rescaled changes the digits behind the point, half up.
func rescaled(d *big.Int, from, to int32) *big.Int {
	if to >= from {
		return new(big.Int).Mul(d, power(to-from))
	}
	u := power(from - to)
	q, r := new(big.Int).QuoRem(d, u, new(big.Int))
	if r.Abs(r).Lsh(r, 1).Cmp(u) >= 0 {
		q.Add(q, big.NewInt(int64(d.Sign())))
	}
	return q
}

func decimalText(d *big.Int, scale int32) string {
	s := new(big.Int).Abs(d).String()
	if pad := int(scale) + 1 - len(s); pad > 0 {
		s = strings.Repeat("0", pad) + s
	}
	if scale > 0 {
		s = s[:len(s)-int(scale)] + "." + s[len(s)-int(scale):]
	}
	if d.Sign() < 0 {
		s = "-" + s
	}
	return s
}

func toText(from typ) func(*Evaluation, value) value {
	switch from.sort {
	case integer:
		return func(_ *Evaluation, v value) value { return value{s: strconv.FormatInt(v.i, 10)} }
	case boolean:
		return func(_ *Evaluation, v value) value { return value{s: strconv.FormatBool(v.i == 1)} }
	case date:
		return func(e *Evaluation, v value) value { return dateText(e, v.i) }
	case instant, local:
		return func(e *Evaluation, v value) value {
			if day := dateText(e, floorDiv(v.i, microsPerDay)); day.null {
				return none
			}
			s := time.UnixMicro(v.i).UTC().Format("2006-01-02 15:04:05.999999")
			return value{s: s}
		}
	}
	return nil
}

func dateText(e *Evaluation, days int64) value {
	const first, last = -719162, 2932896 // of the years 1 and 9999
	if days < first || days > last {
		return e.fail("the day %d is outside of the years 1 to 9999", days)
	}
	return value{s: dayOf(days).Format(time.DateOnly)}
}

func dayOf(days int64) time.Time { return time.Unix(days*24*60*60, 0).UTC() }

// textToDate reads yyyy-m-d; what Spark cuts off behind it is refused.
func textToDate(e *Evaluation, v value) value {
	t, err := time.Parse("2006-1-2", trimmed(v.s))
	if err != nil {
		return e.fail("%q is no date", v.s)
	}
	return value{i: t.Unix() / (24 * 60 * 60)}
}

// textToTime reads the usual forms. One with a zone cannot become a time without one.
func textToTime(utc bool) func(*Evaluation, value) value {
	return func(e *Evaluation, v value) value {
		s := strings.Replace(trimmed(v.s), " ", "T", 1)
		layouts := []string{"2006-1-2", "2006-1-2T15:4:5", "2006-1-2T15:4:5.999999"}
		if utc {
			layouts = append(layouts, "2006-1-2T15:4:5Z07:00")
		}
		for _, l := range layouts {
			if t, err := time.Parse(l, s); err == nil {
				return value{i: t.UnixMicro()}
			}
		}
		return e.fail("%q is no time", v.s)
	}
}
