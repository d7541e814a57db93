package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/segment"
)

// CheckDir reads a log's directory and tells what is wrong with it, and changes nothing. It is for a log
// that is not open: one in use changes under the check. What a crash may leave, such as a torn last write, is
// no fault. The error is for files that cannot be read at all.
func CheckDir(ctx context.Context, fsys vfs.FS, dir string) ([]segment.Finding, error) {
	c := &checker{ctx: ctx, fs: fsys, dir: dir}
	ckpt, err := readCheckpoint(fsys, dir)
	if err = c.note(err); err != nil {
		return nil, err
	}
	name := path.Join(dir, topicsFile)
	b, err := vfs.ReadFile(fsys, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("check log: %w", err)
	}
	var topics topicsState
	if err == nil {
		if topics, err = parseTopics(name, b); err != nil {
			c.add(name, 0, "a list of topics", err.Error())
		}
	}
	if ckpt == nil {
		if len(topics.Topics) > 0 && len(c.findings) == 0 {
			c.add(path.Join(dir, checkpointFile), 0, "a checkpoint, since there are topics", "no file")
		}
		return c.findings, nil
	}
	if err := c.checkPartitions(topics, ckpt); err != nil {
		return nil, err
	}
	if err := c.checkJournals(ckpt.Journal); err != nil {
		return nil, err
	}
	return c.findings, c.checkProducers()
}

type checker struct {
	ctx      context.Context
	fs       vfs.FS
	dir      string
	findings []segment.Finding
}

func (c *checker) add(file string, pos int64, expected, found string) {
	c.findings = append(c.findings, segment.Finding{File: file, Offset: pos, Expected: expected, Found: found})
}

// note takes damage as a finding and gives back other errors.
func (c *checker) note(err error) error {
	var damage *segment.DamageError
	if errors.As(err, &damage) {
		c.findings = append(c.findings, damage.Finding)
		return nil
	}
	return err
}

func (c *checker) checkPartitions(topics topicsState, ckpt *checkpointState) error {
	names := map[string]topicState{}
	for _, t := range topics.Topics {
		names[t.ID] = t
	}
	for _, p := range ckpt.Partitions {
		t, ok := names[p.Topic]
		if !ok {
			continue // deleted since
		}
		dir := partitionDir(path.Join(c.dir, "data"), t.Name, p.Partition)
		for i, s := range p.Segments {
			if err := c.ctx.Err(); err != nil {
				return err
			}
			name := segment.FileName(dir, s.Base, segment.LogSuffix)
			if i > 0 && p.Segments[i-1].Next != s.Base {
				c.add(name, 0, fmt.Sprintf("base offset %d", p.Segments[i-1].Next), fmt.Sprint(s.Base))
			}
			verify := segment.VerifyLog
			if s.Sealed && s.Swap == "" {
				verify = segment.VerifyTo
			}
			if s.Swap != "" { // its files may have been renamed or not, but the log is the last
				waiting := segment.FileName(path.Join(dir, cleanDir+s.Swap), s.Base, segment.LogSuffix)
				if _, err := c.fs.Stat(waiting); err == nil {
					name = waiting
				}
			}
			found, err := verify(c.fs, name, s.Size)
			if errors.Is(err, fs.ErrNotExist) {
				if s.Next > p.Start {
					c.add(name, 0, fmt.Sprintf("a segment of %d bytes", s.Size), "no file")
				}
				continue
			}
			if err != nil {
				return err
			}
			c.findings = append(c.findings, found...)
			if s.Swap != "" {
				continue
			}
			if _, err := segment.ReadAborted(c.fs, dir, s.Info); c.note(err) != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checker) checkJournals(first uint64) error {
	dir := path.Join(c.dir, "journal")
	seqs, err := listJournals(c.fs, dir)
	if errors.Is(err, fs.ErrNotExist) {
		c.add(dir, 0, "a directory", "none")
		return nil
	}
	if err != nil {
		return err
	}
	next := first
	for i, seq := range seqs {
		if seq < first {
			continue
		}
		if seq != next {
			c.add(journalName(dir, next), 0, fmt.Sprintf("a journal file, since there is number %d", seq), "no file")
		}
		next = seq + 1
		if err := c.note(c.checkJournal(dir, seq, seqs[i+1:])); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) checkJournal(dir string, seq uint64, later []uint64) error {
	r, err := openJournal(c.fs, journalName(dir, seq), seq)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		_, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.checkEnd(c.fs, dir, later)
		}
		if err != nil {
			return err
		}
	}
}

func (c *checker) checkProducers() error {
	name := path.Join(c.dir, producersFile)
	b, err := vfs.ReadFile(c.fs, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("check log: %w", err)
	}
	var ids producerIDs
	if err := json.Unmarshal(b, &ids); err != nil {
		c.add(name, 0, "JSON", err.Error())
	}
	return nil
}

// DumpJournal gives the frames of a journal file. It ends at the last good frame; a bad one that was durable
// once comes as a *segment.DamageError.
func DumpJournal(ctx context.Context, fsys vfs.FS, name string) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		seq, ok := parseJournalName(path.Base(name))
		if !ok {
			yield(Frame{}, fmt.Errorf("dump journal: %s is not the name of a journal file", name))
			return
		}
		r, err := openJournal(fsys, name, seq)
		if err != nil {
			yield(Frame{}, err)
			return
		}
		defer r.Close()
		for {
			f, err := r.Next()
			if err == nil {
				err = ctx.Err()
			}
			if errors.Is(err, io.EOF) || !yield(f, err) || err != nil {
				return
			}
		}
	}
}
