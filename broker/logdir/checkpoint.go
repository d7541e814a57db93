package logdir

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// Files of a log directory beside the partitions' folders, and the one in each folder.
const (
	watermarkFile = "replication-offset-checkpoint"
	startFile     = "log-start-offset-checkpoint"
	metadataFile  = "partition.metadata"
)

// readCheckpoint reads one of Kafka's checkpoint files: a version, a count, and a line "topic partition offset" each.
// A file that is not there holds nothing.
func readCheckpoint(fsys vfs.FS, name string) (map[record.TopicPartition]record.Offset, error) {
	raw, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	out := map[record.TopicPartition]record.Offset{}
	sc := bufio.NewScanner(bytes.NewReader(raw))
	for line := 1; sc.Scan(); line++ {
		f := strings.Fields(sc.Text())
		if line == 1 && (len(f) != 1 || f[0] != "0") {
			return nil, fmt.Errorf("%s: version %q, want 0", name, sc.Text())
		}
		if line <= 2 {
			continue
		}
		if len(f) != 3 {
			return nil, fmt.Errorf("%s: line %d is %q, want topic, partition and offset", name, line, sc.Text())
		}
		p, err := strconv.ParseInt(f[1], 10, 32)
		o, err2 := strconv.ParseInt(f[2], 10, 64)
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, line, err)
		}
		out[record.TopicPartition{Topic: f[0], Partition: int32(p)}] = record.Offset(o)
	}
	return out, sc.Err()
}

// readTopicID gives the id that a partition's folder notes, all zero when it notes none.
func readTopicID(fsys vfs.FS, dir string) (id [16]byte, err error) {
	name := path.Join(dir, metadataFile)
	raw, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return id, nil
	}
	if err != nil {
		return id, fmt.Errorf("read %s: %w", name, err)
	}
	for line := range strings.Lines(string(raw)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "topic_id:"); ok {
			b, err := base64.RawURLEncoding.DecodeString(strings.TrimSpace(text))
			if err != nil || len(b) != len(id) {
				return id, fmt.Errorf("%s: topic id %q is not 16 bytes in base64", name, text)
			}
			copy(id[:], b)
		}
	}
	return id, nil
}
