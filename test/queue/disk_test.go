package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/broker/wire"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/test/harness"
	"github.com/ledgerlake/ledgerlake/test/queue"
)

// A server whose disk fails to sync or to write, and then loses its power with everything that was not synced, comes
// back; no fault of any kind is found (I1, I2, I4).
func TestDiskErrorsAndPowerLoss(t *testing.T) {
	seed := seedtest.New(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	addr := fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t, 0))
	disk := vfs.NewMem()
	m := open(t, disk, addr, local.DurabilityGroup)
	run := queue.Start(t.Context(), queue.Workload{Addr: addr, Topic: "q", Partitions: 3, Seed: seed, Producers: 4, Consumers: 2})
	for round := range harness.Kills(t, 6) {
		before := run.Acked()
		harness.Eventually(t, time.Minute, func() error {
			if n := run.Acked(); n < before+100 {
				return fmt.Errorf("round %d: %d records acknowledged, waiting for %d", round, n, before+100)
			}
			return nil
		})
		if round%3 > 0 {
			rule := vfs.Rule{Op: vfs.OpSync, K: 1 + rnd.IntN(4), Forever: true, Err: syscall.EIO}
			if round%3 == 2 {
				rule.Op, rule.Err, rule.Short = vfs.OpWrite, vfs.ErrNoSpace, rnd.IntN(100)
			}
			m.faults.Fail(rule)
			harness.Eventually(t, time.Minute, func() error {
				if m.faults.Fired() == 0 {
					return errors.New("the disk has not failed yet")
				}
				return nil
			})
		}
		disk = m.powerLoss(t, disk, rnd)
		m = open(t, disk, addr, local.DurabilityGroup)
	}
	judge(t, run, 1)
	if err := errors.Join(m.srv.Close(), m.log.Close()); err != nil {
		t.Error(err)
	}
}

// The same with a log that acknowledges before anything is synced, which a power loss takes: the checker finds what the
// other test says is not there.
func TestUnsyncedLogIsFoundOut(t *testing.T) {
	seed := seedtest.New(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	addr := fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t, 0))
	disk := vfs.NewMem()
	m := open(t, disk, addr, local.DurabilityNone)
	run := queue.Start(t.Context(), queue.Workload{Addr: addr, Topic: "q", Partitions: 3, Seed: seed, Producers: 1, Consumers: 1})
	harness.Eventually(t, time.Minute, func() error {
		if n := run.Acked(); n < 300 {
			return fmt.Errorf("%d records acknowledged, waiting for 300", n)
		}
		return nil
	})
	if err := m.srv.Close(); err != nil {
		t.Error(err)
	}
	after := disk.Crash(rnd, vfs.KeepNothing)
	_ = m.log.Close()
	m = open(t, after, addr, local.DurabilityNone)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), harness.Patience)
	defer cancel()
	h, err := run.Finish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	faults := queue.Check(h)
	if !slices.ContainsFunc(faults, func(f queue.Fault) bool { return f.Kind == queue.Lost }) {
		t.Errorf("the log has lost what it acknowledged, and the checker found %v", faults)
	}
	if err := errors.Join(m.srv.Close(), m.log.Close()); err != nil {
		t.Error(err)
	}
}

// machine is a server on a disk that can fail.
type machine struct {
	faults *vfs.Inject
	log    *local.Log
	srv    *wire.Server
}

func open(t *testing.T, disk *vfs.Mem, addr string, d local.Durability) *machine {
	t.Helper()
	m := &machine{faults: vfs.NewInject(disk)}
	var err error
	if m.log, err = local.Open(t.Context(), local.Config{Dir: "/log", FS: m.faults, Durability: d}); err != nil {
		t.Fatal(err)
	}
	_, err = m.log.CreateTopic(t.Context(), "q", broker.TopicConfig{Partitions: 3, SegmentBytes: 64 << 10})
	if err != nil && !errors.Is(err, broker.ErrTopicExists) {
		t.Fatal(err)
	}
	lg := slog.New(slog.DiscardHandler)
	if os.Getenv("LEDGERLAKE_QUEUE_LOG") != "" {
		lg = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	m.srv, err = wire.Open(t.Context(), wire.Config{Listen: addr, Log: m.log, Logger: lg, DrainTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// powerLoss ends a machine and gives the disk as the next one finds it. What was acknowledged was so before the loss: the
// server is closed first, the log only when its disk has been copied, so that nothing it writes at its end is there.
func (m *machine) powerLoss(t *testing.T, disk *vfs.Mem, rnd *rand.Rand) *vfs.Mem {
	t.Helper()
	if err := m.srv.Close(); err != nil {
		t.Error(err)
	}
	after := disk.Crash(rnd, vfs.CrashMode(rnd.IntN(3)))
	_ = m.log.Close() // on a disk that fails
	return after
}
