package reprocess

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/ledgerlake/ledgerlake/internal/yamlkeys"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/table"
)

// Spec is a job as its file says it.
type Spec struct {
	// Name of the job; positions are kept under it.
	Name string `yaml:"name"`
	// Source is DIR/TOPIC of a served directory, a table, or kafka://host:port/topic.
	Source string `yaml:"source"`
	// History is the table with the history of a kafka:// source.
	History string `yaml:"history,omitempty"`
	From    string `yaml:"from,omitempty"`  // default earliest
	Until   string `yaml:"until,omitempty"` // default now; what comes after it is read by a run that follows
	// Sink is the new table, or one of the other sinks that State tells of; "shadow" puts it into the folder of the table that it replaces, where Swap can take it.
	Sink string `yaml:"sink"`
	// A sink that is no table: kafka://host:port/topic, topic:DIR/TOPIC of a served directory, or "command". State is
	// then the table with the job's plan and positions; default: where "shadow" would be.
	State string `yaml:"state,omitempty"`
	// Of a topic: Partitions is KeepPartitions (default) or ByKey, Origin adds headers that say which record it was, and
	// Delivery is ExactlyOnce (default) or AtLeastOnce.
	Partitions string `yaml:"partitions,omitempty"`
	Origin     bool   `yaml:"origin,omitempty"`
	Delivery   string `yaml:"delivery,omitempty"`
	// SinkCommand is run with "sink: command", as it is given, without a shell. See CommandOutlet.
	SinkCommand []string `yaml:"sinkCommand,omitempty"`
	// Replaces is the table whose place the new one is to take: one that another job fills, or, for a job that
	// changes no values, the table of the topic. Default: the source's table.
	Replaces string `yaml:"replaces,omitempty"`
	// Schema is a file with the columns of the new table, a Delta schema in JSON. Default: those of the source when
	// nothing changes values, else inferred from the first records.
	Schema string `yaml:"schema,omitempty"`

	Where   string   `yaml:"where,omitempty"`   // an expression: which records become rows
	Keep    []string `yaml:"keep,omitempty"`    // fields of the value that are kept; default all
	Columns []Column `yaml:"columns,omitempty"` // fields that are added, or replaced
	// Command is run as it is given, without a shell. It reads a record a line and writes a line for each.
	Command []string `yaml:"command,omitempty"`

	// MaxRate bounds what one process of the job reads, as reader.ParseRate reads it: "10000" records or "20MB" a second.
	MaxRate string `yaml:"maxRate,omitempty"`

	SplitBytes int64 `yaml:"splitBytes,omitempty"` // about how much of the source one split reads; default 256 MiB
}

// Column is a field made by an expression.
type Column struct {
	Name  string `yaml:"name"`
	Value string `yaml:"value"`
}

// ShadowSink is the Sink that means a shadow of the table that is replaced.
const ShadowSink = "shadow"

// ErrSpec is wrapped by errors about a job's file.
var ErrSpec = errors.New("job")

var jobName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`)

// ParseSpec reads a job's file. Unknown keys are refused.
func ParseSpec(raw []byte) (Spec, error) {
	var s Spec
	if err := yamlkeys.Check(raw, s); err != nil {
		return s, fmt.Errorf("%w: %w", ErrSpec, err)
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return s, fmt.Errorf("%w: %w", ErrSpec, err)
	}
	return s, s.validate()
}

func (s Spec) validate() error {
	switch {
	case !jobName.MatchString(s.Name):
		return fmt.Errorf("%w: name %q: want letters, digits, '_', '.', '-', at most 100", ErrSpec, s.Name)
	case s.Source == "":
		return fmt.Errorf("%w: no source", ErrSpec)
	case s.History != "" && !strings.HasPrefix(s.Source, "kafka://"):
		return fmt.Errorf("%w: history is for a kafka:// source; a table or a topic of a directory has its own", ErrSpec)
	case len(s.Command) > 0 && (s.Where != "" || len(s.Columns) > 0 || len(s.Keep) > 0):
		return fmt.Errorf("%w: either a command, or where, keep and columns", ErrSpec)
	case s.SplitBytes < 0:
		return fmt.Errorf("%w: splitBytes %d is below 0", ErrSpec, s.SplitBytes)
	}
	if err := s.validateSink(); err != nil {
		return err
	}
	if _, err := s.rate(); err != nil {
		return fmt.Errorf("%w: maxRate: %w", ErrSpec, err)
	}
	seen := map[string]bool{}
	for _, c := range s.Columns {
		if c.Name == "" || c.Value == "" || seen[c.Name] {
			return fmt.Errorf("%w: column %q: want a name of its own and an expression as its value", ErrSpec, c.Name)
		}
		seen[c.Name] = true
	}
	return nil
}

func (s Spec) rate() (reader.Rate, error) {
	if s.MaxRate == "" {
		return reader.Rate{}, nil
	}
	return reader.ParseRate(s.MaxRate)
}

// Changes says whether the job changes values, or which records there are.
func (s Spec) Changes() bool {
	return s.Where != "" || len(s.Keep) > 0 || len(s.Columns) > 0 || len(s.Command) > 0
}

// asBegun is all of a job that decides what its rows are, in one text, so that a file that was changed is told from the
// one which the new table was begun with. The second text is that of plans that are older than Partitions and Origin in
// it: those of a topic have "partitions" since, so that it equals no newer one.
func (s Spec) asBegun(ofProgram bool) (now, before string, err error) {
	b := begunAs{s.From, s.Until, s.Where, s.Keep, s.Columns, s.Command, ofProgram, "", false}
	old, err1 := json.Marshal(b)
	if kind, _ := s.Target(); kind == KindTopic {
		b.Partitions, b.Origin = cmp.Or(s.Partitions, KeepPartitions), s.Origin
	}
	raw, err2 := json.Marshal(b)
	return string(raw), string(old), errors.Join(err1, err2)
}

type begunAs struct {
	From    string   `json:"from"`
	Until   string   `json:"until"`
	Where   string   `json:"where,omitempty"`
	Keep    []string `json:"keep,omitempty"`
	Columns []Column `json:"columns,omitempty"`
	Command []string `json:"command,omitempty"`
	Go      bool     `json:"go,omitempty"` // a function of the program that runs the job, which cannot be compared

	// Of a topic: where a record goes, and what it has beside its value.
	Partitions string `json:"partitions,omitempty"`
	Origin     bool   `json:"origin,omitempty"`
}

// Transform makes what the job does to records; nil when it does nothing to them.
func (s Spec) Transform() (func() (Transform, error), error) {
	switch {
	case len(s.Command) > 0:
		return func() (Transform, error) { return StartCommand(s.Command) }, nil
	case s.Changes():
		e, err := CompileExpressions(s.Where, s.Keep, s.Columns)
		if err != nil {
			return nil, err
		}
		return func() (Transform, error) { return e.clone(), nil }, nil
	}
	return nil, nil
}

// ShadowPath gives the place of a job's new table below the folder of the table that it is to replace.
func ShadowPath(at, job string) string {
	return strings.TrimSuffix(at, "/") + "/" + table.ShadowFolder(job)
}
