package bench

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
)

// bar is one measured thing of a plot, with the range of its samples.
type bar struct {
	label        string
	value        float64
	low, high    float64
	ours         bool
	valueAsShown string
}

// barGroup is a piece of work with a bar for each side.
type barGroup struct {
	title string
	bars  []bar
}

func (g barGroup) longest() (v float64) {
	for _, b := range g.bars {
		v = max(v, b.high, b.value)
	}
	return v
}

const (
	plotWidth   = 760
	plotLabel   = 190 // room for the sides' names
	plotValue   = 110 // room for the figures
	barHeight   = 16
	barGap      = 6
	groupHeader = 26
)

// The two colours hold on white and on dark pages; text follows the page's scheme.
const plotStyle = `<style>
text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#24292f}
.title{font-weight:600;font-size:14px}.group{font-weight:600}.faint{fill:#6e7781}
.ours{fill:#0a7f6f}.peer{fill:#9aa4af}.whisker{stroke:#24292f;stroke-width:1}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.faint{fill:#8d96a0}.ours{fill:#2bb8a3}.peer{fill:#59636e}.whisker{stroke:#e6edf3}}
</style>`

// writePlot draws horizontal bars, a group below the other; the longest bar of each group fills the width, so lengths
// compare within a group only, unless all have one scale. Whiskers are the least and the most of the samples.
func writePlot(w io.Writer, title string, groups []barGroup, oneScale bool) error {
	height := 34
	for _, g := range groups {
		height += groupHeader + len(g.bars)*(barHeight+barGap)
	}
	height += 12
	out := &errWriter{w: w}
	out.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n%s\n",
		plotWidth, height, plotWidth, height, html.EscapeString(title), plotStyle)
	out.printf(`<text class="title" x="0" y="18">%s</text>`+"\n", html.EscapeString(title))
	y := 34
	for _, g := range groups {
		out.printf(`<text class="group" x="0" y="%d">%s</text>`+"\n", y+14, html.EscapeString(g.title))
		y += groupHeader
		longest := g.longest()
		if oneScale {
			longest = slices.MaxFunc(groups, func(a, b barGroup) int { return cmp.Compare(a.longest(), b.longest()) }).longest()
		}
		for _, b := range g.bars {
			drawBar(out, b, y, longest)
			y += barHeight + barGap
		}
	}
	out.printf("</svg>\n")
	return out.err
}

func drawBar(out *errWriter, b bar, y int, longest float64) {
	room := float64(plotWidth - plotLabel - plotValue)
	scale := func(v float64) float64 {
		if longest <= 0 || math.IsInf(longest, 0) {
			return 0
		}
		return math.Round(v/longest*room*10) / 10
	}
	class := "peer"
	if b.ours {
		class = "ours"
	}
	mid := y + barHeight/2
	out.printf(`<text x="%d" y="%d" text-anchor="end">%s</text>`, plotLabel-8, mid+4, html.EscapeString(b.label))
	out.printf(`<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`, class, plotLabel, y, max(1, scale(b.value)), barHeight)
	if b.high > b.low {
		out.printf(`<line class="whisker" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`, plotLabel+scale(b.low), plotLabel+scale(b.high), mid, mid)
	}
	out.printf(`<text class="faint" x="%.1f" y="%d">%s</text>`+"\n", plotLabel+scale(max(b.value, b.high))+6, mid+4, html.EscapeString(b.valueAsShown))
}

// errWriter keeps the first error.
type errWriter struct {
	w   io.Writer
	err error
}

func (e *errWriter) printf(format string, args ...any) {
	if e.err == nil {
		_, e.err = fmt.Fprintf(e.w, format, args...)
	}
}
