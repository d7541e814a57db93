package deltalog

// Nearly all lines of a large commit are adds, written without a space and with few fields. They are read here, field by field
// and without a call for each key; whatever else stands in such a line leaves it to the parser that knows everything, which
// then reads it from its start and finds what is wrong with it.

const plainHead = `{"add":{"`

// plainAdd reads a line that is an add and nothing else; false, and nothing has changed, where it is not as expected.
func (p *parser) plainAdd(row []byte) bool {
	if len(row) < len(plainHead) || string(row[:len(plainHead)]) != plainHead {
		return false
	}
	n := len(p.a.adds)
	x := p.a.addSlot()
	x.DataChange = true
	tags := ""
	p.b, p.i, p.depth = row, len(plainHead)-1, 2
	if !p.plainFields(x, &tags) || checkAdd(x) != nil {
		p.a.adds = p.a.adds[:n]
		return false
	}
	if p.tagTexts {
		p.a.tagTexts = append(p.a.tagTexts, tags)
	}
	return true
}

// plainFields reads the fields of an add up to the end of its line.
func (p *parser) plainFields(x *Add, tags *string) bool {
	for {
		var err error
		switch rest := p.b[p.i:]; {
		case begins(rest, `"path":"`):
			x.Path, err = p.plainText(len(`"path":`))
		case begins(rest, `"partitionValues":{`):
			p.i += len(`"partitionValues":`)
			err = p.values(&x.PartitionValues)
		case begins(rest, `"size":`):
			p.i += len(`"size":`)
			x.Size, err = p.int()
		case begins(rest, `"modificationTime":`):
			p.i += len(`"modificationTime":`)
			x.ModificationTime, err = p.int()
		case begins(rest, `"dataChange":true`):
			p.i += len(`"dataChange":true`)
			x.DataChange = true
		case begins(rest, `"dataChange":false`):
			p.i += len(`"dataChange":false`)
			x.DataChange = false
		case begins(rest, `"stats":"`):
			x.Stats, err = p.plainText(len(`"stats":`))
		case p.tagTexts && begins(rest, `"tags":{`):
			p.i += len(`"tags":`)
			err = p.tagText(tags)
		default:
			return false
		}
		if err != nil || p.i >= len(p.b) {
			return false
		}
		if p.b[p.i] != ',' {
			return string(p.b[p.i:]) == "}}"
		}
		p.i++
	}
}

// plainText reads the text n bytes on.
func (p *parser) plainText(n int) (string, error) {
	p.i += n
	b, err := p.text()
	if err != nil {
		return "", err
	}
	return p.a.text.string(b), nil
}

func begins(b []byte, with string) bool {
	return len(b) >= len(with) && string(b[:len(with)]) == with
}
