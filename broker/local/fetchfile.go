package local

import (
	"sync"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// mostInMemory is how much of an answer that may stay in files is read into memory all the same, about: small pieces, and what
// there are too many files for. Who asks again gets the rest.
const mostInMemory = 8 << 20

// readFrom reads a view from an offset on, into memory or as a place in its file.
func (f *fetch) readFrom(v view, at record.Offset, limit int, out *broker.Fetched) (err error) {
	if f.opts.InFiles && limit >= f.l.cfg.inFileFrom && v.r.Size() >= int64(f.l.cfg.inFileFrom) {
		if out.File, err = f.inFile(v, at, limit, out.Bounds.Stable); out.File != nil || err != nil {
			return err
		}
	}
	if f.opts.InFiles && f.got > 0 {
		if limit = min(limit, mostInMemory-f.inMemory); limit <= 0 {
			return nil
		}
	}
	out.Batches, err = v.r.Read(at, limit)
	return err
}

// inFile gives nothing for what is small, what is not all committed, and while too many files are in use so: then it is read.
func (f *fetch) inFile(v view, at record.Offset, limit int, stable record.Offset) (*broker.FileRange, error) {
	s, err := v.r.Span(at, limit)
	if err != nil || s.Size < f.l.cfg.inFileFrom || f.opts.Isolation == broker.ReadCommitted && s.Next > stable {
		return nil, err
	}
	unpin, ok := f.l.pins.take(v)
	if !ok {
		return nil, nil
	}
	file, release, err := v.r.Pin()
	if err != nil {
		unpin()
		return nil, err
	}
	return &broker.FileRange{File: file, Pos: s.Pos, Size: s.Size, Next: s.Next, Release: sync.OnceFunc(func() {
		release()
		unpin()
	})}, nil
}

func fetchedBytes(f *broker.Fetched) int {
	if f.File != nil {
		return f.File.Size
	}
	return len(f.Batches)
}

func releaseFile(f *broker.Fetched) {
	if f.File != nil {
		f.File.Release()
		f.File = nil
	}
}

func releaseFiles(out []broker.Fetched) {
	for i := range out {
		releaseFile(&out[i])
	}
}
