package reprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// Preview says what a job would do.
type Preview struct {
	Job     string   `json:"job"`
	Topic   string   `json:"topic"`
	Ranges  []Split  `json:"ranges"` // of each partition
	Splits  int      `json:"splits"`
	Offsets int64    `json:"offsets"`
	Bytes   int64    `json:"bytes"` // about, of data files; records that only the log has are not counted
	InLog   int64    `json:"inLog"` // offsets of those
	Columns []string `json:"columns,omitempty"`
	Samples []Change `json:"samples"`
}

// Change is what became of one record.
type Change struct {
	Partition int32           `json:"partition"`
	Offset    int64           `json:"offset"`
	Value     json.RawMessage `json:"value,omitempty"` // a JSON string where the result is no JSON
	Dropped   bool            `json:"dropped,omitempty"`
	Error     string          `json:"error,omitempty"`
}

// String gives the preview as a person reads it.
func (p Preview) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "job %s would read %d offsets of %s in %d splits: about %d bytes of its table, and %d offsets that only the log has", p.Job, p.Offsets, p.Topic, p.Splits, p.Bytes, p.InLog)
	for _, r := range p.Ranges {
		fmt.Fprintf(&s, "\npartition %d: offsets [%d, %d)", r.Partition, r.From, r.To)
	}
	if len(p.Columns) > 0 {
		fmt.Fprintf(&s, "\ncolumns: %s", strings.Join(p.Columns, ", "))
	}
	for _, c := range p.Samples {
		switch {
		case c.Error != "":
			fmt.Fprintf(&s, "\n  partition %d offset %d: a dead letter: %s", c.Partition, c.Offset, c.Error)
		case c.Dropped:
			fmt.Fprintf(&s, "\n  partition %d offset %d: dropped", c.Partition, c.Offset)
		default:
			fmt.Fprintf(&s, "\n  partition %d offset %d: %s", c.Partition, c.Offset, c.Value)
		}
	}
	return s.String() + "\nnothing was written"
}

// DryRun plans a job and puts some of its first records through the transform. It writes nothing, and needs no sink.
func DryRun(ctx context.Context, cfg Config, samples int) (p Preview, err error) {
	cfg = cfg.withDefaults()
	if err := errors.Join(cfg.Spec.validate(), cfg.validateSource()); err != nil {
		return p, err
	}
	cfg.Workers = 1
	j := &Job{cfg: cfg}
	defer func() { err = errors.Join(err, j.Close()) }()
	if err := j.openSource(ctx); err != nil {
		return p, err
	}
	if err := j.learn(j.filledNow()); err != nil {
		return p, err
	}
	plan, err := j.makePlan(ctx)
	if err != nil {
		return p, err
	}
	p = Preview{Job: plan.Job, Topic: plan.Topic, Ranges: plan.Ranges, Splits: len(plan.Splits), Samples: []Change{}}
	if err := j.size(ctx, &p); err != nil {
		return p, err
	}
	if j.isTable() {
		payload, err := j.payload(ctx, plan)
		if err == nil {
			err = j.fill.fits(payload)
		}
		if err != nil {
			return p, err
		}
		p.Columns = columnsOf(payload)
	}
	for _, s := range plan.Splits {
		if len(p.Samples) < samples {
			if err := j.sample(ctx, &p, s, samples); err != nil {
				return p, err
			}
		}
	}
	return p, nil
}

func (j *Job) isTable() bool {
	kind, _ := j.cfg.Spec.Target()
	return kind == KindTable && j.cfg.Outlet == nil
}

func columnsOf(s *arrow.Schema) (out []string) {
	for _, f := range s.Fields() {
		out = append(out, fmt.Sprintf("%s %s", f.Name, f.Type))
	}
	return out
}

// size counts what would be read, by what the files of the table weigh.
func (j *Job) size(ctx context.Context, p *Preview) error {
	const unit = 1 << 30
	widths, err := j.stream.widths(ctx, unit) // offsets a unit of bytes
	if err != nil {
		return err
	}
	for _, r := range p.Ranges {
		p.Offsets += int64(r.To - r.From)
		end, _ := j.stream.lakeEnd(r.Partition)
		inTable := max(0, min(r.To, end)-r.From)
		p.InLog += int64(r.To - r.From - inTable)
		if w := widths[r.Partition]; w > 0 {
			p.Bytes += int64(float64(inTable) * unit / float64(w))
		}
	}
	return nil
}

// sample takes the first records of a split through the transform.
func (j *Job) sample(ctx context.Context, p *Preview, s Split, most int) error {
	from := broker.FetchRange{TP: record.TopicPartition{Topic: j.cfg.Topic, Partition: s.Partition}, From: s.From}
	got, changed, err := j.source(s.Partition, span{s.From, s.To}).take(ctx, []broker.FetchRange{from}, broker.FetchOptions{Isolation: broker.ReadCommitted})
	if err == nil {
		err = got[0].Err
	}
	if err != nil {
		return fmt.Errorf("take a sample: %w", err)
	}
	for i, r := range changed[0].results {
		if len(p.Samples) == most {
			break
		}
		c := Change{Partition: s.Partition, Offset: int64(changed[0].in[i].Offset)}
		switch {
		case r.Err != nil:
			c.Error = r.Err.Error()
		case r.Drop:
			c.Dropped = true
		case json.Valid(r.Value):
			c.Value = r.Value
		default:
			text, err := json.Marshal(string(r.Value))
			if err != nil {
				return err
			}
			c.Value = text
		}
		p.Samples = append(p.Samples, c)
	}
	return nil
}
