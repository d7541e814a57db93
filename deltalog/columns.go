package deltalog

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"sync/atomic"
)

// The files of a table are held in columns: a million files are a few thousand blocks, each with one piece of memory for
// its text, not a million objects. The collector has next to no pointers to follow, and text that is parsed is copied once.
// Columns that most tables do not use are there only in blocks that do.

const blockRows = 256

// Flags of a row.
const (
	flagDataChange = 1 << iota
	flagTime       // a tombstone's deletion time is known
	flagSize       // a tombstone's size is known
	flagExtended   // extendedFileMetadata is there
	flagExtendedOn // and true
)

// block holds rows in the order in which they came. Rows are written once, before a snapshot can see them; only
// their end is set later. Blocks never move, so snapshots share them with the state that goes on growing.
type block struct {
	texts  texts
	path   [blockRows]span
	values [blockRows]map[string]*string
	size   [blockRows]int64
	time   [blockRows]int64 // of modification, or of deletion
	flags  [blockRows]uint8
	stats  atomic.Pointer[[blockRows]span]
	tags   atomic.Pointer[[blockRows]span] // as JSON
	rare   atomic.Pointer[[blockRows]*rareFields]
	ended  atomic.Pointer[[blockRows]atomic.Int64] // version that ended the row, plus one
	memo   atomic.Pointer[any]                     // of FileBlock.Memo
}

// rareFields are what few tables have.
type rareFields struct {
	dv                *DeletionVector
	baseRowID, commit *int64
	clustering        string
}

// column gives a block's optional column, made when it is needed first.
func column[T any](p *atomic.Pointer[T]) *T {
	c := p.Load()
	if c == nil {
		c = new(T)
		p.Store(c)
	}
	return c
}

const notRemoved = math.MaxInt64

// end gives the version that ended row i.
func (b *block) end(i int) int64 {
	if c := b.ended.Load(); c != nil {
		if v := c[i].Load(); v > 0 {
			return v - 1
		}
	}
	return notRemoved
}

func (b *block) dv(i int) *DeletionVector {
	if c := b.rare.Load(); c != nil && c[i] != nil {
		return c[i].dv
	}
	return nil
}

func (b *block) pathAt(i int) string { return b.texts.at(b.path[i]) }

func (b *block) statsAt(i int) string { return b.textAt(&b.stats, i) }

func (b *block) tagsAt(i int) string { return b.textAt(&b.tags, i) }

func (b *block) textAt(p *atomic.Pointer[[blockRows]span], i int) string {
	if c := p.Load(); c != nil {
		return b.texts.at(c[i])
	}
	return ""
}

// is says whether row i is of the file.
func (b *block) is(k fileID, i int) bool {
	return canonicalPath(b.pathAt(i)) == k.path && b.dv(i).UniqueID() == k.dv
}

// rows is a growing list of files or of tombstones. Each row lives from the version that added it to the version
// that ended it; a view of the first n rows at version v stays right whatever comes later. The index keeps a row
// after its end, so that a second one of the same file is found; compaction drops it.
type rows struct {
	blocks  []*block
	n, live int
	bytes   int64 // of the live rows' sizes
	index   keyIndex
}

func (r *rows) at(i int) (*block, int) { return r.blocks[i/blockRows], i % blockRows }

// find gives the newest row of a file, -1 when there is none. The row may have ended.
func (r *rows) find(k fileID) int {
	return r.index.find(k.hash, func(i int) bool {
		b, j := r.at(i)
		return b.is(k, j)
	})
}

func (r *rows) lives(i int) bool {
	b, j := r.at(i)
	return b.end(j) == notRemoved
}

// stop ends row i with version v, if it lives.
func (r *rows) stop(i int, v Version) bool {
	b, j := r.at(i)
	if b.end(j) != notRemoved {
		return false
	}
	column(&b.ended)[j].Store(int64(v) + 1)
	r.live--
	r.bytes -= b.size[j]
	return true
}

