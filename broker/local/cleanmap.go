package local

import (
	"crypto/sha256"
	"errors"
	"io"

	"github.com/ledgerlake/ledgerlake/record"
)

// keyHash stands for a key. It is cut from a cryptographic hash: two keys with the same one would cost the older
// key its record, so nobody may be able to find some.
type keyHash [16]byte

func hashKey(key []byte) keyHash {
	sum := sha256.Sum256(key)
	return keyHash(sum[:16])
}

// keyBytes is about what one key takes in the map.
const keyBytes = 64

func isEOF(err error) bool { return errors.Is(err, io.EOF) }

// errMapFull ends the making of the map before a batch.
var errMapFull = errors.New("the map of keys is full")

// buildMap finds the newest offset of each key in the dirty segments. Aborted records and those without a key do
// not count. It ends before the batch that would make the map too large.
func (c *cleaning) buildMap() error {
	c.latest = map[keyHash]record.Offset{}
	limit := int(max(c.l.cfg.CleanerMemory/keyBytes, 1))
	first := c.firstDirty()
	if first < 0 {
		c.mapEnd = c.segs[len(c.segs)-1].info.Next
		return nil
	}
	c.mapEnd = c.segs[first].info.Base
	it := record.Iterator{MaxBytes: c.l.cfg.MaxBatchMemory}
	for _, s := range c.segs { // from the first on, since the filter must see every marker
		err := c.batches(s, func(b record.Batch) error {
			if !c.aborted.Keep(b) || s.cleaned != 0 {
				return nil
			}
			if len(c.latest) > 0 && len(c.latest)+int(b.Count) > limit {
				c.mapEnd = b.BaseOffset
				return errMapFull
			}
			if err := it.Reset(b); err != nil {
				return err
			}
			for it.Next() {
				if r := it.Record(); r.Key != nil {
					c.latest[hashKey(r.Key)] = r.Offset
				}
			}
			return it.Err()
		})
		if errors.Is(err, errMapFull) {
			break
		}
		if err != nil {
			return err
		}
		c.mapEnd = s.info.Next
	}
	return nil
}

func (c *cleaning) firstDirty() int {
	for i, s := range c.segs {
		if s.cleaned == 0 {
			return i
		}
	}
	return -1
}
