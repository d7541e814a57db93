package soak

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

// What grows is found under noise, and what goes up and down is not called growth.
func TestJudge(t *testing.T) {
	const mib = 1 << 20
	rng := rand.New(rand.NewPCG(seedtest.New(t), 1))
	limit := Limit{Share: 0.1, Least: 16 * mib}
	noise := func() float64 { return (rng.Float64() - 0.5) * 20 * mib }
	for _, c := range []struct {
		name string
		flat bool
		at   func(i int) float64
	}{
		{"noise", true, func(int) float64 { return 100*mib + noise() }},
		{"a leak of 150 KiB a sample under noise of 20 MiB", false, func(i int) float64 { return 100*mib + float64(i)*0.15*mib + noise() }}, // nine deviations of the trend above the limit
		{"a sawtooth", true, func(i int) float64 { return 100*mib + float64(i%17)*5*mib }},
		{"a sawtooth whose teeth end higher each time", false, func(i int) float64 { return 100*mib + float64(i%17)*5*mib + float64(i/17)*2*mib }},
		{"growth while it warms up alone", true, func(i int) float64 { return 100*mib + min(float64(i), 90)*mib }},
		{"a peak", true, func(i int) float64 { return 100*mib + map[bool]float64{true: 900 * mib}[i == 200] }},
		{"a step in the middle of what is judged", false, func(i int) float64 { return 100*mib + map[bool]float64{true: 90 * mib}[i > 200] + noise() }},
		{"it shrinks", true, func(i int) float64 { return 500*mib - float64(i)*mib }},
	} {
		var series []Point
		for i := range 300 {
			series = append(series, Point{time.Duration(i) * 3 * time.Second, c.at(i)})
		}
		if v := Judge(c.name, series, limit); v.Flat != c.flat {
			t.Errorf("%s: flat is %v: %s", c.name, v.Flat, v)
		}
	}
	if v := Judge("too few", []Point{{0, 1}, {time.Second, 1}}, limit); v.Flat {
		t.Error("two points are called flat")
	}
}
