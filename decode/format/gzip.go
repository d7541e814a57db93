package format

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/klauspost/compress/gzip"

	"github.com/ledgerlake/ledgerlake/decode"
)

// maxInflated bounds what one value may decompress to (I8).
const maxInflated = 64 << 20

// gzipped decompresses each value before the format below sees it. Positions in its errors are those of the
// decompressed value.
type gzipped struct{ decode.Format }

func (g gzipped) Columns(ctx context.Context, samples [][]byte) (*arrow.Schema, error) {
	var z inflater
	var out [][]byte
	for _, s := range samples {
		if plain, bad := z.inflate(s); bad == nil {
			out = append(out, bytes.Clone(plain))
		}
	}
	if len(samples) > 0 && len(out) == 0 {
		return nil, fmt.Errorf("%w that is gzip (%d samples)", decode.ErrNoSamples, len(samples))
	}
	return g.Format.Columns(ctx, out)
}

func (g gzipped) NewDecoder(payload *arrow.Schema) (decode.Decoder, error) {
	d, err := g.Format.NewDecoder(payload)
	if err != nil {
		return nil, err
	}
	return &gunzip{Decoder: d}, nil
}

var _ decode.Opener = (*gunzip)(nil)

type gunzip struct {
	decode.Decoder
	z inflater
}

// Inner is the decoder of what is compressed.
func (g *gunzip) Inner() decode.Decoder { return g.Decoder }

// Open implements decode.Opener.
func (g *gunzip) Open(value []byte) ([]byte, error) {
	plain, bad := g.z.inflate(value)
	if bad != nil {
		return nil, bad
	}
	return plain, nil
}

func (g *gunzip) Append(value []byte) error {
	if value == nil {
		return g.Decoder.Append(nil)
	}
	plain, err := g.Open(value)
	if err != nil {
		return err
	}
	return g.Decoder.Append(plain)
}

// Bytes estimates the memory that the rows take.
func (g *gunzip) Bytes() int64 {
	n := int64(cap(g.z.out))
	if s, ok := g.Decoder.(interface{ Bytes() int64 }); ok {
		n += s.Bytes()
	}
	return n
}

// keepInflated is the size up to which the buffer of a value is used again.
const keepInflated = 1 << 20

// inflater decompresses one value at a time into a buffer of its own.
type inflater struct {
	r   gzip.Reader
	in  bytes.Reader
	out []byte
}

func (z *inflater) inflate(value []byte) ([]byte, *decode.Error) {
	if cap(z.out) > keepInflated {
		z.out = nil
	}
	z.in.Reset(value)
	err := z.r.Reset(&z.in)
	if err == nil {
		err = z.read()
	}
	if err != nil {
		return nil, &decode.Error{Reason: "gzip: " + err.Error(), Pos: len(value) - z.in.Len()}
	}
	return z.out, nil
}

var errInflated = fmt.Errorf("the value decompresses to more than %d MiB", maxInflated>>20)

func (z *inflater) read() error {
	z.out = z.out[:0]
	for {
		if len(z.out) == cap(z.out) {
			z.out = append(z.out, 0)[:len(z.out)]
		}
		n, err := z.r.Read(z.out[len(z.out):cap(z.out)])
		z.out = z.out[:len(z.out)+n]
		switch {
		case len(z.out) > maxInflated:
			return errInflated
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
