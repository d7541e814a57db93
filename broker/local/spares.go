package local

import (
	"slices"
	"sync"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
)

// spares are journal files of this process that are full, or were left for the next one, oldest first. Those that no
// recovery wants any more lend their disk blocks to later files: to write over blocks changes no metadata, so a sync of them
// waits for nothing else. A spare keeps its name, which lies before the checkpoint's, until its new header is durable:
// recovery and checks never open it, and Open removes it.
//
// What the disk holds when we stop while a spare becomes a new file:
//   - before the rename: a file before the checkpoint whose header is torn or of another number. Open removes it.
//   - after it: the new file, whole header, behind one that may have no end frame. Its frames' key is random and new, so what
//     lies behind the header, frames of an earlier life, is none of its own: it is without frames, as a fresh file is.
//   - the directory is synced before a frame is written, so that the name stays.
//
// Where the disk is full, those that wait are given back, and what failed is tried once more; where it is nearly full, a checkpoint
// keeps none; the last one of a log gives them back first. What the disk holds when we stop
// meanwhile: some of them, or all while their directory is not synced; they lie before the checkpoint, and Open removes them.
//
// The committer adds and takes, checkpoints release, and whoever meets a full disk drops. The mutex is the last of all locks;
// nothing is done under it.
type spares struct {
	mu     sync.Mutex
	files  []closedFile
	free   int    // so many of them, from the first on, lie before the last checkpoint
	making uint64 // the one that becomes a new file; 0: none
}

// closedFile is a journal file of its full size.
type closedFile struct {
	seq     uint64
	written int64 // up to here its blocks were written, not only reserved
}

func (s *spares) add(f closedFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = append(s.files, f)
}

// take takes a file that may be used again. The caller says when it has another name, or is of no use, by taken.
func (s *spares) take() (f closedFile, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 {
		return f, false
	}
	f = s.files[0]
	s.files, s.free, s.making = slices.Delete(s.files, 0, 1), s.free-1, f.seq
	return f, true
}

func (s *spares) taken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.making = 0
}

// release frees the files before a checkpoint and gives those that stay: as many as it freed now, which is what the next
// interval will want if it is like this one, and at most so many. A log that does little gives its disk back so.
func (s *spares) release(before uint64, most int) (stay []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.free
	for n < len(s.files) && s.files[n].seq < before {
		n++
	}
	keep := min(n-s.free, most)
	s.files, s.free = slices.Delete(s.files, keep, n), keep
	for _, f := range s.files[:keep] {
		stay = append(stay, f.seq)
	}
	return append(stay, s.making)
}

// madeRoom gives back the files that wait to be used, where an error is for want of room. What failed is to be tried once
// more then, also if there was none: others may have made room meanwhile.
func (j *journal) madeRoom(err error) bool {
	if !vfs.NoSpace(err) {
		return false
	}
	j.giveBack()
	return true
}

// giveBack removes the files that wait to be used.
func (j *journal) giveBack() {
	j.giving.Lock() // who comes second goes on when the files are gone
	defer j.giving.Unlock()
	for _, seq := range j.spares.drop() {
		_ = j.fs.Remove(journalName(j.dir, seq)) // the next checkpoint removes it too
	}
}

// drop gives the files that may be used again, and forgets them.
func (s *spares) drop() (seqs []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files[:s.free] {
		seqs = append(seqs, f.seq)
	}
	s.files, s.free = slices.Delete(s.files, 0, s.free), 0
	return seqs
}

// forget leaves all files to the next checkpoint, which removes them.
func (s *spares) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files, s.free = nil, 0
}

// renew makes a spare the file of that name, and says up to where its blocks are written. nil: there is none that can be
// used. One that fails is left to the next checkpoint; what is wrong with the disk, a fresh file will meet too.
func (j *journal) renew(name string, header []byte) (f vfs.File, written int64) {
	spare, ok := j.spares.take()
	if !ok {
		return nil, 0
	}
	defer j.spares.taken()
	old := journalName(j.dir, spare.seq)
	f, err := j.fs.Open(old)
	if err != nil {
		return nil, 0
	}
	_, err = f.WriteAt(header, 0)
	if err == nil {
		err = f.SyncData()
	}
	if err == nil {
		err = j.fs.Rename(old, name)
	}
	if err != nil {
		_ = f.Close() // nobody relies on what it holds
		return nil, 0
	}
	return f, spare.written
}
