package decode

import "encoding/binary"

// dateCache remembers the last day: messages of one batch mostly share theirs.
type dateCache struct {
	head uint64 // the first 8 bytes of YYYY-MM-DD
	tail uint16 // and the other 2
	last int64  // days since 1970-01-01
}

func newDateCache() dateCache {
	s := []byte("1970-01-01")
	return dateCache{head: binary.LittleEndian.Uint64(s), tail: binary.LittleEndian.Uint16(s[8:])}
}

// days reads the date at the start of s as days since 1970-01-01.
func (c *dateCache) days(s []byte) (int64, bool) {
	if len(s) < 10 {
		return 0, false
	}
	head, tail := binary.LittleEndian.Uint64(s), binary.LittleEndian.Uint16(s[8:])
	if head == c.head && tail == c.tail {
		return c.last, true
	}
	century, ok1 := pair(s, 0)
	year, ok2 := pair(s, 2)
	month, ok3 := pair(s, 5)
	day, ok4 := pair(s, 8)
	year += 100 * century
	if !(ok1 && ok2 && ok3 && ok4) || s[4] != '-' || s[7] != '-' ||
		month < 1 || month > 12 || day < 1 || day > monthDays(year, month) {
		return 0, false
	}
	c.head, c.tail, c.last = head, tail, civilDays(year, month, day)
	return c.last, true
}

// pair reads two digits at i.
func pair(s []byte, i int) (int64, bool) {
	a, b := s[i]-'0', s[i+1]-'0'
	return int64(a)*10 + int64(b), a <= 9 && b <= 9
}

func monthDays(year, month int64) int64 {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// civilDays counts the days since 1970-01-01 in the Gregorian calendar. Years begin in March here, which
// puts the leap day at their end and makes the lengths of the months before it regular.
func civilDays(year, month, day int64) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	year += 400 // so that divisions need no care for the year before 0
	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - 146097 - 719468
}

// instant is a parsed timestamp.
type instant struct {
	micros int64 // since 1970-01-01, UTC
	offset int64 // of the zone, in seconds
	zone   bool  // one was given
}

// timestamp reads YYYY-MM-DD hh:mm:ss with T or a space between, fraction and zone as they come. Without
// a zone it is UTC. Leap seconds are refused, as by package time.
func (c *dateCache) timestamp(s []byte) (instant, bool) {
	const plain = len("2006-01-02T15:04:05")
	if len(s) < plain {
		return instant{}, false
	}
	day, ok := c.days(s)
	hour, ok1 := pair(s, 11)
	minute, ok2 := pair(s, 14)
	second, ok3 := pair(s, 17)
	if !(ok && ok1 && ok2 && ok3) || s[10]|0x20 != 't' && s[10] != ' ' || s[13] != ':' || s[16] != ':' ||
		hour > 23 || minute > 59 || second > 59 {
		return instant{}, false
	}
	t := instant{micros: ((day*24+hour)*60+minute)*60 + second}
	t.micros *= 1e6
	i := plain
	if i < len(s) && s[i] == '.' {
		i++
		first := i
		for unit := int64(1e5); i < len(s) && s[i]-'0' <= 9; i++ {
			t.micros += unit * int64(s[i]-'0')
			unit /= 10
		}
		if i == first {
			return instant{}, false
		}
	}
	if i == len(s) {
		return t, true
	}
	t.zone = true
	if s[i]|0x20 == 'z' {
		return t, i+1 == len(s)
	}
	if t.offset, ok = zoneOffset(s[i:]); !ok {
		return instant{}, false
	}
	t.micros -= t.offset * 1e6
	return t, true
}

// zoneOffset reads +hh:mm or -hh:mm as seconds.
func zoneOffset(s []byte) (int64, bool) {
	if len(s) != 6 || s[0] != '+' && s[0] != '-' || s[3] != ':' {
		return 0, false
	}
	hours, ok1 := pair(s, 1)
	minutes, ok2 := pair(s, 4)
	if !ok1 || !ok2 || hours > 23 || minutes > 59 {
		return 0, false
	}
	offset := (hours*60 + minutes) * 60
	if s[0] == '-' {
		offset = -offset
	}
	return offset, true
}
