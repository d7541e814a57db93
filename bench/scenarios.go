package bench

import "context"

// Scenario is one thing to measure: what bench runs, lists and helps with.
type Scenario struct {
	Name     string   `json:"name"`
	About    string   `json:"about"`    // in a line
	Measures string   `json:"measures"` // what its samples hold, and how
	Peers    []string `json:"peers"`    // what runs beside, where it is installed
	Needs    string   `json:"needs,omitempty"`
	Cases    []Case   `json:"cases,omitempty"` // those that can be asked for one by one

	Records string                                         `json:"-"` // what Config.Records are; empty: they are not used
	Rounds  string                                         `json:"-"` // what Config.Rounds are; empty: they are not used
	Daemon  bool                                           `json:"-"` // Config.ReferenceBin runs beside
	Run     func(context.Context, Config) (*Report, error) `json:"-"`
}

// Case is a part of a scenario.
type Case struct {
	Name  string `json:"name"`
	About string `json:"about"`
	Usual bool   `json:"usual"` // it runs when no case is asked for
}

const (
	needsKafka = "the Kafka of `make services`, and the working directory at the top of the repository"
	eachSide   = "measured runs of each side"
)

// Scenarios are all that there are, in the order of a report.
func Scenarios() []Scenario {
	return []Scenario{
		{
			Name: "ingest", About: "a real Kafka's topic to Delta table, beside kafka-delta-ingest and others", Run: withPrograms(RunIngest),
			Measures: "Drains: records a second from the start of the program until a reader finds every record, CPU seconds, most memory, files, versions, " +
				"requests to the store. Rates: milliseconds from sending to visible, start-up, the share of a processor. Outage: how long it takes to catch up. " +
				"Every table is read back and compared with what was sent.",
			Peers: []string{"kafka-delta-ingest (--reference-bin)", "a loop over delta-rs", "Spark Structured Streaming (LEDGERLAKE_SPARK=1)", "a plain Go pipeline"},
			Needs: needsKafka, Cases: caseList(ingestCases(), func(c ingestCase) Case { return Case{c.name, c.about(), c.smoke} }),
			Records: "records of a drain; a case takes its share", Rounds: eachSide, Daemon: true,
		},
		{
			Name: "deployments", About: "three deployments of kafka-delta-ingest that were told of, at their rates: how small a box holds each", Run: withPrograms(RunDeployments),
			Measures: "Messages come at the rate; the program is held to a share of a processor by a control group, smaller and larger in turn. A share holds when " +
				"99 of 100 messages are in the table within three times the allowed latency. Where groups are not allowed, the share that is used is measured.",
			Peers: []string{"kafka-delta-ingest (--reference-bin)"},
			Needs: needsKafka, Cases: caseList(deployments(), func(d deployment) Case { return Case{d.name, d.about, true} }), Daemon: true,
		},
		{
			Name: "tiering", About: "the embedded log to Delta table, beside the same pipeline with encoding/json maps and arrow-go defaults", Run: RunTiering,
			Measures: "MB of values a second and a CPU second; rows of both results are counted.", Peers: []string{"a plain Go pipeline"},
			Records: "records of the log", Rounds: eachSide,
		},
		{
			Name: "log", About: "append to the embedded log, beside plain sequential writes of the same bytes", Run: RunLog,
			Measures: "MB of values a second and a CPU second, without sync and durable.", Peers: []string{"sequential writes with an fdatasync each"},
			Records: "records a run", Rounds: eachSide,
		},
		{
			Name: "replay", About: "a table into Arrow, beside other engines; an offset among 100,000 files; the seam; following the log", Run: RunReplay,
			Measures: "Records a second and a CPU second of all columns and of three; milliseconds to a first record; the pause where table and log meet; milliseconds " +
				"from the append of a record to a reader that follows, and to the log's own fetch.",
			Peers: []string{"delta-rs", "polars", "DuckDB", "Spark (LEDGERLAKE_SPARK=1)"},
			Cases: []Case{{workersCase, "instead of the usual: 5 partitions of --records messages each, from the table, by 1, 2 and 5 workers", false},
				{reprocessCase, "instead of the usual: 5 partitions of --records small messages each become new tables, by jobs that copy, and that filter and add a column", false}},
			Records: "records of the table", Rounds: eachSide,
		},
		{
			Name: "deltalog", About: "a Delta log of many files becomes a snapshot, beside an encoding/json loop, delta-rs and DuckDB", Run: withPrograms(RunDeltalog),
			Measures: "Seconds, CPU seconds and memory to list the files; a refresh after a commit; a checkpoint of a million files.",
			Peers:    []string{"an encoding/json loop", "delta-rs", "DuckDB"}, Records: "two thirds of the files of the log", Rounds: eachSide,
		},
		{
			Name: "committer", About: "32 writers of one table, through a group of committers, beside direct commits and delta-rs", Run: RunCommitter,
			Measures: "Commits a second, their latency, conflicts, fairness, fail-over, on a folder and on an S3 server, quick and slow.",
			Peers:    []string{"delta-rs", "delta-rs 0.25.5 with a lock table"}, Cases: committerCaseList(), Rounds: eachSide,
		},
		{
			Name: "broker", About: "produce and consume through the Kafka port at 1, 12 and 1,000 partitions, beside a real Kafka", Run: withPrograms(RunBroker),
			Measures: "Records a second and a CPU second of the server, milliseconds to the acknowledgement at 5,000 a second, memory, time to start; history that the table alone has.",
			Peers:    []string{"Kafka", "Kafka with flush.messages=1"}, Needs: needsKafka, Records: "records a run", Rounds: eachSide,
			Cases: []Case{{sideOurs, "no sync a batch", true}, {sideDurable, "a sync before each acknowledgement", true},
				{sideHistory, "consume alone, of a topic whose records are in its table and no longer in the log; every value is compared", true}, {sideKafka, "both settings of Kafka", true}},
		},
		{
			Name: "pulsar", About: "a real Pulsar's topic to Delta table and back, beside Pulsar's own reader and the way from Kafka", Run: withPrograms(RunPulsar),
			Measures: "Records a second and a CPU second of the reader alone.", Peers: []string{"Pulsar's Java reader"},
			Needs: "the Pulsar of `make pulsar`, and " + needsKafka, Records: "messages of the topic", Rounds: eachSide,
		},
	}
}

func caseList[C any](all []C, of func(C) Case) (out []Case) {
	for _, c := range all {
		out = append(out, of(c))
	}
	return out
}
