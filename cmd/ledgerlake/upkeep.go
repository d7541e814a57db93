package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/ledgerlake/ledgerlake/committer/rpc"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/maintenance"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/table"
)

// upkeep optimizes tables beside what fills them, now and then and gradually, so that a table that gets a file
// every few seconds has a few dozen of them and not thousands. More rarely it deletes files that no version of
// the retention time needs, and cleans the transaction log: what a table costs does not grow with its age. It
// opens each table for itself: whoever fills it is not held up.
type upkeep struct {
	interval  time.Duration
	vacuum    time.Duration
	target    byteSize
	openStore func(ctx context.Context, url string) (objstore.Store, error)
	tables    func(ctx context.Context) ([]string, error) // URLs
	group     *rpc.Client                                 // of committers; nil: the store alone orders versions
	log       *slog.Logger
}

// register makes the flags. Files are deleted by default only where the field says how often beforehand.
func (u *upkeep) register(f *pflag.FlagSet) {
	u.target = 256 << 20
	f.DurationVar(&u.interval, "optimize-interval", 5*time.Minute, "how often small files of a table are merged in the background; 0 never. Of several processes that fill one table let one do it")
	f.DurationVar(&u.vacuum, "vacuum-interval", u.vacuum, "how often files that no version of the table's retention time (7 days) needs are deleted, and the old part of its log, as by the vacuum command; 0 never")
	f.Var(&u.target, "optimize-target-size", "size of the files that this makes")
}

const (
	upkeepMinFiles = 8
	upkeepMaxBytes = 1 << 30 // of a table and round
)

// run works until ctx ends, one table at a time.
func (u *upkeep) run(ctx context.Context) {
	optimize, vacuum := newPace(u.interval), newPace(u.vacuum)
	defer optimize.stop()
	defer vacuum.stop()
	for {
		job := u.optimize
		select {
		case <-ctx.Done():
			return
		case <-optimize.due:
			optimize.next()
		case <-vacuum.due:
			vacuum.next()
			job = u.clean
		}
		urls, err := u.tables(ctx)
		if err != nil && ctx.Err() == nil {
			u.log.Warn("no table is maintained in this round", "error", err)
		}
		for _, url := range urls {
			err := u.withTable(ctx, url, job)
			if err != nil && ctx.Err() == nil && !errors.Is(err, deltalog.ErrNotTable) {
				u.log.Warn("maintenance failed, will be tried again", "table", url, "error", err)
			}
		}
	}
}

// pace says when the next round is due; never for an interval of 0.
type pace struct {
	every time.Duration
	timer *time.Timer
	due   <-chan time.Time
}

func newPace(every time.Duration) *pace {
	p := &pace{every: every}
	if every > 0 { // processes that start together do not work at the same moment
		p.timer = time.NewTimer(rand.N(every))
		p.due = p.timer.C
	}
	return p
}

func (p *pace) next() { p.timer.Reset(p.every) }

func (p *pace) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

func (u *upkeep) withTable(ctx context.Context, url string, job func(context.Context, *table.Table) error) error {
	store, err := u.openStore(ctx, url)
	if err != nil {
		return err
	}
	t, err := table.Open(ctx, store, table.Config{Logger: u.log})
	if err != nil {
		return err
	}
	return errors.Join(job(ctx, t), t.Close())
}

func (u *upkeep) optimize(ctx context.Context, t *table.Table) error {
	_, err := maintenance.Optimize(ctx, t, maintenance.OptimizeOptions{Gradual: true, MinFiles: upkeepMinFiles,
		MaxBytes: upkeepMaxBytes, TargetSize: int64(u.target), Commit: changesOf(u.group, t), Logger: u.log})
	return err
}

// clean deletes what only versions older than the table's own retention times need.
func (u *upkeep) clean(ctx context.Context, t *table.Table) error {
	_, err := maintenance.Vacuum(ctx, t, maintenance.VacuumOptions{Logger: u.log})
	if err != nil {
		return err
	}
	_, err = maintenance.CleanLog(ctx, t, maintenance.CleanLogOptions{})
	return err
}

// runBeside runs others until main ends, and waits for all.
func runBeside(ctx context.Context, main func(context.Context) error, others ...func(context.Context)) error {
	side, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for _, other := range others {
		wg.Go(func() { other(side) })
	}
	err := main(ctx)
	cancel()
	wg.Wait()
	return err
}

// byteSize is a flag in bytes, or with a unit: 64MiB, 1g.
type byteSize int64

// Set reads the text.
func (b *byteSize) Set(text string) error {
	s := strings.ToLower(strings.TrimSpace(text))
	s = strings.TrimSuffix(strings.TrimSuffix(s, "b"), "i")
	shift := 0
	if i := strings.IndexAny(s, "kmgt"); i > 0 && i == len(s)-1 {
		shift = 10 * (1 + strings.IndexByte("kmgt", s[i]))
		s = s[:i]
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > (1<<62)>>shift {
		return fmt.Errorf("%q is no size: want bytes, or a number with KiB, MiB or GiB", text)
	}
	*b = byteSize(n << shift)
	return nil
}

// String gives the shortest exact form.
func (b byteSize) String() string {
	n, unit := int64(b), 0
	for n > 0 && n%1024 == 0 && unit < 4 {
		n /= 1024
		unit++
	}
	return strconv.FormatInt(n, 10) + []string{"", "KiB", "MiB", "GiB", "TiB"}[unit]
}

// Type names the flag's value in help texts.
func (b *byteSize) Type() string { return "size" }
