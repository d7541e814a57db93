package deltalog

import (
	"encoding/json"
	"errors"
	"fmt"
)

// The fields that adds and removes share are read by one function each; null leaves a field as it is.

// str reads a text that is valid as long as the actions are not reset.
func (p *parser) str(dst *string) error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	b, err := p.text()
	if err == nil {
		*dst = p.a.text.string(b)
	}
	return err
}

// name reads a text of which there are few, and which is kept.
func (p *parser) name(dst *string) error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	b, err := p.text()
	if err == nil && string(b) != *dst {
		*dst = string(b)
	}
	return err
}

func (p *parser) num(dst *int64) error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	v, err := p.int()
	*dst = v
	return err
}

func (p *parser) numPtr(dst **int64) error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	v, err := p.int()
	*dst = &v
	return err
}

func (p *parser) flag(dst *bool) error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	v, err := p.bool()
	*dst = v
	return err
}

// values reads partition values. Equal texts share one map.
func (p *parser) values(dst *map[string]*string) error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	// A whole object that stands here once more needs no look inside.
	if n := len(p.in.lastText); n > 0 && len(p.b)-p.i >= n && string(p.b[p.i:p.i+n]) == p.in.lastText {
		p.i += n
		*dst = p.in.lastMap
		return nil
	}
	raw, err := p.raw()
	if err != nil {
		return err
	}
	m, ok := p.in.texts[string(raw)]
	if !ok {
		if m, err = p.textMap(raw); err != nil {
			return err
		}
		m = p.in.values(m)
		p.in.texts[string(raw)] = m
		p.in.lastText, p.in.lastMap = string(raw), m
	}
	*dst = m
	return nil
}

func (p *parser) tags(dst *map[string]*string) error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	raw, err := p.raw()
	if err != nil {
		return err
	}
	*dst, err = p.textMap(raw)
	return err
}

// tagText checks tags and keeps their text.
func (p *parser) tagText(dst *string) error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	raw, err := p.raw()
	if err != nil {
		return err
	}
	if _, err := walkTextMap(raw, nil); err != nil {
		return fmt.Errorf("tags: %w", err)
	}
	*dst = p.a.text.string(raw)
	return nil
}

// walkTextMap visits the entries of an object of strings and nulls, and gives how many it has.
func walkTextMap(raw []byte, visit func(key, value []byte, null bool)) (n int, err error) {
	if len(raw) == 0 || raw[0] != '{' {
		return 0, errors.New("want an object of strings")
	}
	s := scanner{b: raw}
	var key []byte
	err = s.object(func(k []byte) error {
		n++
		key = append(key[:0], k...)
		if null, err := s.null(); null || err != nil {
			if err == nil && visit != nil {
				visit(key, nil, true)
			}
			return err
		}
		b, err := s.text()
		if err == nil && visit != nil {
			visit(key, b, false)
		}
		return err
	})
	return n, err
}

// parseTags reads what tagText or appendTextMap wrote; nil for the empty text.
func parseTags(text string) map[string]*string {
	if text == "" {
		return nil
	}
	m := map[string]*string{}
	_, _ = walkTextMap([]byte(text), func(key, value []byte, null bool) { // it was checked
		if null {
			m[string(key)] = nil
			return
		}
		v := string(value)
		m[string(key)] = &v
	})
	return m
}

// appendTextMap writes a map as a JSON object, keys in order.
func appendTextMap(dst []byte, m map[string]*string) []byte {
	dst = append(dst, '{')
	for i, k := range sortedKeys(m) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, k), ':')
		if v := m[k]; v != nil {
			dst = appendString(dst, *v)
		} else {
			dst = append(dst, "null"...)
		}
	}
	return append(dst, '}')
}

// textMap decodes an object of strings and nulls.
func (p *parser) textMap(raw []byte) (map[string]*string, error) {
	m := map[string]*string{}
	_, err := walkTextMap(raw, func(key, value []byte, null bool) {
		k := p.slab.string(key)
		if null {
			m[k] = nil
			return
		}
		v := p.slab.string(value)
		m[k] = &v
	})
	if err != nil {
		return nil, fmt.Errorf("JSON byte %d: %w", p.i-len(raw), err)
	}
	return m, nil
}

func (p *parser) addAction() error {
	tags := ""
	x := p.a.addSlot()
	x.DataChange = true
	err := p.object(func(key []byte) error {
		switch string(key) {
		case "path":
			return p.str(&x.Path)
		case "partitionValues":
			return p.values(&x.PartitionValues)
		case "size":
			return p.num(&x.Size)
		case "modificationTime":
			return p.num(&x.ModificationTime)
		case "dataChange":
			return p.flag(&x.DataChange)
		case "stats":
			return p.str(&x.Stats)
		case "tags":
			if p.tagTexts {
				return p.tagText(&tags)
			}
			return p.tags(&x.Tags)
		case "deletionVector":
			return p.dv(&x.DeletionVector)
		case "baseRowId":
			return p.numPtr(&x.BaseRowID)
		case "defaultRowCommitVersion":
			return p.numPtr(&x.DefaultRowCommitVersion)
		case "clusteringProvider":
			return p.name(&x.ClusteringProvider)
		}
		return p.skip()
	})
	if err != nil {
		return fmt.Errorf("add: %w", err)
	}
	if p.tagTexts {
		p.a.tagTexts = append(p.a.tagTexts, tags)
	}
	return checkAdd(x)
}

func (p *parser) removeAction() error {
	r := Remove{DataChange: true} // what a missing flag means
	err := p.object(func(key []byte) error {
		switch string(key) {
		case "path":
			return p.str(&r.Path)
		case "deletionTimestamp":
			return p.numPtr(&r.DeletionTimestamp)
		case "dataChange":
			return p.flag(&r.DataChange)
		case "extendedFileMetadata":
			if null, err := p.null(); null || err != nil {
				return err
			}
			v, err := p.bool()
			r.ExtendedFileMetadata = &v
			return err
		case "partitionValues":
			return p.values(&r.PartitionValues)
		case "size":
			return p.numPtr(&r.Size)
		case "stats":
			return p.str(&r.Stats)
		case "tags":
			return p.tags(&r.Tags)
		case "deletionVector":
			return p.dv(&r.DeletionVector)
		case "baseRowId":
			return p.numPtr(&r.BaseRowID)
		case "defaultRowCommitVersion":
			return p.numPtr(&r.DefaultRowCommitVersion)
		}
		return p.skip()
	})
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	return p.a.remove(&r)
}

func (p *parser) dv(dst **DeletionVector) error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	raw, err := p.raw()
	if err != nil {
		return err
	}
	d := &DeletionVector{}
	if err := json.Unmarshal(raw, d); err != nil {
		return fmt.Errorf("deletionVector: %w", err)
	}
	*dst = d
	return nil
}

func (p *parser) txnAction() error {
	var t Txn
	var version *int64
	err := p.object(func(key []byte) error {
		switch string(key) {
		case "appId":
			if null, err := p.null(); null || err != nil {
				return err
			}
			b, err := p.text()
			t.AppID = string(b)
			return err
		case "version":
			return p.numPtr(&version)
		case "lastUpdated":
			return p.numPtr(&t.LastUpdated)
		}
		return p.skip()
	})
	if err != nil {
		return fmt.Errorf("txn: %w", err)
	}
	if t.AppID == "" || version == nil {
		return errors.New("txn without appId or version")
	}
	t.Version = *version
	p.a.txns = append(p.a.txns, t)
	return nil
}
