package bench

import (
	"context"
	"errors"
	"runtime/debug"
	"time"
)

// Listing is what a process says of the table that it has listed, measured from inside: what it took to start does not count.
type Listing struct {
	Files      int     `json:"files"`
	PathBytes  int     `json:"pathBytes"` // so that every path was looked at
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"` // of all threads of the process
}

// ListFiles lists the files of a table, as `inspect` opens it.
func ListFiles(ctx context.Context, path string) (out Listing, err error) {
	cpu, begin := cpuTime(), time.Now()
	debug.SetGCPercent(200)
	l, err := openLog(ctx, path)
	if err != nil {
		return out, err
	}
	snap, err := l.Snapshot(ctx)
	if err != nil {
		return out, errors.Join(err, l.Close())
	}
	for b := range snap.Blocks() {
		for i := range b.Len() {
			if b.Live(i) {
				out.Files, out.PathBytes = out.Files+1, out.PathBytes+len(b.Path(i))
			}
		}
	}
	out.Seconds, out.CPUSeconds = time.Since(begin).Seconds(), (cpuTime() - cpu).Seconds()
	return out, l.Close()
}
