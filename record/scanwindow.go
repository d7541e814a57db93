package record

import (
	"errors"
	"io"
)

// scanWindowed shows the decompressed records piece by piece.
type scanWindowed struct {
	r     io.Reader
	buf   []byte
	block []byte // of snappy, decompressed
	have  []byte // part of buf: what is not read yet
	base  int64  // position of have in the records
	limit int    // bytes that may still come
	end   bool   // nothing follows have
	codec Codec
	err   error // of r
}

func (w *scanWindowed) reset(codec Codec, limit int) {
	*w = scanWindowed{buf: w.buf, block: w.block, codec: codec, limit: limit}
}

// fill makes n bytes available, or all there are. n is at most the length of a varint.
func (w *scanWindowed) fill(n int) {
	if len(w.have) >= n || w.end {
		return
	}
	kept := copy(w.buf, w.have)
	for kept < n && !w.end {
		got, err := w.r.Read(w.buf[kept:])
		kept += got
		if w.limit -= got; w.limit < 0 {
			err = errTooLarge
		}
		if err != nil {
			w.end = true
			if !errors.Is(err, io.EOF) {
				w.err = w.failed(err)
			}
		}
	}
	w.have = w.buf[:kept]
}

// failed gives the error of a decompressor as Iterator does.
func (w *scanWindowed) failed(err error) error {
	if errors.Is(err, errTooLarge) {
		return corrupt(HeaderSize, int64(w.limit), int64(w.limit)+1, "decompressed size above the limit")
	}
	return corrupt(HeaderSize, 0, 0, w.codec.String()+" data: "+err.Error())
}

// skip goes n bytes on; false when there are fewer.
func (w *scanWindowed) skip(n int64) bool {
	if n >= 0 && n <= int64(len(w.have)) {
		w.have = w.have[n:]
		w.base += n
		return true
	}
	for n > 0 {
		w.fill(1)
		k := min(n, int64(len(w.have)))
		if k == 0 {
			return false
		}
		w.have = w.have[k:]
		w.base += k
		n -= k
	}
	return true
}

// varlong reads a number of up to 64 bits; ok is false when there is none.
func (w *scanWindowed) varlong() (v int64, ok bool) {
	if len(w.have) < 10 {
		w.fill(10)
	}
	v, next := readVarlong(w.have, 0)
	if next < 0 {
		return 0, false
	}
	w.have = w.have[next:]
	w.base += int64(next)
	return v, true
}

// varint reads a number of up to 32 bits.
func (w *scanWindowed) varint() (v int64, ok bool) {
	if len(w.have) < 5 {
		w.fill(5)
	}
	n, next := readVarint(w.have, 0)
	if next < 0 {
		return 0, false
	}
	w.have = w.have[next:]
	w.base += int64(next)
	return int64(n), true
}

// scan is one call of Scan.
type scan struct {
	w     *scanWindowed
	h     BatchHeader
	visit func(Shape) error
	delta int64 // of the last record
	stop  int64 // end of the present record
}

func (s *scan) run() error {
	s.delta = -1
	for left := s.h.Count; left > 0; left-- {
		shape, err := s.record(left)
		if s.w.err != nil { // whatever else is wrong comes from it
			return s.w.err
		}
		if err == nil {
			err = s.visit(shape)
		}
		if err != nil {
			return err
		}
	}
	s.w.fill(1)
	if s.w.err != nil {
		return s.w.err
	}
	if len(s.w.have) > 0 {
		return s.bad(s.w.base, s.w.base+1, "bytes behind the last record")
	}
	return nil
}

func (s *scan) bad(want, got int64, reason string) error {
	return corrupt(HeaderSize+s.w.base, want, got, reason)
}

func (s *scan) record(left int32) (shape Shape, err error) {
	size, ok := s.w.varint()
	if !ok {
		return shape, s.bad(int64(s.h.Count), int64(s.h.Count-left), "records in the batch, or a bad varint")
	}
	s.stop = s.w.base + size
	if size < 1 || !s.w.skip(1) { // attributes
		return shape, s.bad(1, size, "record length")
	}
	timeDelta, ok := s.w.varlong()
	if !ok {
		return shape, s.bad(0, 0, "timestamp delta")
	}
	if shape.Timestamp = s.h.BaseTimestamp + timeDelta; s.h.LogAppendTime() {
		shape.Timestamp = s.h.MaxTimestamp
	}
	delta, ok := s.w.varint()
	if !ok || delta <= s.delta || delta > int64(s.h.LastOffsetDelta) {
		return shape, s.bad(s.delta+1, delta, "offset delta")
	}
	s.delta, shape.Delta = delta, int32(delta)
	n, err := s.field("key")
	if err == nil {
		shape.HasKey = n >= 0
		_, err = s.field("value")
	}
	if err == nil {
		err = s.headers()
	}
	if err == nil && s.w.base != s.stop {
		err = s.bad(s.w.base, s.stop, "bytes behind the headers of a record")
	}
	return shape, err
}

// field passes a length and that many bytes; a length below zero is null.
func (s *scan) field(what string) (int64, error) {
	n, ok := s.w.varint()
	if !ok || n < -1 || n > s.stop-s.w.base || !s.w.skip(n) {
		return n, s.bad(s.stop-s.w.base, n, what+" length")
	}
	return n, nil
}

func (s *scan) headers() error {
	n, ok := s.w.varint()
	const least = 2 // bytes of a header with an empty key and value
	if !ok || n < 0 || n > (s.stop-s.w.base)/least || n > maxHeaders {
		return s.bad((s.stop-s.w.base)/least, n, "number of headers")
	}
	for range n {
		k, err := s.field("header key")
		if err == nil && k < 0 {
			err = s.bad(0, k, "header key length")
		}
		if err == nil {
			_, err = s.field("header value")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