// push appends an empty row and gives it, and the row that the file had until now, -1 for none.
func (r *rows) push(k fileID, path string, values map[string]*string, size int64) (b *block, i, before int, err error) {
	if r.n >= math.MaxInt32 {
		return nil, 0, 0, fmt.Errorf("more than %d files", math.MaxInt32)
	}
	if r.n == len(r.blocks)*blockRows {
		room := 0
		if n := len(r.blocks); n > 0 {
			room = r.blocks[n-1].texts.close()
		}
		b := new(block)
		b.texts.reserve(room)
		r.blocks = append(r.blocks, b)
	}
	b, i = r.at(r.n)
	if b.path[i], err = b.texts.put(path); err != nil {
		return nil, 0, 0, err
	}
	b.values[i], b.size[i] = values, size
	before = r.index.put(k.hash, r.n, func(i int) bool {
		b, j := r.at(i)
		return b.is(k, j)
	})
	r.n++
	r.live++
	r.bytes += size
	return b, i, before, nil
}

// putText keeps text in an optional column, which is not made for an empty one.
func (b *block) putText(p *atomic.Pointer[[blockRows]span], i int, text string) error {
	if text == "" {
		return nil
	}
	at, err := b.texts.put(text)
	if err == nil {
		column(p)[i] = at
	}
	return err
}

// pushAdd appends a file and gives the row that it had until now, -1 for none. tags is the text of its tags when
// a.Tags has not been made of it.
func (r *rows) pushAdd(k fileID, a *Add, tags string) (before int, err error) {
	b, i, before, err := r.push(k, a.Path, a.PartitionValues, a.Size)
	if err != nil {
		return 0, err
	}
	b.time[i] = a.ModificationTime
	if a.DataChange {
		b.flags[i] = flagDataChange
	}
	if tags == "" && a.Tags != nil {
		tags = string(appendTextMap(nil, a.Tags))
	}
	if err := errors.Join(b.putText(&b.stats, i, a.Stats), b.putText(&b.tags, i, tags)); err != nil {
		return 0, err
	}
	b.setRare(i, rareFields{a.DeletionVector, a.BaseRowID, a.DefaultRowCommitVersion, a.ClusteringProvider})
	return before, nil
}

// pushRemove appends a tombstone and gives the one that the file had until now, -1 for none. Statistics and tags of a
// file that is gone are of no use to anybody.
func (r *rows) pushRemove(k fileID, x *Remove) (before int, err error) {
	size := int64(0)
	if x.Size != nil {
		size = *x.Size
	}
	b, i, before, err := r.push(k, x.Path, x.PartitionValues, size)
	if err != nil {
		return 0, err
	}
	flags := uint8(0)
	if x.DataChange {
		flags |= flagDataChange
	}
	if x.Size != nil {
		flags |= flagSize
	}
	if x.DeletionTimestamp != nil {
		flags |= flagTime
		b.time[i] = *x.DeletionTimestamp
	}
	if x.ExtendedFileMetadata != nil {
		flags |= flagExtended
		if *x.ExtendedFileMetadata {
			flags |= flagExtendedOn
		}
	}
	b.flags[i] = flags
	b.setRare(i, rareFields{x.DeletionVector, x.BaseRowID, x.DefaultRowCommitVersion, ""})
	return before, nil
}

func (b *block) setRare(i int, f rareFields) {
	if f != (rareFields{}) {
		own := f // only what is kept leaves the stack
		column(&b.rare)[i] = &own
	}
}

// addAt reads row i as an add.
func (b *block) addAt(i int, a *Add) {
	*a = Add{Path: b.pathAt(i), PartitionValues: b.values[i], Size: b.size[i], ModificationTime: b.time[i],
		DataChange: b.flags[i]&flagDataChange != 0, Stats: b.statsAt(i), Tags: parseTags(b.tagsAt(i))}
	if c := b.rare.Load(); c != nil && c[i] != nil {
		f := c[i]
		a.DeletionVector, a.BaseRowID, a.DefaultRowCommitVersion, a.ClusteringProvider = f.dv, f.baseRowID, f.commit, f.clustering
	}
}

