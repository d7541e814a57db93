package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// maxIndexGap is how much log without an index entry is taken to mean that a crash lost entries. A batch
// larger than this makes OpenWriter build an index that was good.
const maxIndexGap = 4 << 20

// maxControl bounds a control batch: a marker has less than 100 bytes.
const maxControl = 64 << 10

// Writer appends batches to a segment. When to begin a new one is for the caller to decide.
type Writer struct {
	fs          vfs.FS
	dir         string
	log         *shared
	x           indexer
	flushedOffs int // entries that are in the index files already
	flushedTime int
	newIndex    bool          // the index files must be written from the start
	staged      int64         // bytes behind the end that Stage has written
	stagedNext  record.Offset // the end of these
	torn        bool          // a write failed that may have left something behind all that
	aborted     []AbortedTxn  // that are not in their file yet
}

// Create begins an empty segment; files that have its names are replaced.
func Create(fsys vfs.FS, dir string, base record.Offset) (*Writer, error) {
	f, err := fsys.Create(FileName(dir, base, LogSuffix))
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	return &Writer{fs: fsys, dir: dir, log: share(f), x: indexer{info: EmptyInfo(base)}, newIndex: true}, nil
}

// OpenWriter goes on with a segment of which info describes the good part. What lies behind info.Size is
// left alone until Extend or Cut. Indexes that are missing or wrong are built again.
func OpenWriter(fsys vfs.FS, dir string, info Info) (*Writer, error) {
	f, err := fsys.Open(FileName(dir, info.Base, LogSuffix))
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	w := &Writer{fs: fsys, dir: dir, log: share(f)}
	if err := w.load(info); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return w, nil
}

func (w *Writer) load(info Info) error {
	size, err := w.log.Size()
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	if size < info.Size {
		return &DamageError{Finding: Finding{File: w.log.Name(), Offset: size,
			Expected: fmt.Sprintf("a length of %d bytes", info.Size), Found: fmt.Sprintf("%d bytes", size)}}
	}
	w.x.info = info
	offsets, ok, err := loadOffsets(w.fs, FileName(w.dir, info.Base, IndexSuffix), info.Size)
	if err != nil {
		return err
	}
	times, tok, err := loadTimes(w.fs, FileName(w.dir, info.Base, TimeIndexSuffix), info.Size, int32(info.Next-info.Base))
	if err != nil {
		return err
	}
	w.x.offsets, w.x.times, w.x.since = offsets, times, info.Size
	if n := len(offsets); n > 0 {
		w.x.since -= int64(offsets[n-1].Pos)
	}
	if info.Size > 0 && (!ok || !tok || w.x.since > maxIndexGap) {
		return w.rebuild(info)
	}
	w.newIndex = true // what stands behind the good part must go
	return nil
}

// rebuild makes the indexes from the headers of the good part.
func (w *Writer) rebuild(info Info) error {
	w.x = indexer{info: EmptyInfo(info.Base)}
	w.x.info.Aborted = info.Aborted
	w.newIndex = true
	s := newScanner(w.log, w.x.info, info.Size, false)
	for {
		h, err := s.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		w.x.add(h)
	}
}

// Extend takes over the whole, undamaged batches behind the known good part and calls visit for each; control
// batches come with their bytes. The finding says why it stopped before the end of the file, nil when it did
// not. Cut then removes the rest.
func (w *Writer) Extend(visit func(h record.BatchHeader, control []byte)) (*Finding, error) {
	size, err := w.log.Size()
	if err != nil {
		return nil, fmt.Errorf("extend segment: %w", err)
	}
	s := newScanner(w.log, w.x.info, size, true)
	for {
		h, err := s.Next()
		var damage *DamageError
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case errors.As(err, &damage):
			return &damage.Finding, nil
		case err != nil:
			return nil, err
		}
		var control []byte
		if h.Control() && h.Size() <= maxControl {
			control = make([]byte, h.Size())
			if _, err := w.log.ReadAt(control, w.x.info.Size); err != nil {
				return nil, fmt.Errorf("extend segment: %w", err)
			}
		}
		w.x.add(h)
		if visit != nil {
			visit(h, control)
		}
	}
}

