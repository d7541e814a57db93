package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/pierrec/lz4/v4"
)

// The codecs of LZ4: files of parquet-mr before 1.13, Hive, Impala and Spark have the first.
const (
	LZ4    Codec = 5
	LZ4Raw Codec = 7
)

// unpackLZ4 decompresses a page of codec LZ4, which fills dst. The format never said what that is: Java writes the frames of
// Hadoop's block streams, some versions of Arrow wrote LZ4's own frames, and older ones a bare block.
func unpackLZ4(dst, src []byte) error {
	err := unpackHadoop(dst, src)
	if err == nil {
		return nil
	}
	if len(src) >= 4 && binary.LittleEndian.Uint32(src) == 0x184D2204 {
		return unpackFrames(dst, src)
	}
	if unpackBlock(dst, src) == nil {
		return nil
	}
	return err
}

// unpackHadoop reads blocks, each with its length when unpacked and then chunks, each with its length as it is here, until
// they amount to it. Lengths are big endian, of 4 bytes.
func unpackHadoop(dst, src []byte) error {
	length := func(most int) (int, error) {
		if len(src) < 4 {
			return 0, errors.New("it is cut off")
		}
		n := binary.BigEndian.Uint32(src)
		if src = src[4:]; uint64(n) > uint64(most) {
			return 0, fmt.Errorf("a length of %d where %d bytes are left", n, most)
		}
		return int(n), nil
	}
	for len(src) > 0 {
		block, err := length(len(dst))
		for err == nil && block > 0 {
			var chunk, n int
			if chunk, err = length(len(src) - 4); err != nil {
				break
			}
			if n, err = lz4.UncompressBlock(src[:chunk], dst[:block:block]); err == nil && n == 0 {
				err = errors.New("a chunk of nothing")
			}
			dst, src, block = dst[n:], src[chunk:], block-n
		}
		if err != nil {
			return err
		}
	}
	if len(dst) > 0 {
		return fmt.Errorf("it ends %d bytes early", len(dst))
	}
	return nil
}

func unpackFrames(dst, src []byte) error {
	r := lz4.NewReader(bytes.NewReader(src))
	if _, err := io.ReadFull(r, dst); err != nil {
		return err
	}
	if n, err := r.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return fmt.Errorf("more than %d bytes: %w", len(dst), err)
	}
	return nil
}

func unpackBlock(dst, src []byte) error {
	n, err := lz4.UncompressBlock(src, dst[:len(dst):len(dst)])
	if err == nil && n != len(dst) {
		err = fmt.Errorf("%d bytes of %d", n, len(dst))
	}
	return err
}

// lz4Codec gives codec LZ4 to the Arrow library, which reads checkpoints and what this package does not.
type lz4Codec struct{}

var errReadOnly = errors.New("codec LZ4 is only read: Parquet has replaced it")

func init() { compress.RegisterCodec(compress.Codecs.Lz4, lz4Codec{}) }

func (lz4Codec) DecodeWithError(dst, src []byte) ([]byte, error) {
	if err := unpackLZ4(dst, src); err != nil {
		return nil, err
	}
	return dst, nil
}

func (c lz4Codec) Decode(dst, src []byte) []byte {
	out, err := c.DecodeWithError(dst, src)
	if err != nil {
		panic(err) // what the library's interface asks for; it calls DecodeWithError
	}
	return out
}

func (lz4Codec) Encode(_, _ []byte) []byte             { panic(errReadOnly) }
func (lz4Codec) EncodeLevel(_, _ []byte, _ int) []byte { panic(errReadOnly) }
func (lz4Codec) CompressBound(int64) int64             { return 0 }
