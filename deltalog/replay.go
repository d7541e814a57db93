package deltalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// A log is replayed piece by piece: files are fetched ahead and parsed by all processors, and the pieces are
// applied in order. A commit of any size needs memory for a few pieces, and its files go from there into columns.

const (
	// wholeFile is the size up to which a log file is one piece.
	wholeFile = 512 << 10
	// fetchPiece is what is read of a larger file at a time, and parsePiece what is parsed by one processor.
	fetchPiece = 512 << 10
	parsePiece = 64 << 10
)

// piece is a part of a log file with whole lines.
type piece struct {
	file  int // index among the files
	line  int // number of the first line
	data  []byte
	last  bool // of its file
	sum   [sha256.Size]byte
	from  *fetched // that data was cut from, nil for memory of its own
	a     *actions
	err   error
	ready chan struct{}
}

// fetched is memory for one fetch, used again when all pieces cut from it are parsed.
type fetched struct {
	buf   []byte
	users atomic.Int32
}

// pieceReader reads the files of one replay.
type pieceReader struct {
	store   objstore.Store
	files   []logFile
	queue   chan *piece  // in the order of the log
	parsers chan *parser // idle ones; as many as may work at a time
	spare   chan *actions
	free    chan *fetched
	work    sync.WaitGroup
}

// eachPiece calls use with the pieces of the files in order. What a piece holds is valid during the call, the text of its
// adds and removes as well; what its other actions point to may be kept. The sum of the last file's content is in its last piece.
func eachPiece(ctx context.Context, store objstore.Store, files []logFile, use func(*piece) error) error {
	if len(files) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &pieceReader{store: store, files: files, queue: make(chan *piece, fetchParallel),
		parsers: make(chan *parser, runtime.GOMAXPROCS(0)), spare: make(chan *actions, fetchParallel),
		free: make(chan *fetched, fetchParallel)}
	for range cap(r.parsers) {
		r.parsers <- &parser{in: newInterner(), tagTexts: true}
	}
	r.work.Go(func() {
		defer close(r.queue)
		r.read(ctx)
	})
	err := r.consume(ctx, use)
	cancel()
	for range r.queue { // let the reader go on to its end
	}
	r.work.Wait()
	return err
}