// Cut removes what lies behind the good part.
func (w *Writer) Cut() error {
	size, err := w.log.Size()
	if err == nil && size > w.x.info.Size {
		err = w.log.Truncate(w.x.info.Size)
	}
	if err == nil {
		err = w.cutAborted()
	}
	if err != nil {
		return fmt.Errorf("cut segment: %w", err)
	}
	return nil
}

// Fits tells whether Append or Stage would take the batch.
func (w *Writer) Fits(h record.BatchHeader) bool { return fits(w.x.info.Base, h, w.End()) }

// End is where the next batch is written: behind what is staged.
func (w *Writer) End() int64 { return w.x.info.Size + w.staged }

// Append writes one batch, of which h is the header, at the end. After an error nothing was appended, and
// the same or another batch may be tried again. None may be staged.
func (w *Writer) Append(raw []byte, h record.BatchHeader) error {
	if w.staged > 0 {
		return w.disorder(h)
	}
	if err := w.Stage(raw, h); err != nil {
		return err
	}
	return w.Publish(h)
}

func (w *Writer) disorder(h record.BatchHeader) error {
	return fmt.Errorf("append to segment %d: %w: offset %d, end %d, %d bytes staged", w.x.info.Base, ErrOrder, h.BaseOffset, w.x.info.Next, w.staged)
}

// Stage writes one batch behind the end and behind those that were staged before. Until Publish it does not count, for Info,
// Readers and indexes; who opens the segment at its Info finds it behind the good part. After an error nothing was staged, and
// the same or another batch may be tried again.
func (w *Writer) Stage(raw []byte, h record.BatchHeader) error {
	if h.BaseOffset < max(w.x.info.Next, w.stagedNext) || len(raw) != h.Size() {
		return w.disorder(h)
	}
	if !w.Fits(h) {
		return fmt.Errorf("append to segment %d: %w", w.x.info.Base, ErrFull)
	}
	if err := w.Mend(); err != nil {
		return err
	}
	if _, err := w.log.WriteAt(raw, w.End()); err != nil {
		w.torn = true
		return fmt.Errorf("append to segment: %w", err)
	}
	w.staged, w.stagedNext = w.staged+int64(len(raw)), h.LastOffset()+1
	return nil
}

// Publish appends the oldest batch that is staged, of which h is the header.
func (w *Writer) Publish(h record.BatchHeader) error {
	if h.BaseOffset < w.x.info.Next || h.LastOffset() >= w.stagedNext || int64(h.Size()) > w.staged {
		return w.disorder(h)
	}
	w.staged -= int64(h.Size())
	w.x.add(h)
	return nil
}

// Mend removes what a write that failed may have left behind the end. The next write does it too; who ends a segment asks for it
// before, since a closed one is as long as its Info says.
func (w *Writer) Mend() error {
	if !w.torn {
		return nil
	}
	if err := w.log.Truncate(w.End()); err != nil {
		return fmt.Errorf("cut off a torn batch: %w", err)
	}
	w.torn = false
	return nil
}

// Info describes what was appended so far.
func (w *Writer) Info() Info { return w.x.info }

// Reader gives a view of what was appended so far. It shares the Writer's file: after the Writer's Close, and
// what was pinned, its reads fail with fs.ErrClosed, and the segment is to be opened by Open.
func (w *Writer) Reader() *Reader {
	return &Reader{log: w.log, info: w.x.info, look: lookup{offsets: w.x.offsets, times: w.x.times}}
}

// Finish adds the last time entry that a closed segment has. Nothing may be appended after it. Seal does it
// too; it is a method of its own for callers that take Readers meanwhile.
func (w *Writer) Finish() { w.x.addTime() }

