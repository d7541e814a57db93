package reprocess

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ledgerlake/ledgerlake/record"
)

// Outlet is a sink that is no table: a topic, or a command. The job's own table then has no rows, but its plan and its
// positions. The records of a partition come in the order of their offsets.
type Outlet interface {
	// Prepare is called when a job is opened: it makes what is missing, and gives a text that identifies the sink, so
	// that one which was made again is noticed; empty when nothing can tell.
	Prepare(ctx context.Context, from SourceTopic) (id string, err error)
	// Open begins to deliver for an application, and ends whoever did so before.
	Open(ctx context.Context, w Work) (Delivery, error)
}

// SourceTopic is what an Outlet gets the records of.
type SourceTopic struct {
	Topic      string
	ID         [16]byte // zero when its log has none
	Partitions int32    // the highest number and one
	Planned    bool     // the job has a plan, so its sink was there: if it is missing now it is not made again
}

// Work says what a Delivery is for.
type Work struct {
	State string // id of the job's table: a job that begins anew under the same name has another one
	App   string // <job>/<split>, or <job> behind the splits
	Topic string // of the source
}

// Delivery hands results over. It is for one goroutine. After an error it is closed, and another one is opened.
type Delivery interface {
	// Positions gives the first offsets that the sink itself has not decided, by partition; nil of one that keeps none:
	// they stand in the job's table alone. That of a sink which keeps them may be behind.
	Positions(ctx context.Context) (map[int32]record.Offset, error)
	// Deliver hands over what became of records of one partition; they are not changed before the next Commit returned.
	Deliver(ctx context.Context, in []Record, results []Result) error
	// Commit returns when all that was delivered is safe, together with the offsets that it brings the sink to.
	Commit(ctx context.Context, next map[int32]record.Offset) error
	// Close ends it. An error says how, for the log: what Commit made safe stays so.
	Close() error
}

// errNoTable refuses what only tables can.
var errNoTable = fmt.Errorf("%w: its sink is no table, so there is nothing to compare or to swap: docs/reprocess.md says how consumers change to another topic", ErrSpec)

// Kinds of sinks.
const (
	KindTable   = "table"
	KindTopic   = "topic"
	KindCommand = "command"
)

// Target gives the kind of the job's sink, and where it is: a table's path, kafka://host:port/topic, or DIR/TOPIC.
func (s Spec) Target() (kind, at string) {
	switch {
	case s.Sink == KindCommand:
		return KindCommand, ""
	case strings.HasPrefix(s.Sink, "kafka://"):
		return KindTopic, s.Sink
	case strings.HasPrefix(s.Sink, "topic:"):
		return KindTopic, strings.TrimPrefix(s.Sink, "topic:")
	}
	return KindTable, s.Sink
}

// Values of Spec.Partitions and Spec.Delivery.
const (
	KeepPartitions = "keep"
	ByKey          = "key"
	ExactlyOnce    = "exactly-once"
	AtLeastOnce    = "at-least-once"
)

// validateSink checks the keys that go with the kind of the sink.
func (s Spec) validateSink() error {
	kind, at := s.Target()
	among := func(key, v string, of ...string) error {
		for _, x := range append(of, "") {
			if v == x {
				return nil
			}
		}
		return fmt.Errorf("%w: %s: %q is none of %s", ErrSpec, key, v, strings.Join(of, ", "))
	}
	switch {
	case s.Sink == "":
		return fmt.Errorf("%w: no sink: want the path of the new table, %q, kafka://host:port/topic, topic:DIR/TOPIC, or %q", ErrSpec, ShadowSink, KindCommand)
	case kind == KindTable && strings.Contains(at, "://") && !strings.HasPrefix(at, "s3://") && !strings.HasPrefix(at, "file://") &&
		!strings.HasPrefix(at, "gs://") && !strings.HasPrefix(at, "az://"):
		return fmt.Errorf("%w: sink %s: a job fills tables, topics of a Kafka or of a served directory, and commands", ErrSpec, at)
	case kind != KindTopic && (s.Partitions != "" || s.Origin || s.Delivery != ""):
		return fmt.Errorf("%w: partitions, origin and delivery are for a sink that is a topic", ErrSpec)
	case (kind == KindCommand) != (len(s.SinkCommand) > 0):
		return fmt.Errorf("%w: \"sink: %s\" and sinkCommand go together", ErrSpec, KindCommand)
	case kind == KindTable && s.State != "":
		return fmt.Errorf("%w: state is for a sink that is no table; a table keeps the job's state itself", ErrSpec)
	case kind != KindTable && (s.Schema != "" || s.SplitBytes != 0 || s.Replaces != ""):
		return fmt.Errorf("%w: schema, splitBytes and replaces are for a sink that is a table: others get a partition's records in order, in one split", ErrSpec)
	}
	return errors.Join(among("partitions", s.Partitions, KeepPartitions, ByKey), among("delivery", s.Delivery, ExactlyOnce, AtLeastOnce))
}
