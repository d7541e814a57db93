package decode

import (
	"math"
	"math/bits"
	"strconv"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// integer reads a number without fraction and exponent that fits the column.
func (d *JSON) integer(n *node, b []byte, i int) (int64, int) {
	start := i
	neg := b[i] == '-'
	if neg {
		i++
	}
	first := i
	var u uint64
	for i < len(b) {
		c := b[i] - '0'
		if c > 9 {
			break
		}
		u = u*10 + uint64(c)
		i++
	}
	digits := i - first
	if digits == 0 || digits > 18 || b[first] == '0' || i < len(b) && (b[i] == '.' || b[i]|0x20 == 'e') {
		return d.oddInteger(n, b, start)
	}
	v := int64(u)
	if neg {
		v = -v
	}
	if n.kind != kindInt64 {
		if lo, hi := intRange(n.kind); v < lo || v > hi {
			return 0, d.fail(start, "the number is out of the range of "+n.typeName())
		}
	}
	return v, i
}

// oddInteger is integer for what its fast path leaves: zeros, long numbers and those that are wrong.
func (d *JSON) oddInteger(n *node, b []byte, i int) (int64, int) {
	num, next := d.number(n, b, i)
	if next < 0 {
		return 0, next
	}
	if !num.whole {
		return 0, d.fail(i, "a number with fraction or exponent does not fit a column of type "+n.typeName())
	}
	v, err := strconv.ParseInt(text(b[i:next]), 10, 64)
	if lo, hi := intRange(n.kind); err != nil || v < lo || v > hi {
		return 0, d.fail(i, "the number is out of the range of "+n.typeName())
	}
	return v, next
}

// number is what the grammar tells of a number: mant * 10^exp when it is exact.
type number struct {
	mant  uint64
	exp   int
	neg   bool
	exact bool // mant holds all digits
	whole bool // neither fraction nor exponent
}

// maxExp is where exponents stop counting: no type reaches that far.
const maxExp = 100000

// number checks the grammar of the number at i and reads it.
func (d *JSON) number(n *node, b []byte, i int) (number, int) {
	num, next, ok := scanNumber(b, i)
	if ok {
		return num, next
	}
	if b[i] != '-' && b[i]-'0' > 9 {
		return num, d.mismatch(n, b, i)
	}
	if next < len(b) && b[next]-'0' <= 9 {
		return num, d.fail(i, "a number with a leading zero")
	}
	return num, d.unexpected(b, next, "a digit")
}

// scanNumber reads the number at i by the grammar of JSON. Without ok, next is the byte that is wrong.
func scanNumber(b []byte, i int) (num number, next int, ok bool) {
	if i < len(b) && b[i] == '-' {
		num.neg = true
		i++
	}
	first := i
	for i < len(b) && b[i]-'0' <= 9 {
		num.mant = num.mant*10 + uint64(b[i]-'0')
		i++
	}
	digits := i - first
	if digits == 0 {
		return num, i, false
	}
	if digits > 1 && b[first] == '0' {
		return num, first + 1, false
	}
	num.whole = true
	if i < len(b) && b[i] == '.' {
		num.whole = false
		i++
		point := i
		for i < len(b) && b[i]-'0' <= 9 {
			num.mant = num.mant*10 + uint64(b[i]-'0')
			i++
		}
		if i == point {
			return num, i, false
		}
		num.exp = point - i
		digits += i - point
	}
	num.exact = digits <= 19
	if i < len(b) && b[i]|0x20 == 'e' {
		num.whole = false
		exp, next, ok := scanExponent(b, i+1)
		if !ok {
			return num, next, false
		}
		num.exp += exp
		i = next
	}
	return num, i, true
}

func scanExponent(b []byte, i int) (exp, next int, ok bool) {
	neg := false
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		neg = b[i] == '-'
		i++
	}
	first := i
	for i < len(b) && b[i]-'0' <= 9 {
		if exp < maxExp {
			exp = exp*10 + int(b[i]-'0')
		}
		i++
	}
	if neg {
		exp = -exp
	}
	return exp, i, i > first
}

// pow10 has the powers of ten that a double holds exactly.
var pow10 = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22} // never written to

// float64 reads a number. Where digits and power of ten are exact as doubles one operation rounds right
// (Clinger's fast path); the rest goes to strconv.
func (d *JSON) float64(n *node, b []byte, i int) (float64, int) {
	if v, next := shortFloat(b, i); next > 0 {
		return v, next
	}
	num, next := d.number(n, b, i)
	if next < 0 {
		return 0, next
	}
	if num.exact && num.mant <= 1<<53 && num.exp >= -22 && num.exp <= 22 {
		v := float64(num.mant)
		if num.exp < 0 {
			v /= pow10[-num.exp]
		} else {
			v *= pow10[num.exp]
		}
		if num.neg {
			v = -v
		}
		return v, next
	}
	v, err := strconv.ParseFloat(text(b[i:next]), 64)
	if err != nil {
		return 0, d.fail(i, "the number is out of the range of double")
	}
	return v, next
}

