package expr

import (
	"fmt"
	"unicode/utf8"
)

// likes reads the pattern once: it must be a literal.
func likes(args []node, types []typ) (node, typ, error) {
	pattern, ok := args[1].(constant)
	if !ok || types[0].sort != text && types[0].sort != null || types[1].sort != text {
		return nil, typ{}, fmt.Errorf("%w: LIKE of a %s, or with a pattern that is no text", ErrUnsupported, types[0])
	}
	if pattern.null {
		return pattern, boolType, nil
	}
	n := &like{x: args[0]}
	for s := pattern.s; s != ""; {
		r, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		p := part{r: r}
		switch r {
		case '%':
			p.any = true
		case '_':
			p.one = true
		case '\\':
			if s == "" || s[0] != '%' && s[0] != '_' && s[0] != '\\' {
				return nil, typ{}, fmt.Errorf("%w: the pattern %q", ErrUnsupported, pattern.s)
			}
			p.r, s = rune(s[0]), s[1:]
		}
		n.parts = append(n.parts, p)
	}
	return n, boolType, nil
}

type part struct {
	r        rune
	any, one bool
}

type like struct {
	x     node
	parts []part
}

func (n *like) eval(e *Evaluation) value {
	v := n.x.eval(e)
	if v.null {
		return none
	}
	return truth(matches(v.s, n.parts))
}

// matches goes back to the last % alone, so its time is at most the product of both lengths.
func matches(s string, parts []part) bool {
	i, backText, backPart := 0, "", -1
	for {
		switch {
		case i < len(parts) && parts[i].any:
			backText, backPart = s, i
			i++
			continue
		case i == len(parts) && s == "":
			return true
		}
		r, size := utf8.DecodeRuneInString(s)
		if i < len(parts) && s != "" && (parts[i].one || parts[i].r == r) {
			s = s[size:]
			i++
			continue
		}
		if backPart < 0 || backText == "" {
			return false
		}
		_, size = utf8.DecodeRuneInString(backText)
		backText = backText[size:]
		s, i = backText, backPart+1
	}
}
