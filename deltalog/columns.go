package deltalog

import (
	"fmt"
	"iter"
	"math"
	"sync/atomic"
)

// The files of a table are held in columns: a million files are a few thousand blocks and the text that they
// point into, not a million objects. Columns that most tables do not use are there only in blocks that do.

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
	path   [blockRows]string
	values [blockRows]map[string]*string
	size   [blockRows]int64
	time   [blockRows]int64 // of modification, or of deletion
	flags  [blockRows]uint8
	stats  atomic.Pointer[[blockRows]string]
	tags   atomic.Pointer[[blockRows]string] // as JSON
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

func textAt(p *atomic.Pointer[[blockRows]string], i int) string {
	if c := p.Load(); c != nil {
		return c[i]
	}
	return ""
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
		return canonicalPath(b.path[j]) == k.path && b.dv(j).UniqueID() == k.dv
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

// push appends an empty row and gives its place.
func (r *rows) push(k fileID, path string, values map[string]*string, size int64) (*block, int, error) {
	if r.n >= math.MaxInt32 {
		return nil, 0, fmt.Errorf("more than %d files", math.MaxInt32)
	}
	if r.n == len(r.blocks)*blockRows {
		r.blocks = append(r.blocks, new(block))
	}
	b, i := r.at(r.n)
	b.path[i], b.values[i], b.size[i] = path, values, size
	r.index.put(k.hash, r.n, func(i int) bool {
		b, j := r.at(i)
		return canonicalPath(b.path[j]) == k.path && b.dv(j).UniqueID() == k.dv
	})
	r.n++
	r.live++
	r.bytes += size
	return b, i, nil
}

// pushAdd appends a file. tags is the text of its tags when a.Tags has not been made of it.
func (r *rows) pushAdd(k fileID, a *Add, tags string) error {
	b, i, err := r.push(k, a.Path, a.PartitionValues, a.Size)
	if err != nil {
		return err
	}
	b.time[i] = a.ModificationTime
	if a.DataChange {
		b.flags[i] = flagDataChange
	}
	if a.Stats != "" {
		column(&b.stats)[i] = a.Stats
	}
	if tags == "" && a.Tags != nil {
		tags = string(appendTextMap(nil, a.Tags))
	}
	if tags != "" {
		column(&b.tags)[i] = tags
	}
	b.setRare(i, rareFields{a.DeletionVector, a.BaseRowID, a.DefaultRowCommitVersion, a.ClusteringProvider})
	return nil
}

// pushRemove appends a tombstone. Statistics and tags of a file that is gone are of no use to anybody.
func (r *rows) pushRemove(k fileID, x *Remove) error {
	size := int64(0)
	if x.Size != nil {
		size = *x.Size
	}
	b, i, err := r.push(k, x.Path, x.PartitionValues, size)
	if err != nil {
		return err
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
	return nil
}

func (b *block) setRare(i int, f rareFields) {
	if f != (rareFields{}) {
		own := f // only what is kept leaves the stack
		column(&b.rare)[i] = &own
	}
}

// addAt reads row i as an add.
func (b *block) addAt(i int, a *Add) {
	*a = Add{Path: b.path[i], PartitionValues: b.values[i], Size: b.size[i], ModificationTime: b.time[i],
		DataChange: b.flags[i]&flagDataChange != 0, Stats: textAt(&b.stats, i), Tags: parseTags(textAt(&b.tags, i))}
	if c := b.rare.Load(); c != nil && c[i] != nil {
		f := c[i]
		a.DeletionVector, a.BaseRowID, a.DefaultRowCommitVersion, a.ClusteringProvider = f.dv, f.baseRowID, f.commit, f.clustering
	}
}

// removeAt reads row i as a tombstone.
func (b *block) removeAt(i int, x *Remove) {
	flags := b.flags[i]
	*x = Remove{Path: b.path[i], PartitionValues: b.values[i], DataChange: flags&flagDataChange != 0}
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

// copyRow appends row i of another list, with its text copied: it may lie in one piece of memory with much that is gone.
func (r *rows) copyRow(b *block, i int) error {
	k := idOf(b.path[i], b.dv(i))
	k.path = cloneText(k.path)
	c, j, err := r.push(k, cloneText(b.path[i]), b.values[i], b.size[i])
	if err != nil {
		return err
	}
	c.time[j], c.flags[j] = b.time[i], b.flags[i]
	if s := textAt(&b.stats, i); s != "" {
		column(&c.stats)[j] = cloneText(s)
	}
	if s := textAt(&b.tags, i); s != "" {
		column(&c.tags)[j] = cloneText(s)
	}
	if f := b.rare.Load(); f != nil && f[i] != nil {
		column(&c.rare)[j] = f[i]
	}
	return nil
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

// Add gives row i as a value of its own.
func (b FileBlock) Add(i int) *Add {
	a := new(Add)
	b.b.addAt(i, a)
	return a
}

// Tag gives a tag of row i; false when the file does not have it.
func (b FileBlock) Tag(i int, name string) (string, bool) {
	p := parseTags(textAt(&b.b.tags, i))[name]
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