// FlushIndex writes the index entries that are only in memory to their files.
func (w *Writer) FlushIndex() error {
	if err := w.flushAborted(); err != nil {
		return err
	}
	var b []byte
	if w.newIndex || w.flushedOffs < len(w.x.offsets) {
		for _, e := range w.x.offsets[w.flushedOffs:] {
			b = putOffsetEntry(b, e)
		}
		if err := w.writeIndex(IndexSuffix, b, int64(w.flushedOffs)*offsetEntrySize); err != nil {
			return err
		}
		w.flushedOffs = len(w.x.offsets)
	}
	if w.newIndex || w.flushedTime < len(w.x.times) {
		b = b[:0]
		for _, e := range w.x.times[w.flushedTime:] {
			b = putTimeEntry(b, e)
		}
		if err := w.writeIndex(TimeIndexSuffix, b, int64(w.flushedTime)*timeEntrySize); err != nil {
			return err
		}
		w.flushedTime = len(w.x.times)
	}
	w.newIndex = false
	return nil
}

func (w *Writer) writeIndex(suffix string, b []byte, pos int64) error {
	name := FileName(w.dir, w.x.info.Base, suffix)
	var f vfs.File
	err := fs.ErrNotExist
	if pos > 0 || !w.newIndex {
		f, err = w.fs.Open(name)
	}
	if errors.Is(err, fs.ErrNotExist) && pos == 0 {
		f, err = w.fs.Create(name)
	}
	if err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	_, err = f.WriteAt(b, pos)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return nil
}

// SyncLog makes the log file durable, not the indexes: OpenWriter checks those of an active segment.
func (w *Writer) SyncLog() error {
	if err := w.log.SyncData(); err != nil {
		return fmt.Errorf("sync segment: %w", err)
	}
	return nil
}

// SyncLogPaced is SyncLog for who is in no hurry, and would hold up others who sync small files.
func (w *Writer) SyncLogPaced() error {
	if err := w.log.SyncPaced(); err != nil {
		return fmt.Errorf("sync segment: %w", err)
	}
	return nil
}

// Seal writes the indexes as a closed segment has them and makes all three files durable, without a hurry.
func (w *Writer) Seal() error {
	if w.staged > 0 || w.torn {
		return fmt.Errorf("seal segment %d: %w: %d bytes are staged, or a batch is torn", w.x.info.Base, ErrOrder, w.staged)
	}
	w.Finish()
	if err := w.FlushIndex(); err != nil {
		return err
	}
	suffixes := []string{IndexSuffix, TimeIndexSuffix}
	if w.x.info.Aborted > 0 {
		suffixes = append(suffixes, TxnIndexSuffix)
	}
	for _, suffix := range suffixes {
		f, err := w.fs.Open(FileName(w.dir, w.x.info.Base, suffix))
		if err != nil {
			return fmt.Errorf("seal segment: %w", err)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return fmt.Errorf("seal segment: %w", err)
		}
	}
	return w.SyncLogPaced()
}

// Close closes the log file, or leaves that to the last Pin of it. It neither flushes nor syncs.
func (w *Writer) Close() error { return w.log.Close() }

// Recover makes a segment whole of which nothing is known: it cuts the log at the first bad byte, which the
// finding describes, and builds the indexes again.
func Recover(fsys vfs.FS, dir string, base record.Offset) (Info, *Finding, error) {
	w, err := OpenWriter(fsys, dir, EmptyInfo(base))
	if err != nil {
		return Info{}, nil, err
	}
	found, err := w.Extend(nil)
	if err == nil {
		err = w.Cut()
	}
	if err == nil {
		err = w.Seal()
	}
	return w.Info(), found, errors.Join(err, w.Close())
}

// maxRel clips an offset of a segment to what an index entry can hold.
func maxRel(o, base record.Offset) int32 {
	return int32(min(max(o-base, -1), math.MaxInt32))
}
