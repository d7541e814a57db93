package reprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
)

// planProperty is where a job's plan stands in the properties of its new table.
const planProperty = "ledgerlake.reprocess"

// Plan is how a job is cut up. It is made once, and kept in the new table.
type Plan struct {
	Job   string `json:"job"`
	Topic string `json:"topic"`
	// TopicID is that of the log's topic when the plan was made; empty when the log has none.
	TopicID string  `json:"topicID,omitempty"`
	Ranges  []Split `json:"ranges"` // of each partition, as a whole
	Splits  []Split `json:"splits"`
	// Named says that the job was given offsets, and so these partitions alone.
	Named bool `json:"named,omitempty"`
	// Kind is what the results go to: KindTable, KindTopic, KindCommand, or "other". Empty in plans that are older than it.
	Kind string `json:"kind,omitempty"`
	// Sink identifies a sink that is no table, if anything does.
	Sink string `json:"sink,omitempty"`
	// Changes says that the job changes values, or which records there are.
	Changes bool `json:"changes,omitempty"`
	// Begun is what the job was when the plan was made: see Spec.asBegun. Empty in plans that are older than it.
	Begun string `json:"begun,omitempty"`
	// Filled are the properties of the source's table that said how it was filled then. The job keeps to them: all of its
	// rows are made one way, whatever becomes of the source's.
	Filled map[string]string `json:"filled,omitempty"`
	// Swapped says that the table is one that the job's was swapped into.
	Swapped bool `json:"swapped,omitempty"`
}

// Split is a span of offsets of one partition, [From, To).
type Split struct {
	Partition int32         `json:"partition"`
	From      record.Offset `json:"from"`
	To        record.Offset `json:"to"`
}

// ErrChanged means that a job's file says other things than when its new table was begun.
var ErrChanged = errors.New("the job is not what it was when it began: give it another name, or delete what it has made by `reprocess retire --discard`")

// ErrOtherJob means that the sink is the table of another job, or of none.
var ErrOtherJob = errors.New("the sink is a table that this job did not make: choose another sink, or another name")

// maxSplits bounds the plan, which stands in the table's metadata.
const maxSplits = 2000

// app is under which name the position of a split is kept in the new table.
func (p *Plan) app(split int) string { return fmt.Sprintf("%s/%d", p.Job, split) }

// PlanOf gives the plan of the job that made a table; ErrOtherJob when none did.
func PlanOf(snap *deltalog.Snapshot) (*Plan, error) {
	var p struct{ Job string }
	if err := json.Unmarshal([]byte(snap.Metadata().Configuration[planProperty]), &p); err != nil {
		return nil, ErrOtherJob
	}
	return planOf(snap, p.Job)
}

// planOf reads the plan that a table was made with.
func planOf(snap *deltalog.Snapshot, job string) (*Plan, error) {
	raw, ok := snap.Metadata().Configuration[planProperty]
	if !ok {
		return nil, ErrOtherJob
	}
	var p Plan
	if err := json.Unmarshal([]byte(raw), &p); err != nil {
		return nil, fmt.Errorf("read the plan of job %s: %w", job, err)
	}
	if p.Job != job {
		return nil, fmt.Errorf("%w (it is of job %s)", ErrOtherJob, p.Job)
	}
	return &p, nil
}

// makePlan cuts the stream between two places into splits of about so many bytes; 0: one a partition.
func makePlan(ctx context.Context, s *stream, job, from, until string, splitBytes int64) (*Plan, error) {
	p := &Plan{Job: job, Topic: s.topic, Splits: []Split{}, Named: len(reader.NamedPartitions(from)) > 0}
	var err error
	if p.TopicID, err = s.topicID(ctx); err != nil {
		return nil, err
	}
	parts, err := s.Partitions(ctx, s.topic)
	if err != nil {
		return nil, err
	}
	start, err := s.resolve(ctx, from, parts)
	if err != nil {
		return nil, fmt.Errorf("from %w", err)
	}
	end, err := s.resolve(ctx, until, parts)
	if err != nil {
		return nil, fmt.Errorf("until %w", err)
	}
	width, err := s.widths(ctx, splitBytes)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		a, ok := start[part]
		if !ok {
			continue // offsets were given, and not for this one
		}
		b, ok := end[part]
		if !ok {
			return nil, fmt.Errorf("until: no offset is given for partition %d", part)
		}
		if b < a { // who follows goes on from b, and would bring what lies before a
			return nil, fmt.Errorf("%w: until %s is offset %d of partition %d, which lies before from %s, offset %d", ErrSpec, until, b, part, from, a)
		}
		step := width[part]
		if step == 0 {
			step = record.Offset(max(splitBytes/1024, 1)) // nothing is known of records that are in the log only
		}
		p.Ranges = append(p.Ranges, Split{part, a, b})
		if splitBytes == 0 {
			step = max(b-a, 1)
		}
		step = max(step, (b-a)/(maxSplits/record.Offset(len(parts))+1)+1)
		for o := a; o < b; o += step {
			p.Splits = append(p.Splits, Split{part, o, min(o+step, b)})
		}
	}
	// Splits of different partitions come in turn, so that the first workers meet different files.
	slices.SortStableFunc(p.Splits, func(a, b Split) int { return int(min(max(a.From-b.From, -1), 1)) })
	return p, nil
}

// widths gives, for each partition in the table, how many offsets have about so many bytes there.
func (s *stream) widths(ctx context.Context, bytes int64) (map[int32]record.Offset, error) {
	out := map[int32]record.Offset{}
	if s.table == nil {
		return out, nil
	}
	snap, err := s.table.Log.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	size, offsets := map[int32]float64{}, map[int32]float64{}
	files, err := s.table.FilesFor(snap, nil)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		all := 0.0
		for _, r := range f.Ranges {
			all += float64(r.To - r.From)
		}
		for _, r := range f.Ranges {
			n := float64(r.To - r.From)
			size[r.Partition] += float64(f.Add.Size) * n / all
			offsets[r.Partition] += n
		}
	}
	for p, n := range offsets {
		if size[p] > 0 {
			out[p] = record.Offset(max(1, float64(bytes)*n/size[p]))
		}
	}
	return out, nil
}
