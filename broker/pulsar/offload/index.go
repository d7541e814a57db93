package offload

import (
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/pbfield"
)

const (
	magicIndex       = 0xDE47DE47
	magicStreamIndex = 0x3D1FB0BC // several ledgers in one object: no release of Pulsar writes it by itself
	indexFixed       = 4 + 4 + 8 + 8 + 4 + 4
	indexEntry       = 8 + 4 + 8
	blockHeader      = 4 + 8 + 8 + 8 // what is used of a block's header
)

// DamageError says where an object is not what an offloader writes. Another try does not mend it.
type DamageError struct {
	Object string
	Offset int64 // bytes into the object
	Reason string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("offloaded object %s is damaged at byte %d: %s", e.Object, e.Offset, e.Reason)
}

// Unwrap makes it one that ends a run.
func (e *DamageError) Unwrap() error { return broker.ErrGiveUp }

// index says where the entries of a ledger stand in its data object.
type index struct {
	size   int64  // of the data object
	header int64  // of each block
	last   int64  // the last entry
	length int64  // bytes of all entries together
	topic  string // tenant/namespace/topic of the partition; empty: the ledger does not say
	blocks []block
}

// block is where one begins: its first entry, and its place in the data object.
type block struct{ first, offset int64 }

// parseIndex reads an index object. object names it in errors.
func parseIndex(object string, b []byte) (*index, error) {
	bad := func(at int, format string, args ...any) error {
		return &DamageError{Object: object, Offset: int64(at), Reason: fmt.Sprintf(format, args...)}
	}
	if len(b) < indexFixed {
		return nil, bad(len(b), "an index of %d bytes", len(b))
	}
	switch m := binary.BigEndian.Uint32(b); m {
	case magicIndex:
	case magicStreamIndex:
		return nil, fmt.Errorf("%s: %w: the index of a streaming offload, of several ledgers in one object", object, broker.ErrUnsupported)
	default:
		return nil, bad(0, "it begins with %08x, want %08x", m, uint32(magicIndex))
	}
	if n := int(binary.BigEndian.Uint32(b[4:])); n != len(b) {
		return nil, bad(4, "the index says that it has %d bytes, and it has %d", n, len(b))
	}
	x := &index{size: int64(binary.BigEndian.Uint64(b[8:])), header: int64(binary.BigEndian.Uint64(b[16:])), last: -1}
	count, meta := int64(binary.BigEndian.Uint32(b[24:])), int64(binary.BigEndian.Uint32(b[28:]))
	if indexFixed+meta+count*indexEntry != int64(len(b)) {
		return nil, bad(24, "%d blocks and metadata of %d bytes do not fill an index of %d", count, meta, len(b))
	}
	if x.header < blockHeader || x.header > 1<<20 {
		return nil, bad(16, "block headers of %d bytes", x.header)
	}
	rest := b[indexFixed:]
	if err := x.metadata(rest[:meta]); err != nil {
		return nil, bad(indexFixed, "the ledger's metadata: %v", err)
	}
	rest = rest[meta:]
	for i := range count {
		at := rest[i*indexEntry:]
		k := block{first: int64(binary.BigEndian.Uint64(at)), offset: int64(binary.BigEndian.Uint64(at[12:]))}
		before := block{first: -1, offset: -x.header}
		if i > 0 {
			before = x.blocks[i-1]
		}
		if k.first <= before.first || k.offset < before.offset+x.header || k.offset > x.size-x.header || i == 0 && k != (block{}) {
			return nil, bad(indexFixed+int(meta+i*indexEntry), "block %d begins with entry %d at byte %d of %d, behind entry %d at %d", i, k.first, k.offset, x.size, before.first, before.offset)
		}
		x.blocks = append(x.blocks, k)
	}
	if count == 0 || x.last < x.blocks[count-1].first {
		return nil, bad(indexFixed, "%d blocks, and the last entry is %d", count, x.last)
	}
	return x, nil
}

// metadata reads what is needed of a LedgerMetadataFormat.
func (x *index) metadata(b []byte) error {
	const length, last, state, custom, closed = 3, 4, 5, 11, 3
	r := pbfield.Read(b)
	for r.Next() {
		f := r.Field()
		switch f.Num {
		case length:
			x.length = f.Int()
		case last:
			x.last = f.Int()
		case state:
			if f.Uint != closed {
				return fmt.Errorf("the ledger was not closed (state %d)", f.Uint)
			}
		case custom:
			var key, value string
			c := pbfield.Read(f.Bytes)
			for c.Next() {
				switch c.Field().Num {
				case 1:
					key = string(c.Field().Bytes)
				case 2:
					value = string(c.Field().Bytes)
				}
			}
			if c.Err() != nil {
				return c.Err()
			}
			if key == "pulsar/managed-ledger" {
				x.topic = topicOf(value)
			}
		}
	}
	return r.Err()
}

// topicOf turns tenant/namespace/persistent/TOPIC, as brokers name managed ledgers, into tenant/namespace/topic. Names
// with a cluster, as Pulsar 1 had them, stay as they are.
func topicOf(managed string) string {
	p := strings.Split(managed, "/")
	if len(p) != 4 || p[2] != "persistent" {
		return managed
	}
	name, err := url.QueryUnescape(p[3])
	if err != nil {
		name = p[3]
	}
	return p[0] + "/" + p[1] + "/" + name
}
