package soak

import (
	"fmt"
	"slices"
	"time"
)

// Point is one value of a series.
type Point struct {
	At    time.Duration `json:"at"` // since the start
	Value float64       `json:"value"`
}

// Limit says what a series may grow over the part of the run that is judged: the larger of a share of its median and of
// an absolute amount, below which a difference is noise of the allocator, or where in its round a job happens to be.
type Limit struct {
	Share float64 `json:"share"`
	Least float64 `json:"least"`
}

// Verdict is what a series did.
type Verdict struct {
	Name    string  `json:"name"`
	Limit   Limit   `json:"limit"`
	Judged  int     `json:"judged"` // points of the last two thirds
	Median  float64 `json:"median"` // of them
	Least   float64 `json:"least"`
	Most    float64 `json:"most"`
	Growth  float64 `json:"growth"`  // by the trend, over the last two thirds
	Allowed float64 `json:"allowed"` // growth
	Flat    bool    `json:"flat"`
}

func (v Verdict) String() string {
	word := "GROWS"
	switch {
	case v.Flat:
		word = "flat"
	case v.Judged < fewest:
		word = "TOO FEW SAMPLES"
	}
	return fmt.Sprintf("%-16s median %14.0f  from %14.0f to %14.0f  trend %+13.0f  allowed %12.0f  %s", v.Name, v.Median, v.Least, v.Most, v.Growth, v.Allowed, word)
}

// fewest is how many points a trend needs.
const fewest = 12

// Judge looks at the last two thirds of a series: what comes before is warming up. The trend is the median of the
// slopes between all pairs of points (Theil and Sen), which a sawtooth and single peaks do not move. A series of too few points
// is not called flat.
func Judge(name string, series []Point, limit Limit) Verdict {
	v := Verdict{Name: name, Limit: limit}
	if len(series) == 0 {
		return v
	}
	end := series[len(series)-1].At
	from, _ := slices.BinarySearchFunc(series, end/3, func(p Point, at time.Duration) int { return int(p.At - at) })
	series = series[from:]
	values := make([]float64, len(series))
	for i, p := range series {
		values[i] = p.Value
	}
	v.Judged, v.Median, v.Least, v.Most = len(series), median(values), slices.Min(values), slices.Max(values)
	v.Allowed = max(limit.Least, limit.Share*v.Median)
	if len(series) < fewest {
		return v
	}
	v.Growth = slope(series) * (end - series[0].At).Seconds()
	v.Flat = v.Growth <= v.Allowed
	return v
}

// slope is the median slope a second.
func slope(series []Point) float64 {
	var slopes []float64
	for i, a := range series {
		for _, b := range series[i+1:] {
			if dt := (b.At - a.At).Seconds(); dt > 0 {
				slopes = append(slopes, (b.Value-a.Value)/dt)
			}
		}
	}
	if len(slopes) == 0 {
		return 0
	}
	return median(slopes)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
