package bench

import "fmt"

// ingestNotes say what a reader of the figures must know.
func ingestNotes(cfg Config) []string {
	notes := []string{
		"Kafka, the programs and the sender of the load share this machine's processors; sides run one after the other, in turns.",
		"A drain is timed from the start of the program until the table has every record, program start included.",
	}
	if cfg.ReferenceBin != "" {
		notes = append(notes, "kafka-delta-ingest: "+cfg.ReferenceNote)
	}
	return notes
}

// ingestGoals are those of the ingest issue, for each case that it names where the daemon ran; and to be ahead of Spark, where that ran.
func ingestGoals(r *Report, cases []ingestCase) {
	perSecond := func(s Sample) float64 { return float64(s.Records) / s.Seconds }
	perCPU := func(s Sample) float64 { return float64(s.Records) / max(s.CPUSeconds, 1e-9) }
	memory := func(s Sample) float64 { return s.MaxMB }
	for _, c := range cases {
		if !c.goals {
			continue
		}
		ours, daemon := "ledgerlake, "+c.title(), "kafka-delta-ingest, "+c.title()
		if c.rate > 0 {
			if p50 := r.median(ours, func(s Sample) float64 { return s.P50 }); p50 > 0 && c.latency == 1 {
				r.atMost(c.name+": fetch to visible, p50 in ms", 1000, p50)
			}
			continue
		}
		if theirs := r.median(sideSpark+", "+c.title(), perCPU); theirs > 0 {
			r.atLeast(fmt.Sprintf("%s: records per CPU second, ledgerlake / %s", c.name, sideSpark), 1, r.median(ours, perCPU)/theirs)
		}
		if r.median(daemon, perSecond) == 0 || r.median(ours, perSecond) == 0 {
			continue
		}
		r.atLeast(fmt.Sprintf("%s: records a second, ledgerlake / kafka-delta-ingest", c.name), 20, r.median(ours, perSecond)/r.median(daemon, perSecond))
		r.atLeast(fmt.Sprintf("%s: records per CPU second, ledgerlake / kafka-delta-ingest", c.name), 30, r.median(ours, perCPU)/r.median(daemon, perCPU))
		r.atMost(fmt.Sprintf("%s: memory, ledgerlake / kafka-delta-ingest", c.name), 1.0/3, r.median(ours, memory)/r.median(daemon, memory))
	}
}
