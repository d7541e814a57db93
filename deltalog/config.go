package deltalog

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"
)

// Config are the settings of a Log. The zero value is ready for use.
type Config struct {
	// Engine is written to commitInfo.engineInfo. Default "ledgerlake".
	Engine string
	// CheckpointInterval is the number of commits between checkpoints. 0: the table's delta.checkpointInterval,
	// else 10, growing with the table so that checkpoints stay a small part of the work. Negative: none.
	CheckpointInterval int
	// CheckpointBytes starts a checkpoint when the commits since the last one are larger than this together. 0: 16 MiB,
	// growing with the table. Negative: bytes do not count.
	CheckpointBytes int64
	// Checksums writes a checksum file (N.crc) beside each commit, where it is exact: not with NoFiles.
	Checksums bool
	// NoFiles keeps no list of files in memory and reads none from checkpoints: enough to append and to know
	// positions, schema and settings, in memory that does not depend on the table's size. Snapshots then have no
	// HasFiles; FullSnapshot gives one that has.
	NoFiles bool
	// MaxAttempts bounds how often a commit tries to win a version. Default 50.
	MaxAttempts int
	// RetryBase and RetryMax bound the pause between attempts: full jitter, doubling. Default 5 ms and 1 s.
	RetryBase, RetryMax time.Duration
	// Clock gives the time of commits. Default time.Now.
	Clock func() time.Time
	// Logger gets what happens in the background. Default: discarded.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Engine == "" {
		c.Engine = "ledgerlake"
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 50
	}
	if c.RetryBase == 0 {
		c.RetryBase = 5 * time.Millisecond
	}
	if c.RetryMax == 0 {
		c.RetryMax = max(time.Second, c.RetryBase)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	if c.MaxAttempts < 1 {
		return fmt.Errorf("deltalog config: MaxAttempts is %d, want at least 1", c.MaxAttempts)
	}
	if c.RetryBase < 0 || c.RetryMax < c.RetryBase {
		return fmt.Errorf("deltalog config: want 0 <= RetryBase <= RetryMax, got %v and %v", c.RetryBase, c.RetryMax)
	}
	return nil
}

// pause gives the full-jitter wait before an attempt; the first retry is number 1.
func (c Config) pause(attempt int) time.Duration {
	limit := c.RetryMax
	if shift := min(attempt-1, 20); c.RetryBase<<shift < limit {
		limit = c.RetryBase << shift
	}
	if limit <= 0 {
		return 0
	}
	return rand.N(limit)
}

// due says whether a table in this state wants a checkpoint, the last one being of version last and bytes the size
// of the commits since then.
func (c Config) due(s *Snapshot, last Version, bytes int64) bool {
	if c.CheckpointInterval < 0 || s.version <= last {
		return false
	}
	files := s.files.live
	if s.light {
		files = int(s.count)
	}
	n := int64(c.CheckpointInterval)
	if n == 0 {
		var err error
		if n, err = strconv.ParseInt(s.metadata.Configuration["delta.checkpointInterval"], 10, 64); err != nil || n <= 0 {
			// A checkpoint costs as much as the table has files; a commit that it saves costs one small read.
			n = 10 * int64(1+min(files/10_000, 9))
		}
	}
	// Versions are counted from 0 by all writers alike, so that several of them do not checkpoint n times as often.
	if int64(s.version)/n != int64(max(last, 0))/n {
		return true
	}
	limit := c.CheckpointBytes
	if limit == 0 {
		limit = 16<<20 + 200*int64(files) // about what the checkpoint itself costs
	}
	return limit > 0 && bytes >= limit
}
