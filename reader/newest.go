package reader

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
)

// newest finds the last offset of each key of a partition. Keys that do not fit into memory go to files, each with a
// share of the keys, that are gone through one by one afterwards; a share that is still too large is divided again.
type newest struct {
	limit int64
	dir   string
	depth int
	seed  maphash.Seed
	keys  map[placedKey]int64
	bytes int64
	files []*shareFile // nil: all is in memory so far
	buf   []byte
}

// placedKey is a key in its partition.
type placedKey struct {
	partition int32
	key       string
}

const (
	shares = 32
	// keyCost is about what an entry takes beside its key.
	keyCost = 80
	// maxDivisions of a share: 32^4 files of keys would be terabytes. More means that the hash does not divide them.
	maxDivisions = 4
)

func newNewest(limit int64, dir string) *newest {
	return &newest{limit: limit, dir: dir, seed: maphash.MakeSeed(), keys: map[placedKey]int64{}}
}

// put takes a record. Those of a key come in the order of their offsets, so that the last one wins.
func (n *newest) put(partition int32, offset int64, key []byte) error {
	k := placedKey{partition, string(key)}
	if _, ok := n.keys[k]; !ok {
		if n.bytes += int64(len(key)) + keyCost; n.bytes > n.limit && len(n.keys) > 0 {
			if err := n.spill(); err != nil {
				return err
			}
			n.bytes = int64(len(key)) + keyCost
		}
	}
	n.keys[k] = offset
	return nil
}

// spill moves the keys in memory to the files. A key may be in a file many times: the last one counts.
func (n *newest) spill() error {
	if n.files == nil {
		if n.depth == maxDivisions {
			return errors.New("the keys do not fit into memory and cannot be divided: raise the memory limit")
		}
		for range shares {
			f, err := newShareFile(n.dir)
			if err != nil {
				return err
			}
			n.files = append(n.files, f)
		}
	}
	for k, off := range n.keys {
		n.buf = binary.AppendVarint(n.buf[:0], int64(k.partition))
		n.buf = binary.AppendVarint(n.buf, off)
		n.buf = binary.AppendUvarint(n.buf, uint64(len(k.key)))
		n.buf = append(n.buf, k.key...)
		if _, err := n.files[maphash.Comparable(n.seed, k)%shares].w.Write(n.buf); err != nil {
			return fmt.Errorf("write keys to a temporary file: %w", err)
		}
	}
	clear(n.keys)
	n.bytes = 0
	return nil
}

// each gives the newest offset of every key, in no order, and their number.
func (n *newest) each(give func(partition int32, offset int64)) (count int64, err error) {
	if n.files == nil {
		for k, off := range n.keys {
			give(k.partition, off)
		}
		return int64(len(n.keys)), nil
	}
	if err := n.spill(); err != nil {
		return 0, err
	}
	for _, f := range n.files {
		share := newNewest(n.limit, n.dir)
		share.depth = n.depth + 1
		err := f.read(share.put)
		if err == nil {
			var k int64
			k, err = share.each(give)
			count += k
		}
		if err = errors.Join(err, share.close(), f.close()); err != nil {
			return 0, err
		}
	}
	return count, nil
}

func (n *newest) close() error {
	var errs []error
	for _, f := range n.files {
		errs = append(errs, f.close())
	}
	n.files = nil
	return errors.Join(errs...)
}

// shareFile is a temporary file without a name: it is gone with the process, however that ends.
type shareFile struct {
	f *os.File
	w *bufio.Writer
}

func newShareFile(dir string) (*shareFile, error) {
	f, err := os.CreateTemp(dir, "ledgerlake-keys-")
	if err == nil {
		err = os.Remove(f.Name())
	}
	if err != nil {
		return nil, fmt.Errorf("make a temporary file for keys: %w", err)
	}
	return &shareFile{f, bufio.NewWriterSize(f, 32<<10)}, nil
}

// read gives the entries in the order in which they were written.
func (s *shareFile) read(put func(partition int32, offset int64, key []byte) error) error {
	err := s.w.Flush()
	if err == nil {
		_, err = s.f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("temporary file of keys: %w", err)
	}
	in := bufio.NewReaderSize(s.f, 256<<10)
	var key []byte
	for {
		partition, err := binary.ReadVarint(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var offset int64
		var size uint64
		if err == nil {
			offset, err = binary.ReadVarint(in)
		}
		if err == nil {
			size, err = binary.ReadUvarint(in)
		}
		if err == nil {
			if uint64(cap(key)) < size {
				key = make([]byte, size)
			}
			key = key[:size]
			_, err = io.ReadFull(in, key)
		}
		if err != nil {
			return fmt.Errorf("read back a temporary file of keys: %w", err)
		}
		if err := put(int32(partition), offset, key); err != nil {
			return err
		}
	}
}

func (s *shareFile) close() error {
	if s.f == nil {
		return nil
	}
	f := s.f
	s.f = nil
	return f.Close()
}
