package avro

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/sink"
)

// Container is a message that is an object container file of its own (specification, "Object Container Files"), with
// one record: a message is one row. The codecs are null, deflate, snappy and zstandard.
func Container() decode.Format { return &containers{} }

// maxBlock bounds what a block may decompress to (I8).
const maxBlock = 64 << 20

const syncSize = 16

type containers struct {
	mu    sync.Mutex
	known byText[*node]
}

// maxText bounds the texts of schemas that a cache keeps: they come with the messages (I8). One text alone may be longer.
const maxText = 4 << 20

// byText keeps what was made of schemas.
type byText[T any] struct {
	of   map[string]T
	size int // bytes of the texts
}

func (c *byText[T]) put(text []byte, v T) {
	if c.of == nil || len(c.of) >= maxPrograms || c.size+len(text) > maxText {
		c.of, c.size = map[string]T{}, 0
	}
	c.of[string(text)] = v
	c.size += len(text)
}

func (f *containers) schema(text []byte) (*node, *decode.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.known.of[string(text)]; n != nil {
		return n, nil
	}
	n, err := parseSchema(string(text), nil)
	if err != nil {
		return nil, &decode.Error{Reason: err.Error()}
	}
	f.known.put(text, n)
	return n, nil
}

func (f *containers) Columns(_ context.Context, samples [][]byte) (*arrow.Schema, error) {
	why := fmt.Errorf("%w that is an Avro container (%d samples)", decode.ErrNoSamples, len(samples))
	for i := len(samples) - 1; i >= 0; i-- {
		h, bad := readHeader(samples[i])
		if bad != nil {
			continue
		}
		n, bad := f.schema(h.schema)
		if bad == nil {
			return columns(n)
		}
		why = fmt.Errorf("%w: %w", decode.ErrNoSamples, bad)
	}
	return nil, why
}

func (f *containers) NewDecoder(payload *arrow.Schema) (decode.Decoder, error) {
	r, err := sink.NewBatch(payload)
	if err != nil {
		return nil, err
	}
	return &containerDecoder{decoder: decoder{Batch: r}, format: f}, nil
}

type containerDecoder struct {
	decoder
	format   *containers
	programs byText[*program]
	block    []byte // the last block, decompressed
}

func (d *containerDecoder) Append(value []byte) error {
	if value == nil {
		return d.Tombstone()
	}
	h, bad := readHeader(value)
	if bad != nil {
		return bad
	}
	p := d.programs.of[string(h.schema)]
	if p == nil {
		n, bad := d.format.schema(h.schema)
		if bad != nil {
			return bad
		}
		p = compile(n, d.Fields)
		d.programs.put(h.schema, p)
	}
	data, bad := d.only(&h, value)
	if bad != nil {
		return bad
	}
	if err := d.Begin(len(data)); err != nil {
		return err
	}
	return d.message(p, data, 0)
}

// header is what stands before the blocks.
type header struct {
	schema, codec, sync []byte
	end                 int
}

func badContainer(pos int, format string, args ...any) *decode.Error {
	return &decode.Error{Reason: "Avro container: " + fmt.Sprintf(format, args...), Pos: pos}
}

func readHeader(b []byte) (h header, bad *decode.Error) {
	if len(b) < 4 || string(b[:4]) != "Obj\x01" {
		return h, badContainer(0, "the value does not begin with Obj 1")
	}
	i := 4
	for {
		count, next := long(b, i)
		if next >= 0 && count < 0 {
			count = -count
			_, next = long(b, next)
		}
		if next < 0 || count < 0 || count > int64(len(b)) {
			return h, badContainer(i, "the header is damaged")
		}
		if i = next; count == 0 {
			break
		}
		for range count {
			var key, val []byte
			for _, dst := range []*[]byte{&key, &val} {
				n, at := length(b, i)
				if at < 0 {
					return h, badContainer(i, "the header is damaged")
				}
				*dst, i = b[at:at+n], at+n
			}
			switch string(key) {
			case "avro.schema":
				h.schema = val
			case "avro.codec":
				h.codec = val
			}
		}
	}
	if len(b)-i < syncSize {
		return h, badContainer(i, "the header ends early")
	}
	h.sync, h.end = b[i:i+syncSize], i+syncSize
	return h, nil
}

// only gives the one record of the container.
func (d *containerDecoder) only(h *header, b []byte) ([]byte, *decode.Error) {
	var data []byte
	total := int64(0)
	for i := h.end; i < len(b); {
		count, next := long(b, i)
		if next < 0 || count < 0 {
			return nil, badContainer(i, "a block has no valid count")
		}
		n, at := length(b, next)
		if at < 0 || len(b)-at-n < syncSize || !bytes.Equal(b[at+n:at+n+syncSize], h.sync) {
			return nil, badContainer(next, "a block ends early, or not with the marker")
		}
		if total += min(count, 2); total > 1 {
			return nil, badContainer(i, "it holds more than one record, and a message is one row")
		}
		if count == 1 {
			var err error
			if data, err = d.unpack(string(h.codec), b[at:at+n]); err != nil {
				return nil, badContainer(at, "%v", err)
			}
		}
		i = at + n + syncSize
	}
	if total == 0 {
		return nil, badContainer(h.end, "it holds no record")
	}
	return data, nil
}

var (
	errTooLarge = fmt.Errorf("a block is larger than %d MiB", maxBlock>>20)
	errChecksum = errors.New("the checksum of a block is wrong")
)

// unzstd is shared: DecodeAll is safe for concurrent use.
var unzstd = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxBlock))
})

func (d *containerDecoder) unpack(codec string, b []byte) (_ []byte, err error) {
	switch codec {
	case "", "null":
		return b, nil
	case "deflate":
		r := flate.NewReader(bytes.NewReader(b))
		buf := bytes.NewBuffer(d.block[:0])
		_, err = io.Copy(buf, io.LimitReader(r, maxBlock+1))
		d.block = buf.Bytes()
		if err == nil && len(d.block) > maxBlock {
			err = errTooLarge
		}
	case "snappy":
		if len(b) < 4 {
			return nil, errChecksum
		}
		n, err := snappy.DecodedLen(b[:len(b)-4])
		if err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
		if n > maxBlock {
			return nil, errTooLarge
		}
		if d.block, err = snappy.Decode(d.block[:cap(d.block)], b[:len(b)-4]); err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
		if crc32.ChecksumIEEE(d.block) != binary.BigEndian.Uint32(b[len(b)-4:]) {
			return nil, errChecksum
		}
	case "zstandard":
		z, zerr := unzstd()
		if zerr != nil {
			return nil, zerr
		}
		d.block, err = z.DecodeAll(b, d.block[:0])
	default:
		return nil, fmt.Errorf("the codec %q is not null, deflate, snappy or zstandard", codec)
	}
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return d.block, nil
}