// shortFloat reads a number of at most 15 digits without exponent; next is 0 when it is another.
func shortFloat(b []byte, i int) (v float64, next int) {
	neg := b[i] == '-'
	if neg {
		i++
	}
	first := i
	var mant uint64
	for i < len(b) && b[i]-'0' <= 9 {
		mant = mant*10 + uint64(b[i]-'0')
		i++
	}
	whole := i - first
	if whole == 0 || whole > 1 && b[first] == '0' || i >= len(b) {
		return 0, 0
	}
	digits, frac := whole, 0
	if b[i] == '.' {
		point := i
		for i++; i < len(b) && b[i]-'0' <= 9; i++ {
			mant = mant*10 + uint64(b[i]-'0')
		}
		if frac = i - point - 1; frac == 0 || i >= len(b) {
			return 0, 0
		}
		digits += frac
	}
	if digits > 15 || b[i]|0x20 == 'e' {
		return 0, 0
	}
	v = float64(mant) / pow10[frac]
	if neg {
		v = -v
	}
	return v, i
}

// float32 is float64 for single precision, which must not round twice.
func (d *JSON) float32(n *node, b []byte, i int) (float32, int) {
	num, next := d.number(n, b, i)
	if next < 0 {
		return 0, next
	}
	if num.exact && num.mant <= 1<<24 && num.exp >= -10 && num.exp <= 10 {
		v := float32(num.mant)
		if num.exp < 0 {
			v /= float32(pow10[-num.exp])
		} else {
			v *= float32(pow10[num.exp])
		}
		if num.neg {
			v = -v
		}
		return v, next
	}
	v, err := strconv.ParseFloat(text(b[i:next]), 32)
	if err != nil {
		return 0, d.fail(i, "the number is out of the range of float")
	}
	return float32(v), next
}

// text views bytes as a string for the time of a call that does not keep it.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// decimal reads a number that precision and scale of the column hold exactly.
func (d *JSON) decimal(n *node, b []byte, i int) (decimal128.Num, int) {
	num, next := d.number(n, b, i)
	if next < 0 {
		return decimal128.Num{}, next
	}
	hi, lo, exp, ok := digits128(b[i:next], num)
	if ok && hi|lo == 0 {
		return decimal128.Num{}, next
	}
	// Digits end in no zero here, so that a negative shift would lose one.
	shift := exp + int(n.scale)
	if ok && shift < 0 {
		return decimal128.Num{}, d.fail(i, "the number has more digits after the point than "+n.typeName())
	}
	for ; ok && shift > 0; shift-- {
		hi, lo, ok = mulAdd(hi, lo, 0)
	}
	if !ok || hi > math.MaxInt64 {
		return decimal128.Num{}, d.fail(i, "the number is out of the range of "+n.typeName())
	}
	v := decimal128.New(int64(hi), lo)
	if !v.FitsInPrecision(n.prec) {
		return decimal128.Num{}, d.fail(i, "the number is out of the range of "+n.typeName())
	}
	if num.neg {
		v = v.Negate()
	}
	return v, next
}

// digits128 gives the digits of a number without the zeros at their end, as 128 bits, and the exponent that
// belongs to them. Without ok they are more than 128 bits.
func digits128(s []byte, num number) (hi, lo uint64, exp int, ok bool) {
	zeros, ok := 0, true
	for _, c := range s {
		if c|0x20 == 'e' {
			break
		}
		if c-'0' > 9 {
			continue
		}
		if zeros++; c == '0' {
			continue
		}
		for ; zeros > 1 && ok; zeros-- {
			if hi|lo == 0 {
				zeros = 1
				break
			}
			hi, lo, ok = mulAdd(hi, lo, 0)
		}
		if ok {
			hi, lo, ok = mulAdd(hi, lo, uint64(c-'0'))
		}
		if !ok {
			return 0, 0, 0, false
		}
		zeros = 0
	}
	return hi, lo, num.exp + zeros, true
}

// mulAdd is x*10 + digit in 128 bits.
func mulAdd(hi, lo, digit uint64) (uint64, uint64, bool) {
	over, hi10 := bits.Mul64(hi, 10)
	carry, lo10 := bits.Mul64(lo, 10)
	lo10, c := bits.Add64(lo10, digit, 0)
	hi10, c2 := bits.Add64(hi10, carry, c)
	return hi10, lo10, over == 0 && c2 == 0
}

// epoch reads a number as microseconds since 1970, by the unit of the options.
func (d *JSON) epoch(n *node, b []byte, i int) (int64, int) {
	num, next := d.number(n, b, i)
	if next < 0 {
		return 0, next
	}
	unit := int64(1)
	switch d.opts.Epoch {
	case EpochSeconds:
		unit = 1e6
	case EpochMillis:
		unit = 1e3
	}
	v, ok := scaleEpoch(num, uint64(unit))
	if !ok {
		return 0, d.fail(i, "the number is out of the range of timestamp")
	}
	return v, next
}

// scaleEpoch is num * unit, without what is below one.
func scaleEpoch(num number, unit uint64) (int64, bool) {
	if num.mant == 0 && num.exact {
		return 0, true
	}
	if !num.exact {
		return 0, false
	}
	hi, lo := bits.Mul64(num.mant, unit)
	exp := num.exp
	for ; exp > 0 && hi == 0; exp-- {
		hi, lo = bits.Mul64(lo, 10)
	}
	for ; exp < 0 && hi|lo != 0; exp++ {
		var rem uint64
		hi, rem = hi/10, hi%10
		lo, _ = bits.Div64(rem, lo, 10)
	}
	if hi != 0 || lo > math.MaxInt64 {
		return 0, false
	}
	if num.neg {
		return -int64(lo), true
	}
	return int64(lo), true
}
