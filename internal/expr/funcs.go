package expr

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// functions gives the functions of one or more values that are null when one of their arguments is; from says what the
// arguments must be.
type definition struct {
	from []sort
	to   typ
	f    func(e *Evaluation, a []value) value
}

func functions(name string) (definition, bool) {
	day := []sort{date}
	number := func(f func(time.Time) int) func(*Evaluation, []value) value {
		return func(_ *Evaluation, a []value) value { return value{i: int64(f(dayOf(a[0].i)))} }
	}
	clock := func(unit, of int64) definition {
		return definition{[]sort{instant}, intType, func(_ *Evaluation, a []value) value {
			return value{i: (floorDiv(a[0].i, unit)%of + of) % of}
		}}
	}
	test := func(f func(string, string) bool) definition {
		return definition{[]sort{text, text}, boolType, func(_ *Evaluation, a []value) value { return truth(f(a[0].s, a[1].s)) }}
	}
	trim := func(f func(string, string) string) definition {
		return definition{[]sort{text}, textType, func(_ *Evaluation, a []value) value { return value{s: f(a[0].s, " ")} }}
	}
	switch name {
	case "year":
		return definition{day, intType, number(time.Time.Year)}, true
	case "month":
		return definition{day, intType, number(func(t time.Time) int { return int(t.Month()) })}, true
	case "quarter":
		return definition{day, intType, number(func(t time.Time) int { return int(t.Month()+2) / 3 })}, true
	case "day", "dayofmonth":
		return definition{day, intType, number(time.Time.Day)}, true
	case "dayofyear":
		return definition{day, intType, number(time.Time.YearDay)}, true
	case "hour":
		return clock(3_600_000_000, 24), true
	case "minute":
		return clock(60_000_000, 60), true
	case "second":
		return clock(1_000_000, 60), true
	case "length", "char_length", "character_length", "len":
		return definition{[]sort{text}, intType, func(_ *Evaluation, a []value) value { return value{i: int64(utf8.RuneCountInString(a[0].s))} }}, true
	case "startswith":
		return test(strings.HasPrefix), true
	case "endswith":
		return test(strings.HasSuffix), true
	case "contains":
		return test(strings.Contains), true
	case "trim":
		return trim(strings.Trim), true
	case "ltrim":
		return trim(strings.TrimLeft), true
	case "rtrim":
		return trim(strings.TrimRight), true
	case "upper", "ucase":
		return definition{[]sort{text}, textType, ascii(strings.ToUpper)}, true
	case "lower", "lcase":
		return definition{[]sort{text}, textType, ascii(strings.ToLower)}, true
	case "substring", "substr":
		return definition{[]sort{text, integer, integer}, textType, substring}, true
	}
	return definition{}, false
}

// ascii refuses the letters whose other case depends on the version of Unicode.
func ascii(f func(string) string) func(*Evaluation, []value) value {
	return func(e *Evaluation, a []value) value {
		for i := range len(a[0].s) {
			if a[0].s[i] >= utf8.RuneSelf {
				return e.fail("upper and lower of %q, which is not ASCII", a[0].s)
			}
		}
		if !e.makes(len(a[0].s)) {
			return none
		}
		return value{s: f(a[0].s)}
	}
}

// substring counts characters from 1, and from the end when it is negative.
func substring(e *Evaluation, a []value) value {
	if !e.makes(len(a[0].s)) {
		return none
	}
	runes := []rune(a[0].s)
	n, from, count := int64(len(runes)), a[1].i, int64(math.MaxInt32)
	if len(a) == 3 {
		count = a[2].i
	}
	switch {
	case from > 0:
		from--
	case from < 0:
		from += n
	}
	to := min(max(from+count, 0), n)
	from = min(max(from, 0), n)
	if to <= from {
		return value{}
	}
	return value{s: string(runes[from:to])}
}

// function binds a call.
func (b *binder) function(name string, args []node, types []typ) (node, typ, error) {
	switch name {
	case "isnull", "isnotnull":
		if len(args) == 1 {
			return &nullTest{args[0], name == "isnull"}, boolType, nil
		}
	case "coalesce", "ifnull", "nvl":
		if len(args) == 0 || name != "coalesce" && len(args) != 2 {
			break
		}
		out, t, err := joined(args, types)
		return coalesce(out), t, err
	case "nullif":
		if len(args) != 2 {
			break
		}
		x, keep := b.hold(args[0])
		eq, _, err := comparison("=", []node{x, args[1]}, types)
		return keep(&caseOf{when: []node{eq}, then: []node{constant(none), x}}), types[0], err
	case "if":
		if len(args) != 3 || types[0].sort != boolean {
			break
		}
		out, t, err := joined(args[1:], types[1:])
		if err != nil {
			return nil, typ{}, err
		}
		return &caseOf{when: args[:1], then: out}, t, nil
	case "abs":
		if len(args) == 1 && types[0].number() {
			return &absolute{negative{args[0], types[0]}}, types[0], nil
		}
	case "isnan": // of null it is false
		if len(args) == 1 && types[0].sort == float {
			is := &functionOf{func(_ *Evaluation, a []value) value { return truth(nan(a[0].f)) }, args}
			return coalesce{is, constant(truth(false))}, boolType, nil
		}
	case "date", "to_date":
		if len(args) == 1 {
			return castTo(args[0], types[0], dateType)
		}
	case "concat":
		return concatenated(args, types)
	case "date_trunc":
		return truncated(args, types)
	case "date_format":
		return formatted(args, types)
	default:
		return listed(name, args, types)
	}
	return nil, typ{}, fmt.Errorf("%w: %s with %d arguments of these types", ErrUnsupported, name, len(args))
}

