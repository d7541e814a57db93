package bench

import (
	"fmt"
	"math"
	"strings"
)

// brokerGoals are those of issue 6.
func brokerGoals(r *Report) {
	seconds := func(s Sample) float64 { return s.Seconds }
	perGB := func(s Sample) float64 { return s.CPUSeconds / (float64(s.Bytes) / 1e9) }
	p50 := func(s Sample) float64 { return s.P50 }
	for _, n := range brokerPartitions {
		sync, durable := syncCase(n), brokerCase(sideDurable, "5,000 a second", n)
		r.atMost(fmt.Sprintf("durable p50 in disk syncs of %.2f ms, %d partitions", r.median(sync, p50), n), 2, r.ratio(durable, sync, p50))
		r.Notes = append(r.Notes, fmt.Sprintf("%d partitions: a durable record waits %.2f ms, p50; without a sync %.2f ms, which is the way there and back",
			n, r.median(durable, p50), r.median(brokerCase(sideOurs, "5,000 a second", n), p50)))
	}
	for _, n := range brokerPartitions {
		if n < 12 {
			continue
		}
		for _, batch := range []int{0, brokerSmallBatch} {
			r.atLeast("durable "+strings.TrimPrefix(produceCase("", batch, n), ", ")+", times Kafka's with a flush a message", 3,
				r.ratio(produceCase(sideDurable, batch, n), produceCase(sideFlush, batch, n), perSecond))
		}
	}
	for _, what := range []string{"produce", "consume"} {
		for _, n := range brokerPartitions {
			r.atMost(fmt.Sprintf("CPU a GB of %s, times Kafka's, %d partitions", what, n), 1,
				r.ratio(brokerCase(sideOurs, what, n), brokerCase(sideKafka, what, n), perGB))
		}
	}
	ours, theirs := most(r, sideOurs), most(r, sideKafka)
	if ours == 0 { // was not measured
		ours = math.NaN()
	}
	r.atMost("resident memory, times Kafka's", 1.0/3, ours/theirs)
	r.atMost("seconds to start", 0.2, r.median(sideOurs+", start", seconds))
}

// most is the most memory that a side had in any of its cases.
func most(r *Report, side string) (mb float64) {
	for _, s := range r.Samples {
		if len(s.Case) > len(side) && s.Case[:len(side)+1] == side+"," {
			mb = max(mb, s.MaxMB)
		}
	}
	return mb
}

// historyGoals are for what is read from tables, wherever that ran: it is not compared with another side.
func historyGoals(r *Report) {
	for _, n := range historyPartitions {
		if name := brokerCase(sideHistory, "consume", n); r.runs(name) > 0 {
			r.atLeast(fmt.Sprintf("history through Fetch, MB of records a CPU second of the server, %d partitions", n), 200, r.median(name, perCPUSecond))
		}
	}
}
