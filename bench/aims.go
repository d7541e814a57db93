package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// aim is a goal that an issue of the project states. Scenarios measure it under one or more names of their own.
type aim struct {
	issue    int
	what     string
	scenario string
	goals    *regexp.Regexp // of the scenario, by name
	why      string         // of a miss: the physical reason or the profile, as last looked into

	absent string              // how to measure it, where a page may well come without
	tell   func([]Goal) string // what is said of the goals, met or not; nil: nothing
}

// aims are the goals of issues 4 to 9 that are figures.
func aims() []aim {
	re := regexp.MustCompile
	return []aim{
		{issue: 4, what: "300,000 files listed in a quarter of the time of an encoding/json loop", scenario: "deltalog", goals: re(`encoding/json loop / ours$`)},
		{issue: 4, what: "5 times fewer CPU seconds for it than delta-rs and DuckDB", scenario: "deltalog", goals: re(`^[a-z ]+: CPU seconds of (delta-rs|DuckDB) / ours$`)},
		{issue: 4, what: "60 MB resident for it", scenario: "deltalog", goals: re(`resident MB`), why: "25 MB are pages of the program's file and 9 what its packages set up; the list itself has 27"},
		{issue: 4, what: "a refresh whose time does not depend on the table's size", scenario: "deltalog", goals: re(`^refresh`)},
		{issue: 4, what: "a checkpoint of a million files in bounded memory", scenario: "deltalog", goals: re(`^checkpoint`)},
		{issue: 5, what: "100 times delta-rs's commits a second, and the lock path's", scenario: "committer", goals: re(`^(versitygw: commits a second, group of 3 / delta-rs|commits a second, versitygw: group of 3 / versitygw and dynalite.*)$`)},
		{issue: 5, what: "20 times direct commits", scenario: "committer", goals: re(`^versitygw: commits a second, group of 3 / direct$`)},
		{issue: 5, what: "the rate grows up to 256 writers", scenario: "committer", goals: re(`^versitygw: commits a second, group of 3, .* writers? / .* writers?$`)},
		{issue: 5, what: "with 30 ms more a put the gap grows (answers after the Raft commit)", scenario: "committer", goals: re(`^versitygw: .*early answers, 30 ms more a put / without$`)},
		{issue: 5, what: "p99 of a commit below 1 s, no writer starved, fail-over below 2 s", scenario: "committer", goals: re(`^versitygw: (p99|most commits|leader lost)`)},
		{issue: 6, what: "durable p50 within two disk syncs at 1, 12 and 1,000 partitions", scenario: "broker", goals: re(`^durable p50`),
			why: "the way there and back does not get shorter with a faster disk, and is about one sync of this one: README of docs/benchmarks"},
		{issue: 6, what: "durable produce 3 times Kafka's with a flush a message", scenario: "broker", goals: re(`^durable produce`),
			why: "client and server share two processors: with no sync at all it is not three times as much here: README of docs/benchmarks"},
		{issue: 6, what: "processor time a GB at or below Kafka's", scenario: "broker", goals: re(`^CPU a GB`)},
		{issue: 6, what: "a third of Kafka's memory", scenario: "broker", goals: re(`^resident memory`)},
		{issue: 6, what: "start within 200 ms", scenario: "broker", goals: re(`^seconds to start`)},
		{issue: 6, what: "replay of history through Fetch, 200 MB/s of record bytes a core", scenario: "broker", goals: re(`^history through Fetch`)},
		{issue: 7, what: "1.5 million records of 690 bytes a CPU second, all columns", scenario: "replay", goals: re(`^all columns: million`),
			why: "pages that are read, checked and decompressed, with nothing decoded, make 1.1 to 1.5 million alone (case pages only)"},
		{issue: 7, what: "ahead of delta-rs, polars and DuckDB, all columns and three", scenario: "replay", goals: re(`ours / (delta-rs|polars|DuckDB|Spark)$`)},
		{issue: 7, what: "three columns 5 times all of them", scenario: "replay", goals: re(`^three columns / all`)},
		{issue: 7, what: "one offset among 100,000 files within 30 ms", scenario: "replay", goals: re(`^(first record at|the same / in one)`)},
		{issue: 7, what: "no pause above 100 ms at the seam", scenario: "replay", goals: re(`^pause at the seam`)},
		{issue: 7, what: "records of the log that is followed within 20 ms, p99, above the log's own", scenario: "replay", goals: re(`^following:`)},
		{issue: 7, what: "the Samza talk's 5 x 10 million messages in seconds, where it took 40 minutes", scenario: "replay", goals: re(`: seconds for 5 x`),
			absent: "`bench replay --case reprocess --records 10000000`, and `--case workers`", tell: besideTalk},
		{issue: 8, what: "20 times the daemon's records a second: 230 B, 690 B, 2 KB; 1 and 12 partitions", scenario: "ingest", goals: re(`: records a second,`),
			why: "start, fetch and commit are in it, and Kafka shares the two processors: README of docs/benchmarks"},
		{issue: 8, what: "30 times by processor time", scenario: "ingest", goals: re(`: records per CPU second, ledgerlake / kafka-delta-ingest$`),
			why: "fetching, unpacking and decoding alone take most of what the goal leaves (the floors of the scenario)"},
		{issue: 8, what: "a third of its memory", scenario: "ingest", goals: re(`: memory,`), why: "25 MB are pages of the program's file and 9 what its packages set up, which is most of what one partition allows"},
		{issue: 8, what: "fetch to visible, p50 at most 1 s", scenario: "ingest", goals: re(`fetch to visible`)},
		{issue: 8, what: "flat memory, files and handles over half an hour at full rate", scenario: soakScenario, goals: re(`.`), absent: "`make soak`"},
		{issue: 8, what: "the talk's deployments within the talk's processors", scenario: "deployments", goals: re(`processors a task, ledgerlake$`)},
		{issue: 9, what: "replay 3 times Pulsar's reader", scenario: "pulsar", goals: re(`^replay / Pulsar's reader`)},
	}
}

