package local

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
)

// Durability says what an acknowledgement promises.
type Durability int

const (
	// DurabilityGroup acknowledges after the journal was synced, one sync for all that waits.
	DurabilityGroup Durability = iota
	// DurabilityNone acknowledges after the write, as Kafka does by default: it survives the end of the
	// process, but not power loss.
	DurabilityNone
)

// String gives the name of the setting.
func (d Durability) String() string {
	if d == DurabilityNone {
		return "none"
	}
	return "group"
}

// Config are the settings of a Log. Zero values mean the defaults.
type Config struct {
	Dir          string
	FS           vfs.FS // default: the operating system's
	Durability   Durability
	GroupDelay   time.Duration // longest wait for a fuller group, used only where it pays; default 2 ms
	GroupBytes   int           // no wait when so much is there; default 512 KiB
	Clock        func() time.Time
	Logger       *slog.Logger
	DefaultTopic broker.TopicConfig // what topics leave open, those that are there too; Tiered counts when a topic is made

	// AwaitDefaults keeps retention and compaction back until SetTopicDefaults was called: what it says may keep more.
	AwaitDefaults bool

	CheckpointBytes   int64         // checkpoint after so many bytes of batches; default 256 MiB
	JournalBytes      int64         // size of a journal file; default 64 MiB without a reserve, at most 7/32 of one
	QueueBytes        int64         // batches that may wait for the journal; default 64 MiB
	RetentionInterval time.Duration // default 1 min
	CleanInterval     time.Duration // between looks at compacted topics; default 30 s
	CleanerMemory     int64         // for the keys of one pass; default 64 MiB
	ProducerExpiry    time.Duration // an idle idempotent producer is forgotten; default 24 h
	MaxProducers      int           // idempotent producers that all partitions remember, longest idle ones go; default 250000
	MaxTimestampAhead time.Duration // how far a timestamp may lie ahead of Clock; default 1 h, negative: no limit
	DiskReserve       int64         // appends leave so much of the disk free; default 256 MiB or a tenth of a small disk, negative: none. See doc.go
	OpenSegments      int           // sealed segments whose files may stay open; default 256
	MaxBatchMemory    int           // largest decompressed batch; default 128 MiB
	ValidateMemory    int64         // what checking compressed batches holds, all together; default 256 MiB

	inFileFrom int // bytes from which on an answer may stay in its file; default 32 KiB: below, a read costs less than what goes with it
}

func (c Config) withDefaults() Config {
	if c.FS == nil {
		c.FS = vfs.OS()
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	setDefault(&c.GroupDelay, 2*time.Millisecond)
	setDefault(&c.GroupBytes, 512<<10)
	setDefault(&c.CheckpointBytes, 256<<20)
	setDefault(&c.QueueBytes, 64<<20)
	setDefault(&c.RetentionInterval, time.Minute)
	setDefault(&c.ProducerExpiry, 24*time.Hour)
	setDefault(&c.MaxProducers, 250_000)
	setDefault(&c.MaxTimestampAhead, time.Hour)
	setDefault(&c.MaxBatchMemory, 128<<20)
	setDefault(&c.OpenSegments, 256)
	setDefault(&c.CleanInterval, 30*time.Second)
	setDefault(&c.CleanerMemory, 64<<20)
	setDefault(&c.ValidateMemory, 256<<20)
	setDefault(&c.inFileFrom, 32<<10)
	return c
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (c Config) validate() error {
	switch {
	case c.Dir == "":
		return fmt.Errorf("local log: Dir is not set")
	case c.Durability != DurabilityGroup && c.Durability != DurabilityNone:
		return fmt.Errorf("local log: Durability %d is unknown", c.Durability)
	case c.GroupDelay < 0 || c.GroupBytes < 0 || c.RetentionInterval < 0 || c.CleanInterval < 0 || c.CleanerMemory < 0 || c.ProducerExpiry < 0:
		return fmt.Errorf("local log: a delay or size is negative")
	case c.CheckpointBytes < 1 || c.QueueBytes < 1 || c.MaxBatchMemory < 1 || c.OpenSegments < 1 || c.ValidateMemory < 1 || c.MaxProducers < 1:
		return fmt.Errorf("local log: a size is negative")
	case c.JournalBytes != 0 && c.JournalBytes < fileHeaderSize+frameHeaderSize:
		return fmt.Errorf("local log: JournalBytes %d is too small", c.JournalBytes)
	}
	return nil
}
