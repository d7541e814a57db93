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
	maxTopic         = 4 << 10       // bytes of a name
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

// head is what an index says before its blocks.
type head struct {
	size   int64  // of the data object
	header int64  // of each block
	last   int64  // the last entry
	length int64  // bytes of all entries together
	topic  string // tenant/namespace/topic of the partition; empty: the ledger does not say
	blocks int64
	meta   int64 // bytes of the ledger's metadata
}

// block is where one begins: its first entry, and its place in the data object.
type block struct{ first, offset int64 }

// parseHead reads the beginning of an index object of whole bytes. object names it in errors. need is how many bytes of it
// are needed; x is nil when b has fewer. With an error, x has what is known.
func parseHead(object string, b []byte, whole int64) (x *head, need int64, err error) {
	bad := func(at int, format string, args ...any) error {
		return &DamageError{Object: object, Offset: int64(at), Reason: fmt.Sprintf(format, args...)}
	}
	x = &head{last: -1}
	if len(b) < indexFixed {
		return x, 0, bad(len(b), "an index of %d bytes", len(b))
	}
	switch m := binary.BigEndian.Uint32(b); m {
	case magicIndex:
	case magicStreamIndex:
		return x, 0, fmt.Errorf("%s: %w: the index of a streaming offload, of several ledgers in one object", object, broker.ErrUnsupported)
	default:
		return x, 0, bad(0, "it begins with %08x, want %08x", m, uint32(magicIndex))
	}
	if n := int64(binary.BigEndian.Uint32(b[4:])); n != whole {
		return x, 0, bad(4, "the index says that it has %d bytes, and it has %d", n, whole)
	}
	x.size, x.header = int64(binary.BigEndian.Uint64(b[8:])), int64(binary.BigEndian.Uint64(b[16:]))
	x.blocks, x.meta = int64(binary.BigEndian.Uint32(b[24:])), int64(binary.BigEndian.Uint32(b[28:]))
	if indexFixed+x.meta+x.blocks*indexEntry != whole {
		return x, 0, bad(24, "%d blocks and metadata of %d bytes do not fill an index of %d", x.blocks, x.meta, whole)
	}
	if need = indexFixed + x.meta; need > int64(len(b)) {
		return nil, need, nil
	}
	if err := x.metadata(b[indexFixed:need]); err != nil {
		return x, need, bad(indexFixed, "the ledger's metadata: %v", err)
	}
	if x.header < blockHeader || x.header > 1<<20 {
		return x, need, bad(16, "block headers of %d bytes", x.header)
	}
	return x, need, nil
}

// parseBlocks reads the blocks of a whole index object.
func (x *head) parseBlocks(object string, b []byte) ([]block, error) {
	bad := func(at int64, format string, args ...any) error {
		return &DamageError{Object: object, Offset: indexFixed + x.meta + at, Reason: fmt.Sprintf(format, args...)}
	}
	rest := b[indexFixed+x.meta:]
	blocks := make([]block, 0, x.blocks)
	before := block{first: -1, offset: -x.header}
	for i := range x.blocks {
		at := rest[i*indexEntry:]
		k := block{first: int64(binary.BigEndian.Uint64(at)), offset: int64(binary.BigEndian.Uint64(at[12:]))}
		if k.first <= before.first || k.offset < before.offset+x.header || k.offset > x.size-x.header || i == 0 && k != (block{}) {
			return nil, bad(i*indexEntry, "block %d begins with entry %d at byte %d of %d, behind entry %d at %d", i, k.first, k.offset, x.size, before.first, before.offset)
		}
		blocks, before = append(blocks, k), k
	}
	if len(blocks) == 0 || x.last < before.first {
		return nil, bad(0, "%d blocks, and the last entry is %d", len(blocks), x.last)
	}
	return blocks, nil
}

// metadata reads what is needed of a LedgerMetadataFormat.
func (x *head) metadata(b []byte) error {
	const length, last, state, custom, closed = 3, 4, 5, 11, 3
	at := uint64(closed)
	r := pbfield.Read(b)
	for r.Next() {
		f := r.Field()
		switch f.Num {
		case length:
			x.length = f.Int()
		case last:
			x.last = f.Int()
		case state:
			at = f.Uint
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
				x.topic = "" // not to be relied on
				return c.Err()
			}
			if key == "pulsar/managed-ledger" {
				if len(value) > maxTopic {
					return fmt.Errorf("the name of a topic of %d bytes", len(value))
				}
				x.topic = topicOf(value)
			}
		}
	}
	if err := r.Err(); err != nil {
		x.topic = ""
		return err
	}
	if at != closed {
		return fmt.Errorf("the ledger was not closed (state %d)", at)
	}
	return nil
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