// verdict is what the reports say of an aim.
func (a aim) verdict(reports []*Report) (goals []Goal, said string) {
	for _, r := range reports {
		if r.Scenario != a.scenario {
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
		want := ""
		if len(goals) > 0 {
			want = short(goals[0].Want)
		}
		fmt.Fprintf(page, "| %d | %s | %s | %s | %s | %s |\n", a.issue, a.what, want, got(goals), said, a.remark(reports, goals, said))
	}
}

// remark is what the page says beside a verdict.
func (a aim) remark(reports []*Report, goals []Goal, said string) string {
	if len(goals) == 0 {
		return a.absent
	}
	var out []string
	if said != "met" && a.why != "" {
		out = append(out, a.why)
	}
	if a.tell != nil {
		out = append(out, a.tell(goals))
	}
	for _, r := range reports {
		if r.Scenario == a.scenario && r.Commit != reports[0].Commit && slices.ContainsFunc(r.Goals, func(g Goal) bool { return a.goals.MatchString(g.Name) }) {
			out = append(out, fmt.Sprintf("at commit %s, %s", cmp.Or(r.Commit, "not recorded"), r.Time.Format("2006-01-02")))
		}
	}
	return strings.Join(out, "; ")
}

// besideTalk says how often the measured time goes into the talk's 40 minutes, and how many messages were measured.
func besideTalk(goals []Goal) string {
	slow := slices.MaxFunc(goals, byGot)
	_, measured, _ := strings.Cut(slow.Name, ": ")
	return fmt.Sprintf("%s; the slowest is %s times as fast as the talk's 40 minutes on other machines; a minute is taken for \"seconds\"", measured, short(talkSeconds/slow.Got))
}
