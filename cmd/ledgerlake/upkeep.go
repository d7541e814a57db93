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

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/maintenance"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/table"
)

// upkeep optimizes tables beside what fills them, now and then and gradually, so that a table that gets a file
// every few seconds has a few dozen of them and not thousands. It opens each table for itself: whoever fills it
// is not held up.
type upkeep struct {
	interval  time.Duration
	target    byteSize
	openStore func(ctx context.Context, url string) (objstore.Store, error)
	tables    func(ctx context.Context) ([]string, error) // URLs
	log       *slog.Logger
}

func (u *upkeep) register(f *pflag.FlagSet) {
	u.target = 256 << 20
	f.DurationVar(&u.interval, "optimize-interval", 5*time.Minute, "how often small files of a table are merged in the background; 0 never. Of several processes that fill one table let one do it")
	f.Var(&u.target, "optimize-target-size", "size of the files that this makes")
}

const (
	upkeepMinFiles = 8
	upkeepMaxBytes = 1 << 30 // of a table and round
)

// run works until ctx ends.
func (u *upkeep) run(ctx context.Context) {
	if u.interval <= 0 {
		return
	}
	wait := rand.N(u.interval) // processes that start together do not work at the same moment
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = u.interval
		urls, err := u.tables(ctx)
		if err != nil && ctx.Err() == nil {
			u.log.Warn("no table is optimized in this round", "error", err)
		}
		for _, url := range urls {
			err := u.optimize(ctx, url)
			if err != nil && ctx.Err() == nil && !errors.Is(err, deltalog.ErrNotTable) {
				u.log.Warn("optimize failed, will be tried again", "table", url, "error", err)
			}
		}
	}
}

func (u *upkeep) optimize(ctx context.Context, url string) error {
	store, err := u.openStore(ctx, url)
	if err != nil {
		return err
	}
	t, err := table.Open(ctx, store, table.Config{Logger: u.log})
	if err != nil {
		return err
	}
	_, err = maintenance.Optimize(ctx, t, maintenance.OptimizeOptions{Gradual: true, MinFiles: upkeepMinFiles,
		MaxBytes: upkeepMaxBytes, TargetSize: int64(u.target), Logger: u.log})
	return errors.Join(err, t.Close())
}

// runBeside runs other until main ends, and waits for both.
func runBeside(ctx context.Context, main func(context.Context) error, other func(context.Context)) error {
	side, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { other(side) })
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
