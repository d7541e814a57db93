package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// fleet is the processes of one side, measured together.
type fleet []*child

// cpu is the processor time of all so far.
func (f fleet) cpu() (sum time.Duration) {
	for _, c := range f {
		sum += c.cpu()
	}
	return sum
}

// peakMB is the most memory of each, together.
func (f fleet) peakMB() (sum float64) {
	for _, c := range f {
		sum += float64(c.peak.Load()) * 1024 / 1e6
	}
	return sum
}

// ended says how one of them has ended; nil while all run.
func (f fleet) ended() error {
	for _, c := range f {
		if err := c.ended(); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for the end of all by themselves.
func (f fleet) wait(ctx context.Context) (err error) {
	for _, c := range f {
		err = errors.Join(err, c.wait(ctx))
	}
	return err
}

// end asks all to stop.
func (f fleet) end() {
	for _, c := range f {
		c.end()
	}
}

// log is the end of what the first one said.
func (f fleet) log() string { return lastOf(f[0].log) }

// launch starts the processes of a side on a table, each in the box when there is one.
func (w *ingestWork) launch(ctx context.Context, side ingestSide, load *topicLoad, table string) (fleet, error) {
	args := side.args(w, load, table)
	name := side.binary
	var out fleet
	for i := range max(1, w.processes) {
		of, with := name, args
		if w.box != nil {
			of, with = w.box.command(i, name, args)
		}
		c, err := startChild(ctx, filepath.Join(w.scratch, fmt.Sprintf("%s-%d.log", table, i)), append(w.lake.env, side.env...), of, with...)
		if err != nil {
			out.end()
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}
