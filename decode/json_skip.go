package decode

// skip checks the value at i as strictly as one that is kept, and gives the position behind it.
func (d *JSON) skip(b []byte, i int) int {
	if i >= len(b) {
		return d.unexpected(b, i, "a value")
	}
	switch c := b[i]; c {
	case '"':
		_, next := d.str(b, i)
		return next
	case '{', '[':
		if d.depth++; d.depth > d.opts.MaxDepth {
			return d.tooDeep(i)
		}
		next := d.skipNested(b, i+1, c == '{')
		d.depth--
		return next
	case 't':
		return d.word(b, i, "true")
	case 'f':
		return d.word(b, i, "false")
	case 'n':
		return d.word(b, i, "null")
	default:
		_, next, ok := scanNumber(b, i)
		if !ok {
			if c != '-' && c-'0' > 9 {
				return d.unexpected(b, i, "a value")
			}
			return d.unexpected(b, next, "a number as JSON writes it")
		}
		return next
	}
}

func (d *JSON) word(b []byte, i int, word string) int {
	if !hasWord(b, i, word) {
		return d.unexpected(b, i, "a value")
	}
	return i + len(word)
}

// skipNested skips the members of an object or the elements of an array, from after the bracket.
func (d *JSON) skipNested(b []byte, i int, object bool) int {
	closing, want := byte(']'), "',' or ']'"
	if object {
		closing, want = '}', "',' or '}'"
	}
	i = skipSpace(b, i)
	if i < len(b) && b[i] == closing {
		return i + 1
	}
	for {
		if object {
			if i = d.skipKey(b, i); i < 0 {
				return i
			}
		}
		if i = d.skip(b, i); i < 0 {
			return i
		}
		i = skipSpace(b, i)
		if i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
			continue
		}
		if i < len(b) && b[i] == closing {
			return i + 1
		}
		return d.unexpected(b, i, want)
	}
}

// skipKey skips a key, its colon and the space behind.
func (d *JSON) skipKey(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return d.unexpected(b, i, "a key")
	}
	_, i = d.str(b, i)
	if i < 0 {
		return i
	}
	if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
		return d.unexpected(b, i, "':'")
	}
	return skipSpace(b, i+1)
}