// listed is a function that functions() lists.
func listed(name string, args []node, types []typ) (node, typ, error) {
	d, ok := functions(name)
	if !ok {
		return nil, typ{}, fmt.Errorf("%w: the function or operator %s", ErrUnsupported, name)
	}
	if len(args) != len(d.from) && (len(args) != 2 || len(d.from) != 3) {
		return nil, typ{}, fmt.Errorf("%w: %s with %d arguments", ErrUnsupported, name, len(args))
	}
	n := &functionOf{f: d.f}
	for i, a := range args {
		var err error
		switch want, have := d.from[i], types[i]; {
		case have.sort == want, have.sort == null:
		case want == date && (have.sort == instant || have.sort == local), want == instant && (have.sort == local || have.sort == date):
			if a, _, err = castTo(a, have, typ{sort: want}); err != nil {
				return nil, typ{}, err
			}
		default:
			return nil, typ{}, fmt.Errorf("%w: %s of a %s", ErrUnsupported, name, have)
		}
		n.args = append(n.args, a)
	}
	return n, d.to, nil
}

type functionOf struct {
	f    func(*Evaluation, []value) value
	args []node
}

func (n *functionOf) eval(e *Evaluation) value {
	var few [3]value // an expression may be evaluated by several at once
	values := few[:len(n.args)]
	for i, a := range n.args {
		if values[i] = a.eval(e); values[i].null {
			return none
		}
	}
	return n.f(e, values)
}

type coalesce []node

func (n coalesce) eval(e *Evaluation) value {
	for _, x := range n {
		if v := x.eval(e); !v.null || e.err != nil {
			return v
		}
	}
	return none
}

type absolute struct{ negative }

func (n *absolute) eval(e *Evaluation) value {
	v := n.x.eval(e)
	if !v.null && (n.t.sort == integer && v.i < 0 || n.t.sort == decimal && v.d.Sign() < 0 || n.t.sort == float && math.Signbit(v.f)) {
		return (&negative{constant(v), n.t}).eval(e)
	}
	return v
}

func concatenated(args []node, types []typ) (node, typ, error) {
	n := &concat{}
	for i := range args {
		x, _, err := castTo(args[i], types[i], textType)
		if err != nil {
			return nil, typ{}, err
		}
		n.args = append(n.args, x)
	}
	return n, textType, nil
}

type concat struct{ args []node }

func (n *concat) eval(e *Evaluation) value {
	var b strings.Builder
	for _, a := range n.args {
		v := a.eval(e)
		if v.null || !e.makes(len(v.s)) {
			return none
		}
		b.WriteString(v.s)
	}
	return value{s: b.String()}
}

// truncated is date_trunc, whose unit is a literal.
func truncated(args []node, types []typ) (node, typ, error) {
	unit, ok := constant{}, len(args) == 2
	if ok {
		unit, ok = args[0].(constant)
	}
	cut := cutter(strings.ToLower(unit.s))
	if !ok || types[0].sort != text || cut == nil || types[1].sort != instant && types[1].sort != date {
		return nil, typ{}, fmt.Errorf("%w: date_trunc with these arguments", ErrUnsupported)
	}
	x, _, err := castTo(args[1], types[1], timeType)
	return &conversionOf{x, cut}, timeType, err
}

func cutter(unit string) func(*Evaluation, value) value {
	micros := func(n int64) func(*Evaluation, value) value {
		return func(_ *Evaluation, v value) value { return value{i: floorDiv(v.i, n) * n} }
	}
	calendar := func(first func(time.Time) time.Time) func(*Evaluation, value) value {
		return func(_ *Evaluation, v value) value { return value{i: first(time.UnixMicro(v.i).UTC()).UnixMicro()} }
	}
	switch unit {
	case "second":
		return micros(1_000_000)
	case "minute":
		return micros(60_000_000)
	case "hour":
		return micros(3_600_000_000)
	case "day", "dd":
		return micros(microsPerDay)
	case "month", "mon", "mm":
		return calendar(func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC) })
	case "year", "yyyy", "yy":
		return calendar(func(t time.Time) time.Time { return time.Date(t.Year(), 1, 1, 0, 0, 0, 0, time.UTC) })
	}
	return nil
}

// formatted is date_format with the patterns that generated columns use.
func formatted(args []node, types []typ) (node, typ, error) {
	refused := fmt.Errorf("%w: date_format with these arguments", ErrUnsupported)
	if len(args) != 2 || types[1].sort != text || types[0].sort != instant && types[0].sort != local && types[0].sort != date {
		return nil, typ{}, refused
	}
	pattern, ok := args[1].(constant)
	layouts := map[string]string{"yyyy": "2006", "yyyy-MM": "2006-01", "yyyy-MM-dd": "2006-01-02", "yyyy-MM-dd-HH": "2006-01-02-15", "yyyyMM": "200601", "yyyyMMdd": "20060102", "HH": "15", "MM": "01", "dd": "02"}
	layout := layouts[pattern.s]
	if !ok || layout == "" {
		return nil, typ{}, refused
	}
	x, _, err := castTo(args[0], types[0], localType)
	return &conversionOf{x, func(e *Evaluation, v value) value {
		if day := dateText(e, floorDiv(v.i, microsPerDay)); day.null {
			return none
		}
		return value{s: time.UnixMicro(v.i).UTC().Format(layout)}
	}}, textType, err
}
