package web

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerlake/ledgerlake/broker"
)

// logCollector shows the bounds of log and lake to Prometheus.
type logCollector struct{ s *Server }

// gauge is one number of a partition.
type gauge struct {
	name, help string
	value      func(Partition) float64
}

func gauges() []gauge {
	return []gauge{
		{"ledgerlake_log_start_offset", "First offset that the log still holds.", func(p Partition) float64 { return float64(p.LogStart) }},
		{"ledgerlake_log_end_offset", "High watermark: the offset of the next record.", func(p Partition) float64 { return float64(p.End) }},
		{"ledgerlake_log_stable_offset", "Last stable offset: what read_committed readers see ends here.", func(p Partition) float64 { return float64(p.Stable) }},
		{"ledgerlake_lake_end_offset", "First offset that is not in the table yet.", func(p Partition) float64 { return float64(p.LakeEnd) }},
	}
}

func (g gauge) desc() *prometheus.Desc {
	return prometheus.NewDesc(g.name, g.help, []string{"topic", "partition"}, nil)
}

// tableGauge is one number of a topic's table.
type tableGauge struct {
	name, help string
	value      func(*Table) float64
}

func tableGauges() []tableGauge {
	return []tableGauge{
		{"ledgerlake_table_version", "Newest version of the table.", func(t *Table) float64 { return float64(t.Version) }},
		{"ledgerlake_table_files", "Data files of the newest version.", func(t *Table) float64 { return float64(t.Files) }},
		{"ledgerlake_table_bytes", "Bytes of these files.", func(t *Table) float64 { return float64(t.Bytes) }},
		{"ledgerlake_table_age_seconds", "Time since the newest version was committed.", func(t *Table) float64 { return time.Since(t.Committed).Seconds() }},
	}
}

func (g tableGauge) desc() *prometheus.Desc {
	return prometheus.NewDesc(g.name, g.help, []string{"topic"}, nil)
}

// Describe implements prometheus.Collector.
func (*logCollector) Describe(out chan<- *prometheus.Desc) {
	for _, g := range gauges() {
		out <- g.desc()
	}
	for _, g := range tableGauges() {
		out <- g.desc()
	}
}

// Collect implements prometheus.Collector. A topic that cannot be looked at now is left out.
func (c *logCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	infos, err := c.s.cfg.Engine.Topics(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(gauges()[0].desc(), err)
		return
	}
	for _, info := range infos {
		if broker.Internal(info.Name) {
			continue
		}
		t, err := c.s.topicState(ctx, info.Name)
		if err != nil {
			continue
		}
		for _, p := range t.Partitions {
			for _, g := range gauges() {
				out <- prometheus.MustNewConstMetric(g.desc(), prometheus.GaugeValue, g.value(p), t.Name, strconv.Itoa(int(p.Partition)))
			}
		}
		if t.Table == nil {
			continue
		}
		for _, g := range tableGauges() {
			out <- prometheus.MustNewConstMetric(g.desc(), prometheus.GaugeValue, g.value(t.Table), t.Name)
		}
	}
}