// removeAt reads row i as a tombstone.
func (b *block) removeAt(i int, x *Remove) {
	flags := b.flags[i]
	*x = Remove{Path: b.pathAt(i), PartitionValues: b.values[i], DataChange: flags&flagDataChange != 0}
	if flags&flagTime != 0 {
		t := b.time[i]
		x.DeletionTimestamp = &t
	}
	if flags&flagSize != 0 {
		size := b.size[i]
		x.Size = &size
	}
	if flags&flagExtended != 0 {
		on := flags&flagExtendedOn != 0
		x.ExtendedFileMetadata = &on
	}
	if c := b.rare.Load(); c != nil && c[i] != nil {
		x.DeletionVector, x.BaseRowID, x.DefaultRowCommitVersion = c[i].dv, c[i].baseRowID, c[i].commit
	}
}

// copyRow appends row i of another list.
func (r *rows) copyRow(b *block, i int) error {
	path := b.pathAt(i)
	c, j, _, err := r.push(idOf(path, b.dv(i)), path, b.values[i], b.size[i])
	if err != nil {
		return err
	}
	c.time[j], c.flags[j] = b.time[i], b.flags[i]
	if f := b.rare.Load(); f != nil && f[i] != nil {
		column(&c.rare)[j] = f[i]
	}
	return errors.Join(c.putText(&c.stats, j, b.statsAt(i)), c.putText(&c.tags, j, b.tagsAt(i)))
}

// compacted gives a copy without ended rows. Snapshots keep the old blocks.
func (r *rows) compacted() (*rows, error) {
	out := &rows{}
	for b, i := range r.view(math.MaxInt64 - 1).each() {
		if err := out.copyRow(b, i); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// view is what a snapshot keeps of rows.
type view struct {
	blocks  []*block
	n, live int
	bytes   int64
	version int64
}

func (r *rows) view(v Version) view {
	return view{blocks: r.blocks[:len(r.blocks):len(r.blocks)], n: r.n, live: r.live, bytes: r.bytes, version: int64(v)}
}

// each gives the block and place of every row that lives at the view's version.
func (w view) each() iter.Seq2[*block, int] {
	return func(yield func(*block, int) bool) {
		for at, b := range w.blocks {
			for i := range min(blockRows, w.n-at*blockRows) {
				if b.end(i) > w.version && !yield(b, i) {
					return
				}
			}
		}
	}
}

// FileBlock is a run of up to a few hundred files that were added one after the other. Snapshots share blocks, and a
// row of one never changes, so what somebody worked out from its rows holds for every snapshot that comes.
type FileBlock struct {
	b       *block
	n       int
	version int64
}

// Blocks gives the files of the snapshot in blocks, older ones first; none without HasFiles.
func (s *Snapshot) Blocks() iter.Seq[FileBlock] {
	return func(yield func(FileBlock) bool) {
		for at, b := range s.files.blocks {
			if n := min(blockRows, s.files.n-at*blockRows); n > 0 && !yield(FileBlock{b, n, s.files.version}) {
				return
			}
		}
	}
}

// Len is the number of rows, Live or not. A later snapshot may see more of them.
func (b FileBlock) Len() int { return b.n }

// Live says whether row i is a file of the snapshot.
func (b FileBlock) Live(i int) bool { return b.b.end(i) > b.version }

// Path gives the path of row i, as the log has it.
func (b FileBlock) Path(i int) string { return b.b.pathAt(i) }

// Add gives row i as a value of its own.
func (b FileBlock) Add(i int) *Add {
	a := new(Add)
	b.b.addAt(i, a)
	return a
}

// Tag gives a tag of row i; false when the file does not have it.
func (b FileBlock) Tag(i int, name string) (string, bool) {
	p := parseTags(b.b.tagsAt(i))[name]
	if p == nil {
		return "", false
	}
	return *p, true
}

// Memo gives what was kept with the block, or keeps what fresh makes when there is nothing. It is there as long as the
// block is, shared by all snapshots and goroutines. One package alone may use it.
func (b FileBlock) Memo(fresh func() any) any {
	if p := b.b.memo.Load(); p != nil {
		return *p
	}
	v := fresh()
	if b.b.memo.CompareAndSwap(nil, &v) {
		return v
	}
	return *b.b.memo.Load()
}
