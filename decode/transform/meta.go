package transform

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/record"
)

// meta is something of the record around a value.
type meta uint8

const (
	metaPartition meta = iota
	metaOffset
	metaTopic
	metaTimestamp
	metaTimestampType
	metaKey
	metaHeader
	metaSchemaID
	metaLeaderEpoch
)

// metaNames are the names of the sources, in the order of the constants.
func metaNames() []string {
	return []string{"partition", "offset", "topic", "timestamp", "timestamp_type", "key", "headers", "schema_id", "leader_epoch"}
}

// metaNode finds a source by what stands behind "kafka.".
func metaNode(path []string) (*node, error) {
	if len(path) == 0 {
		return nil, nil //nolint:nilnil // the whole record: for a tree
	}
	for i, name := range metaNames() {
		if name != path[0] {
			continue
		}
		m := meta(i)
		switch {
		case m == metaHeader && len(path) == 2 && path[1] != "":
			return &node{op: opMeta, meta: m, name: path[1]}, nil
		case m != metaHeader && len(path) == 1:
			return &node{op: opMeta, meta: m}, nil
		}
	}
	return nil, fmt.Errorf("there is no source kafka.%s: want one of kafka.%s, with kafka.headers.NAME", strings.Join(path, "."), strings.Join(metaNames(), ", kafka."))
}

// around is the record that a row is made of.
type around struct {
	topic     []byte
	partition int32
	batch     record.BatchHeader
	rec       *record.Record // nil: none
}

// value gives what the record has; numbers without a meaning there are null.
func (a *around) value(n *node) (value, error) {
	if n.meta == metaTimestamp && a.rec != nil && (a.rec.Timestamp > math.MaxInt64/1000 || a.rec.Timestamp < math.MinInt64/1000) {
		return value{}, &typeError{fmt.Sprintf("the record's time, %d milliseconds, is out of range", a.rec.Timestamp)}
	}
	return a.get(n), nil
}

func (a *around) get(n *node) value {
	if a.rec == nil {
		return value{}
	}
	switch n.meta {
	case metaPartition:
		return wholeValue(int64(a.partition))
	case metaOffset:
		return wholeValue(int64(a.rec.Offset))
	case metaTopic:
		return value{kind: str, text: a.topic}
	case metaTimestamp:
		if a.rec.Timestamp != -1 {
			return wholeValue(a.rec.Timestamp * 1000)
		}
	case metaTimestampType: // -1: there is none; 0: the producer's; 1: the broker's
		switch {
		case a.rec.Timestamp == -1:
			return wholeValue(-1)
		case a.batch.LogAppendTime():
			return wholeValue(1)
		}
		return wholeValue(0)
	case metaKey:
		return bytesValue(a.rec.Key)
	case metaHeader:
		for i := len(a.rec.Headers) - 1; i >= 0; i-- {
			if h := &a.rec.Headers[i]; string(h.Key) == n.name {
				return bytesValue(h.Value)
			}
		}
	case metaSchemaID:
		if v := a.rec.Value; len(v) >= 5 && v[0] == 0 {
			return wholeValue(int64(binary.BigEndian.Uint32(v[1:])))
		}
	case metaLeaderEpoch:
		if a.batch.LeaderEpoch >= 0 {
			return wholeValue(int64(a.batch.LeaderEpoch))
		}
	}
	return value{}
}

func bytesValue(b []byte) value {
	if b == nil {
		return value{}
	}
	return value{kind: str, text: b}
}

// appendBytes appends bytes of the record for a column: base64 for binary ones. Others take text alone.
func appendBytes(dst, b []byte, toBinary bool) ([]byte, bool) {
	if toBinary {
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, b)
		return append(dst, '"'), true
	}
	return decode.AppendString(dst, b), utf8.Valid(b)
}

// object is the record as trees see it.
func (a *around) object() (map[string]any, error) {
	out := map[string]any{}
	for i, name := range metaNames() {
		if meta(i) == metaHeader {
			headers := map[string]any{}
			for _, h := range a.rec.Headers {
				headers[string(h.Key)] = nil
				if h.Value != nil {
					headers[string(h.Key)] = string(h.Value)
				}
			}
			out[name] = headers
			continue
		}
		v, err := a.value(&node{meta: meta(i)})
		if err != nil {
			return nil, err
		}
		switch v.kind {
		case number:
			out[name] = v.inTree()
		case str:
			out[name] = string(v.text)
		default:
			out[name] = nil
		}
	}
	return out, nil
}
