package bench

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// aim is a goal that an issue of the project states. Scenarios measure it under one or more names of their own.
type aim struct {
	issue     int
	what      string
	scenario  string
	goals     *regexp.Regexp // of the scenario, by name; nil: no scenario measures it
	elsewhere string         // what does, when no scenario does
	why       string         // of a miss: the physical reason or the profile, as last looked into
}

// aims are the goals of issues 4 to 9 that are figures.
func aims() []aim {
	re := regexp.MustCompile
	return []aim{
		{4, "300,000 files listed in a quarter of the time of an encoding/json loop", "deltalog", re(`encoding/json loop / ours$`), "", ""},
		{4, "5 times fewer CPU seconds for it than delta-rs and DuckDB", "deltalog", re(`^[a-z ]+: CPU seconds of (delta-rs|DuckDB) / ours$`), "",
			""},
		{4, "60 MB resident for it", "deltalog", re(`resident MB`), "", "about 43 MB are the idle process: pages of the binary, and what its packages set up"},
		{4, "a refresh whose time does not depend on the table's size", "deltalog", re(`^refresh`), "", ""},
		{4, "a checkpoint of a million files in bounded memory", "deltalog", re(`^checkpoint`), "", ""},
		{5, "100 times delta-rs's commits a second, and the lock path's", "committer", re(`^(versitygw: commits a second, group of 3 / delta-rs|commits a second, versitygw: group of 3 / versitygw and dynalite.*)$`), "", ""},
		{5, "20 times direct commits", "committer", re(`^versitygw: commits a second, group of 3 / direct$`), "", ""},
		{5, "the rate grows up to 256 writers", "committer", re(`^versitygw: commits a second, group of 3, .* writers? / .* writers?$`), "", ""},
		{5, "with 30 ms more a put the gap grows (answers after the Raft commit)", "committer", re(`^versitygw: .*early answers, 30 ms more a put / without$`), "",
			""},
		{5, "p99 of a commit below 1 s, no writer starved, fail-over below 2 s", "committer", re(`^versitygw: (p99|most commits|leader lost)`), "", ""},
		{6, "durable p50 within two disk syncs at 1, 12 and 1,000 partitions", "broker", re(`^durable p50`), "", ""},
		{6, "durable produce 3 times Kafka's with a flush a message", "broker", re(`^durable produce`), "", ""},
		{6, "processor time a GB at or below Kafka's", "broker", re(`^CPU a GB`), "",
			""},
		{6, "a third of Kafka's memory", "broker", re(`^resident memory`), "", ""},
		{6, "start within 200 ms", "broker", re(`^seconds to start`), "", ""},
		{6, "replay of history through Fetch, 200 MB/s a core", "", nil, "`make micro PKG=./broker/wire BENCH=History`", ""},
		{7, "1.5 million records of 690 bytes a CPU second, all columns", "replay", re(`^all columns: million`), "",
			"the figure came from another machine; on this one the other engines are below ours, and the ratio beside them is the better goal"},
		{7, "ahead of delta-rs, polars and DuckDB, all columns and three", "replay", re(`ours / (delta-rs|polars|DuckDB|Spark)$`), "", ""},
		{7, "three columns 5 times all of them", "replay", re(`^three columns / all`), "", ""},
		{7, "one offset among 100,000 files within 30 ms", "replay", re(`^(first record at|the same / in one)`), "", ""},
		{7, "no pause above 100 ms at the seam", "replay", re(`^pause at the seam`), "", ""},
		{7, "records of the log that is followed within 20 ms, p99, above the log's own", "replay", re(`^following:`), "", ""},
		{7, "the Samza talk's 5 x 10 million messages in seconds", "replay", re(`workers?( /|:)|^reprocess,`), "`bench replay --case reprocess --records 10000000`, and `--case workers`", ""},
		{8, "20 times the daemon's records a second: 230 B, 690 B, 2 KB; 1 and 12 partitions", "ingest", re(`: records a second,`), "",
			""},
		{8, "30 times by processor time", "ingest", re(`: records per CPU second,`), "",
			""},
		{8, "a third of its memory", "ingest", re(`: memory,`), "", "about 43 MB are the idle process: pages of the binary, and what its packages set up"},
		{8, "fetch to visible, p50 at most 1 s", "ingest", re(`fetch to visible`), "", ""},
		{8, "flat memory, files and handles over half an hour at full rate", "", nil, "`make soak`", ""},
		{8, "the talk's deployments within the talk's processors", "deployments", re(`processors a task, ledgerlake$`), "", ""},
		{9, "replay 3 times Pulsar's reader", "pulsar", re(`^replay / Pulsar's reader`), "", ""},
	}
}

// verdict is what the reports say of an aim.
func (a aim) verdict(reports []*Report) (goals []Goal, said string) {
	for _, r := range reports {
		if a.goals == nil || r.Scenario != a.scenario {
			continue
		}
		for _, g := range r.Goals {
			if a.goals.MatchString(g.Name) {
				goals = append(goals, g)
			}
		}
	}
	met := 0
	for _, g := range goals {
		if g.Met {
			met++
		}
	}
	switch {
	case len(goals) == 0:
		return nil, "not measured here"
	case met == len(goals):
		return goals, "met"
	case met == 0:
		return goals, "**missed**"
	}
	return goals, fmt.Sprintf("**missed** in %d of %d", len(goals)-met, len(goals))
}

// got shows the figures of goals beside what is wanted.
func got(goals []Goal) string {
	if len(goals) == 0 {
		return ""
	}
	if len(goals) <= 6 {
		var out []string
		for _, g := range goals {
			out = append(out, short(g.Got))
		}
		return strings.Join(out, ", ")
	}
	low := slices.MinFunc(goals, byGot)
	high := slices.MaxFunc(goals, byGot)
	return short(low.Got) + " to " + short(high.Got)
}

func byGot(a, b Goal) int {
	switch {
	case a.Got < b.Got:
		return -1
	case a.Got > b.Got:
		return 1
	}
	return 0
}

// writeAims lists every goal of the issues, met or not or not measured, and why it was missed.
func writeAims(page *bytes.Buffer, reports []*Report) {
	page.WriteString("\n## The goals of the issues\n\n| issue | goal | want | got | | |\n|---:|---|---:|---:|---|---|\n")
	for _, a := range aims() {
		goals, said := a.verdict(reports)
		want, more := "", ""
		if len(goals) > 0 {
			want = short(goals[0].Want)
		}
		switch {
		case len(goals) == 0:
			more = a.elsewhere
		case said != "met":
			more = a.why
		}
		fmt.Fprintf(page, "| %d | %s | %s | %s | %s | %s |\n", a.issue, a.what, want, got(goals), said, more)
	}
}
