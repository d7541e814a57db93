package record

import (
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// open makes the window read the content of body, which its codec compressed. release gives back what that uses.
func (w *scanWindowed) open(body []byte) (release func(), err error) {
	if w.codec == Snappy {
		return w.openSnappy(body)
	}
	in := bytesReaders.Get().(*bytes.Reader)
	in.Reset(body)
	giveBack := func() {}
	switch w.codec {
	case None:
		w.r = in
	case Gzip:
		r := gzipReaders.Get().(*gzip.Reader)
		w.r, err = r, r.Reset(in)
		giveBack = func() { gzipReaders.Put(r) }
	case LZ4:
		w.r = lz4.NewReader(in) // not from the pool: see decompressLZ4
	case Zstd:
		giveBack, err = w.openZstd(in, zstdWindow(body))
	}
	release = func() {
		giveBack()
		putBytesReader(in)
	}
	if err != nil {
		release()
	}
	return release, err
}

func (w *scanWindowed) openZstd(in io.Reader, window uint64) (release func(), err error) {
	if window > DefaultMaxBytes {
		return func() {}, errTooLarge
	}
	var d *zstd.Decoder
	if window > scanWindow {
		d = newZstdStream(DefaultMaxBytes)
	} else {
		d, _ = zstdStreams.Get().(*zstd.Decoder)
	}
	if d == nil {
		return func() {}, errors.New("no zstd decoder")
	}
	release = func() {
		_ = d.Reset(nil) // lets the input go
		zstdStreams.Put(d)
	}
	if window > scanWindow {
		release = d.Close
	}
	w.r = d
	return release, d.Reset(in)
}

func (w *scanWindowed) openSnappy(body []byte) (release func(), err error) {
	var blocks [][]byte
	if err := snappyBlocks(body, func(b []byte) error { blocks = append(blocks, b); return nil }); err != nil {
		return nil, err
	}
	r := &snappyReader{blocks: blocks, limit: w.limit, buf: w.block}
	w.r = r
	return func() {
		if cap(r.buf) <= keepBlock {
			w.block = r.buf
		}
	}, nil
}

// snappyReader gives the content of raw snappy blocks.
type snappyReader struct {
	blocks [][]byte
	limit  int
	buf    []byte
	left   []byte
}

func (r *snappyReader) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		if len(r.blocks) == 0 {
			return 0, io.EOF
		}
		var err error
		if r.buf, err = appendSnappy(r.buf[:0], r.blocks[0], r.limit); err != nil {
			return 0, err
		}
		r.left, r.blocks = r.buf, r.blocks[1:]
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}
