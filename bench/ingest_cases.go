package bench

import (
	"fmt"
	"slices"
	"strings"
)

// ingestCase is one piece of work for every side. Without a rate a topic that is full is drained; with one,
// messages come at that rate for some seconds, and the table is watched for them.
type ingestCase struct {
	name       string
	shape      string
	partitions int
	processes  int // that share the partitions; 0: one
	codec      string
	store      ingestStore
	raw        bool    // the side that keeps the raw records, and the plain pipeline, run too
	share      float64 // of Config.Records, for a drain
	rate       int     // records a second
	seconds    int     // of a rate
	outage     int     // seconds for which the program is away in the middle of a rate; 0: it is not
	latency    int     // seconds of data that may wait for a commit
	smoke      bool    // part of the short run
	goals      bool    // those of the ingest issue count here
}

func (c ingestCase) title() string {
	if c.rate > 0 {
		return fmt.Sprintf("%s, %d/s", c.name, c.rate)
	}
	return c.name
}

// about says what the case is, for lists.
func (c ingestCase) about() string {
	s, _ := shapeOf(c.shape)
	out := []string{s.about, count(c.partitions, "partition"), count(max(1, c.processes), "process")}
	if c.codec != "" {
		out = append(out, "batches in "+c.codec)
	}
	if c.store != onFolder {
		out = append(out, "on "+string(c.store))
	}
	switch {
	case c.outage > 0:
		out = append(out, fmt.Sprintf("%d/s, the program is away for %d s", c.rate, c.outage))
	case c.rate > 0:
		out = append(out, fmt.Sprintf("%d/s for %d s, commits each %d s", c.rate, c.seconds, c.latency))
	default:
		out = append(out, "drain")
	}
	return strings.Join(out, "; ")
}

func count(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "s"):
		return fmt.Sprintf("%d %ses", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// ingestCases are all cases.
func ingestCases() []ingestCase {
	return []ingestCase{
		{name: "web x12", shape: "web", partitions: 12, share: 1, latency: 2, smoke: true, goals: true},
		{name: "web x1", shape: "web", partitions: 1, share: 0.5, latency: 2, goals: true},
		{name: "event x1", shape: "event", partitions: 1, share: 0.5, latency: 2, goals: true},
		{name: "event x12", shape: "event", partitions: 12, share: 1, latency: 2, smoke: true, goals: true, raw: true},
		{name: "event2k x1", shape: "event2k", partitions: 1, share: 0.25, latency: 2, goals: true},
		{name: "event2k x12", shape: "event2k", partitions: 12, share: 0.25, latency: 2, goals: true},
		{name: "event x100", shape: "event", partitions: 100, share: 0.5, latency: 2},
		{name: "wide x12", shape: "wide", partitions: 12, share: 0.25, latency: 2},
		{name: "shuffled x12", shape: "shuffled", partitions: 12, share: 0.5, latency: 2},
		{name: "avro x12", shape: "avro", partitions: 12, share: 0.5, latency: 2},
		{name: "divided x12", shape: "web100", partitions: 12, share: 0.5, latency: 2},
		{name: "uncompressed x12", shape: "event", partitions: 12, share: 0.5, latency: 2, codec: "none"},
		{name: "gzip x12", shape: "event", partitions: 12, share: 0.5, latency: 2, codec: "gzip"},
		{name: "snappy x12", shape: "event", partitions: 12, share: 0.5, latency: 2, codec: "snappy"},
		{name: "zstd x12", shape: "event", partitions: 12, share: 0.5, latency: 2, codec: "zstd"},
		{name: "2 processes", shape: "event", partitions: 12, processes: 2, share: 0.5, latency: 2},
		{name: "4 processes", shape: "event", partitions: 12, processes: 4, share: 0.5, latency: 2},
		{name: "S3 x12", shape: "event", partitions: 12, share: 0.5, latency: 2, store: onS3},
		{name: "S3 fresh", shape: "event", partitions: 12, rate: 2000, seconds: 20, latency: 1, store: onS3},
		{name: "fresh x12", shape: "event", partitions: 12, rate: 2000, seconds: 20, latency: 1, smoke: true, goals: true},
		{name: "outage x12", shape: "event", partitions: 12, rate: 2000, seconds: 12, outage: 15, latency: 1},
	}
}

// chosenCases gives the cases of a run: those that are named, else the short ones, or all.
func chosenCases(cfg Config) ([]ingestCase, error) {
	all := ingestCases()
	if len(cfg.Cases) == 0 {
		return slices.DeleteFunc(all, func(c ingestCase) bool { return !cfg.Full && !c.smoke }), nil
	}
	var out []ingestCase
	for _, name := range cfg.Cases {
		i := slices.IndexFunc(all, func(c ingestCase) bool { return c.name == name })
		if i < 0 {
			var names []string
			for _, c := range all {
				names = append(names, c.name)
			}
			return nil, fmt.Errorf("bench: no case %q; there are %s", name, strings.Join(names, ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}
