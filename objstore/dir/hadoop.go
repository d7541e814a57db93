package dir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// Hadoop, and so Spark, publishes FILE only if absent in three steps: it writes .FILE.<uuid>.tmp beside it, looks
// whether FILE is there, and renames. A link of ours between the last two is replaced by the rename. But from
// before the look until the rename its temporary file is there. So once FILE is ours and no such file is left,
// no one is between the two steps any more: then FILE still being ours is final.

// hadoopPoll is the pause between two looks for a writer's temporary file.
const hadoopPoll = 2 * time.Millisecond

// hadoopWriter says whether a Hadoop writer is about to publish name.
func (s *Store) hadoopWriter(name string) (bool, error) {
	folder, base := filepath.Split(name)
	entries, err := s.cfg.FS.ReadDir(filepath.Clean(folder))
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		n := e.Name()
		if n > "."+base+"/" { // sorted, and '.' is before what a name goes on with
			break
		}
		if strings.HasPrefix(n, ".") && (strings.HasSuffix(n, ".crc") || strings.HasSuffix(n, ".tmp")) {
			s.hadoopSeen.Store(true)
		}
		if !strings.HasPrefix(n, "."+base+".") || !strings.HasSuffix(n, ".tmp") {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // renamed just now
		}
		if err != nil {
			return false, err
		}
		if s.cfg.Now().Sub(info.ModTime()) < s.cfg.TempAge {
			return true, nil
		}
	}
	return false, nil
}

// awaitHadoop waits until no Hadoop writer is about to publish name. It is false when one stays for too long: it
// died, or is stopped.
func (s *Store) awaitHadoop(ctx context.Context, name string) (bool, error) {
	limit := time.NewTimer(s.cfg.HadoopWait)
	defer limit.Stop()
	for {
		busy, err := s.hadoopWriter(name)
		if err != nil || !busy {
			return err == nil, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-limit.C:
			return false, nil
		case <-time.After(hadoopPoll):
		}
	}
}

// confirm makes sure that what we linked is there to stay. Where it cannot, the error wraps objstore.ErrNotFinal.
func (s *Store) confirm(ctx context.Context, key, name string, data []byte) error {
	alone, err := s.awaitHadoop(ctx, name)
	if err != nil {
		return fmt.Errorf("put %s: %w: %w: %w", key, objstore.ErrUnknownOutcome, objstore.ErrNotFinal, err)
	}
	got, err := s.Get(context.WithoutCancel(ctx), key)
	switch {
	case err == nil && !bytes.Equal(got, data):
		return fmt.Errorf("put %s: a writer that renames, such as Spark, replaced it: %w", key, objstore.ErrExists)
	case !alone:
		return errors.Join(fmt.Errorf("put %s: %w: %w: another writer's .%s.*.tmp is still there and may replace it; remove it if that writer is dead",
			key, objstore.ErrUnknownOutcome, objstore.ErrNotFinal, filepath.Base(name)), err)
	case err != nil:
		return fmt.Errorf("put %s: %w: %w", key, objstore.ErrUnknownOutcome, err)
	}
	return nil
}

// dropChecksum removes the checksum that Hadoop keeps beside a file: of another content, it would make the new
// one look damaged to Spark. Before the file is published, so that a reader finds none rather than the wrong one.
func (s *Store) dropChecksum(name string) error {
	folder, base := filepath.Split(name)
	err := s.cfg.FS.Remove(filepath.Join(folder, "."+base+".crc"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
