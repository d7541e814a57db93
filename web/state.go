package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// Status is the answer of /v1/status.
type Status struct {
	Version string    `json:"version"`
	Kafka   string    `json:"kafka"`
	Lake    string    `json:"lake"`
	Started time.Time `json:"started"`
	Topics  []Topic   `json:"topics"`
}

// Topic is one topic and its table.
type Topic struct {
	Name       string      `json:"name"`
	Partitions []Partition `json:"partitions"`
	Table      *Table      `json:"table"`             // null: nothing was tiered yet
	Tiering    *Tiering    `json:"tiering"`           // null: nothing tiers it
	Columns    []Column    `json:"columns,omitempty"` // of the table; of one topic only
	Commits    []Commit    `json:"commits,omitempty"` // newest first; of one topic only
	Error      string      `json:"error,omitempty"`   // what could not be found out
}

// Partition has the offsets at which log and lake begin and end.
type Partition struct {
	Partition int32         `json:"partition"`
	Start     record.Offset `json:"start"`    // the first that can be read
	LogStart  record.Offset `json:"logStart"` // the first that is still in the log
	LakeEnd   record.Offset `json:"lakeEnd"`  // the first that is not yet in the table
	Stable    record.Offset `json:"stable"`   // last stable offset
	End       record.Offset `json:"end"`      // high watermark
	Lag       int64         `json:"lag"`      // stable ones that are not in the table
}

// Table is a Delta table at its newest version.
type Table struct {
	URL       string    `json:"url"`
	Version   int64     `json:"version"`
	Files     int       `json:"files"`
	Bytes     int64     `json:"bytes"`
	Rows      *int64    `json:"rows"` // null: not known without reading it
	Committed time.Time `json:"committed"`
}

// Tiering are counters since the start.
type Tiering struct {
	Rows        int64 `json:"rows"`
	Bytes       int64 `json:"bytes"`
	DeadLetters int64 `json:"deadLetters"`
	Commits     int64 `json:"commits"`
	Lost        int64 `json:"lost"`
	Restarts    int64 `json:"restarts"`
}

// Column is a column of a table.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Commit is one version of a table.
type Commit struct {
	Version   int64             `json:"version"`
	Time      time.Time         `json:"time"`
	Operation string            `json:"operation"`
	Metrics   map[string]string `json:"metrics,omitempty"`
	Engine    string            `json:"engine,omitempty"`
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	infos, err := s.cfg.Engine.Topics(r.Context())
	if err != nil {
		fail(w, http.StatusServiceUnavailable, err)
		return
	}
	out := Status{Version: s.cfg.Version, Kafka: s.cfg.Kafka, Lake: s.cfg.Lake, Started: s.started, Topics: []Topic{}}
	for _, info := range infos {
		if broker.Internal(info.Name) {
			continue
		}
		t, err := s.topicState(r.Context(), info.Name)
		if errors.Is(err, broker.ErrUnknownTopic) {
			continue // deleted meanwhile
		}
		if err != nil {
			t.Error = err.Error()
		}
		out.Topics = append(out.Topics, t)
	}
	answer(w, http.StatusOK, out)
}

func (s *Server) topic(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("topic")
	if err := broker.Shown(name); err != nil {
		fail(w, statusOf(err), err)
		return
	}
	t, err := s.topicState(r.Context(), name)
	if err == nil {
		err = s.describe(r.Context(), name, &t)
	}
	switch {
	case errors.Is(err, broker.ErrUnknownTopic):
		fail(w, http.StatusNotFound, err)
		return
	case err != nil:
		t.Error = err.Error()
	}
	answer(w, http.StatusOK, t)
}

// topicState gives bounds and counters. With an error it holds what was found out before it.
func (s *Server) topicState(ctx context.Context, name string) (Topic, error) {
	t := Topic{Name: name, Partitions: []Partition{}}
	parts, err := s.cfg.Engine.Partitions(ctx, name)
	if err != nil {
		return t, err
	}
	var snap *deltalog.Snapshot
	tab, ok := s.cfg.Table(name)
	var tableErr error
	if ok {
		if snap, t.Table, tableErr = s.reports.of(ctx, tab); tableErr != nil {
			snap = nil
		}
	}
	for _, p := range parts {
		b, err := s.cfg.Engine.Bounds(ctx, record.TopicPartition{Topic: name, Partition: p})
		if err != nil {
			return t, err
		}
		part := Partition{Partition: p, Start: b.Start, LogStart: b.Start, Stable: b.Stable, End: b.End}
		if snap != nil {
			if end, known := table.LakeEnd(snap, committer.PositionsOf(snap, name), p); known {
				part.LakeEnd, part.Start = end, 0
			}
		}
		part.Lag = max(0, int64(b.Stable-max(part.LakeEnd, b.Start)))
		t.Partitions = append(t.Partitions, part)
	}
	if st, ok := s.cfg.Tiering(name); ok {
		t.Tiering = &Tiering{Rows: st.Rows, Bytes: st.Bytes, DeadLetters: st.DeadLetters, Commits: st.Commits, Lost: st.Lost, Restarts: st.Restarts}
	}
	return t, tableErr
}

// describe adds what is shown of one topic only.
func (s *Server) describe(ctx context.Context, name string, t *Topic) error {
	tab, ok := s.cfg.Table(name)
	if !ok {
		return nil
	}
	snap, _, err := s.reports.of(ctx, tab)
	if err != nil {
		return err
	}
	schema, err := tab.Schema(snap)
	if err != nil {
		return err
	}
	for _, f := range schema.Fields() {
		t.Columns = append(t.Columns, Column{f.Name, f.Type.String()})
	}
	history, err := tab.Log.History(ctx, 20)
	if err != nil {
		return err
	}
	for _, h := range history {
		t.Commits = append(t.Commits, Commit{Version: int64(h.Version), Time: h.Committed, Operation: h.Operation, Metrics: h.OperationMetrics, Engine: h.EngineInfo})
	}
	return nil
}