func (r *pieceReader) consume(ctx context.Context, use func(*piece) error) error {
	for p := range r.queue {
		select {
		case <-p.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
		if p.err != nil {
			return p.err
		}
		if err := use(p); err != nil {
			return err
		}
		p.a.reset()
		select {
		case r.spare <- p.a:
		default:
		}
	}
	return ctx.Err()
}

// emit puts a piece into the queue and starts work on it; false when the replay has ended.
func (r *pieceReader) emit(ctx context.Context, p *piece, work func(context.Context, *piece)) bool {
	p.ready = make(chan struct{})
	select {
	case r.queue <- p:
	case <-ctx.Done():
		return false
	}
	r.work.Go(func() {
		defer close(p.ready)
		work(ctx, p)
	})
	return true
}

func (r *pieceReader) read(ctx context.Context) {
	for i, f := range r.files {
		if f.size <= wholeFile {
			if !r.emit(ctx, &piece{file: i, line: 1, last: true}, r.fetchAndParse) {
				return
			}
		} else if !r.readLarge(ctx, i, f) {
			return
		}
	}
}

func (r *pieceReader) fetchAndParse(ctx context.Context, p *piece) {
	f := r.files[p.file]
	p.from = r.memory()
	p.from.users.Store(1)
	if into, ok := r.store.(objstore.IntoReader); ok {
		p.data, p.err = into.GetInto(ctx, f.key, p.from.buf)
	} else {
		p.data, p.err = r.store.Get(ctx, f.key)
	}
	p.from.buf = p.data
	if p.err != nil {
		p.err = fmt.Errorf("read commit %s: %w", f.key, p.err)
		return
	}
	if p.file == len(r.files)-1 && !old(f) {
		p.sum = sha256.Sum256(p.data)
	}
	r.parse(ctx, p)
}

// old says that the file's time alone identifies it, see head.
func old(f logFile) bool {
	return f.modTime > 0 && time.Since(time.UnixMilli(f.modTime)) > 6*settleAfter
}

func (r *pieceReader) parse(ctx context.Context, p *piece) {
	var parser *parser
	select {
	case parser = <-r.parsers:
	case <-ctx.Done():
		p.err = ctx.Err()
		return
	}
	select {
	case p.a = <-r.spare:
	default:
		p.a = &actions{}
	}
	parser.a = p.a
	f := r.files[p.file]
	p.err = parser.lines(p.data, f.key, p.line)
	r.release(p.from)
	p.data, p.from = nil, nil
	if p.a.info != nil {
		p.a.info.Version = f.version
	}
	r.parsers <- parser
}

// fetch reads n bytes of a file, into memory that was used before where the store can do so.
func (r *pieceReader) fetch(ctx context.Context, key string, off, n int64) (*fetched, error) {
	m := r.memory()
	m.users.Store(1) // the caller
	into, ok := r.store.(objstore.IntoReader)
	if !ok {
		b, err := r.store.GetRange(ctx, key, off, n)
		m.buf = b
		return m, err
	}
	if int64(cap(m.buf)) < n {
		m.buf = make([]byte, n)
	}
	m.buf = m.buf[:n]
	return m, into.ReadInto(ctx, key, off, m.buf)
}

// memory gives some that is used by nobody any more, or none yet.
func (r *pieceReader) memory() *fetched {
	select {
	case m := <-r.free:
		return m
	default:
		return &fetched{}
	}
}

// release says that one user of the memory is done.
func (r *pieceReader) release(m *fetched) {
	if m == nil || m.users.Add(-1) > 0 {
		return
	}
	select {
	case r.free <- m:
	default:
	}
}

// readLarge cuts a file into pieces at line ends. Only the line across two fetches is copied.
func (r *pieceReader) readLarge(ctx context.Context, file int, f logFile) bool {
	var sum hash.Hash
	if file == len(r.files)-1 && !old(f) {
		sum = sha256.New()
	}
	line := 1
	send := func(data []byte, from *fetched, last bool) bool {
		if from != nil {
			from.users.Add(1)
		}
		p := &piece{file: file, line: line, data: data, from: from, last: last}
		line += bytes.Count(data, []byte{'\n'})
		if last && sum != nil {
			copy(p.sum[:], sum.Sum(nil))
		}
		return r.emit(ctx, p, r.parse)
	}
	var carry []byte
	for off := int64(0); off < f.size; {
		n := min(fetchPiece, f.size-off)
		m, err := r.fetch(ctx, f.key, off, n)
		if err != nil {
			return r.emit(ctx, &piece{file: file, last: true}, func(_ context.Context, p *piece) {
				p.err = fmt.Errorf("read commit %s: %w", f.key, err)
			})
		}
		if sum != nil {
			sum.Write(m.buf)
		}
		off += n
		var ok bool
		if carry, ok = cutPieces(carry, m.buf, func(data []byte, shared bool) bool {
			if shared {
				return send(data, m, false)
			}
			return send(data, nil, false)
		}); !ok {
			return false
		}
		r.release(m)
	}
	return send(carry, nil, true)
}

// cutPieces cuts b, which follows carry, at line ends, and gives what is left of the last line. Pieces that are
// not shared have memory of their own.
func cutPieces(carry, b []byte, send func(data []byte, shared bool) bool) ([]byte, bool) {
	cut := bytes.IndexByte(b, '\n')
	if cut < 0 {
		return append(carry, b...), true
	}
	if len(carry) > 0 {
		if !send(append(carry, b[:cut+1]...), false) {
			return nil, false
		}
		b = b[cut+1:]
	}
	for len(b) > 0 {
		end := bytes.LastIndexByte(b[:min(len(b), parsePiece)], '\n')
		if end < 0 {
			end = bytes.IndexByte(b, '\n')
		}
		if end < 0 {
			break
		}
		if !send(b[:end+1], true) {
			return nil, false
		}
		b = b[end+1:]
	}
	return bytes.Clone(b), true
}

// replay applies commits and compactions to the state. seen, if there is one, gets what each commit did.
func (s *state) replay(ctx context.Context, store objstore.Store, files []logFile, seen func(logFile, *summary)) error {
	var named *actions // of the file so far, without adds and removes
	var w *summary
	var m mark
	return eachPiece(ctx, store, files, func(p *piece) error {
		f := files[p.file]
		if named == nil {
			named, w, m = &actions{}, &summary{}, s.mark()
		}
		err := named.joinNamed(p.a)
		if err == nil && seen != nil {
			w.add(p.a)
		}
		if err == nil {
			err = s.applyFiles(f.last(), m, p.a, false)
		}
		if err == nil && p.last {
			err = s.finish(f, named, p.sum)
		}
		if err != nil {
			return &CorruptError{File: f.key, Err: err}
		}
		if p.last {
			if seen != nil {
				seen(f, w)
			}
			named = nil
		}
		return nil
	})
}

// last is the version that a commit or compaction leads to.
func (f logFile) last() Version {
	if f.kind == kindCompacted {
		return f.end
	}
	return f.version
}

// finish ends a version whose files were applied.
func (s *state) finish(f logFile, named *actions, sum [sha256.Size]byte) error {
	if err := named.checkNamed(); err != nil {
		return err
	}
	if err := s.applyNamed(f.last(), named); err != nil {
		return err
	}
	s.stamp(f, named.info)
	s.head = headOf(f, sum)
	s.pending += f.size
	return nil
}

// applyCommit replays one commit that is in memory.
func (s *state) applyCommit(f logFile, a *actions) error {
	err := s.applyFiles(f.last(), s.mark(), a, false)
	if err == nil {
		err = s.finish(f, a, a.sum)
	}
	if err != nil {
		return &CorruptError{File: f.key, Err: err}
	}
	return nil
}

// newestProtocol looks for the last protocol action of the files, without interpreting anything else.
func newestProtocol(ctx context.Context, store objstore.Store, files []logFile) *Protocol {
	for i := len(files) - 1; i >= 0; i-- {
		b, err := store.Get(ctx, files[i].key)
		if err != nil {
			return nil
		}
		for row := range bytes.Lines(b) {
			if !bytes.Contains(row[:min(len(row), 32)], []byte(`"protocol"`)) {
				continue
			}
			if a, err := parseLines(row, files[i].key, 0); err == nil && a.protocol != nil {
				return a.protocol
			}
		}
	}
	return nil
}
