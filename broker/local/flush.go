package local

import (
	"context"
	"fmt"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// syncAgain is when a sync is tried again that found no handle free.
const syncAgain = time.Second

// unsynced is what a partition of a log without durability has that a power loss may take. The topic's FlushMessages and
// FlushAge bound it: appends that a sync is due for wait for it, and a timer sees to the rest.
type unsynced struct {
	records int64
	dir     bool // the names of new files
	timer   *time.Timer
	at      time.Time // when timer fires
}

func (u *unsynced) stop() {
	if u.timer != nil {
		u.timer.Stop()
		u.timer = nil
	}
}

// syncDueLocked counts records that were written, and syncs when the topic's settings ask for it.
func (p *partition) syncDueLocked(records int64) error {
	u, cfg := &p.unsynced, p.topic.config()
	u.records += records
	switch {
	case u.records == 0:
		return nil
	case cfg.FlushAge < 0 || cfg.FlushMessages > 0 && u.records >= cfg.FlushMessages:
		return p.syncLocked()
	case cfg.FlushAge > 0 && cfg.FlushAge < broker.Never:
		p.syncWithinLocked(cfg.FlushAge)
	}
	return nil
}

// syncWithinLocked sees to a sync after a time at most.
func (p *partition) syncWithinLocked(d time.Duration) {
	u := &p.unsynced
	if at := time.Now().Add(d); u.timer == nil || at.Before(u.at) {
		u.stop()
		u.timer, u.at = time.AfterFunc(d, p.syncLater), at
	}
}

// syncLocked makes all that was written durable: the active segment, those before it that no checkpoint has closed yet, and
// their names. Without a handle for the directory its names stay to be synced, by the next append or a second later.
func (p *partition) syncLocked() error {
	if err := p.log.failure(); err != nil { // a sync after one that failed says nothing
		return err
	}
	for i := len(p.segs) - 1; i >= 0 && p.segs[i].w != nil; i-- {
		if err := p.segs[i].w.SyncLog(); err != nil {
			return p.log.fail(err) // the page cache may have lost it
		}
	}
	if p.unsynced.dir {
		err := p.log.fs.SyncDir(p.dir)
		if outOfHandles(err) {
			p.syncWithinLocked(syncAgain)
			return fmt.Errorf("%w: %w", broker.ErrStorage, err)
		}
		if err != nil {
			return p.log.fail(err)
		}
	}
	p.unsynced.stop()
	p.unsynced.records, p.unsynced.dir = 0, false
	return nil
}

var _ broker.Syncer = (*Log)(nil)

// Sync makes a partition of a log without durability durable. See broker.Syncer.
func (l *Log) Sync(_ context.Context, tp record.TopicPartition) error {
	if l.cfg.Durability != DurabilityNone {
		return nil
	}
	if err := l.enter(); err != nil {
		return err
	}
	defer l.leave()
	p, err := l.partition(tp)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unsynced.records == 0 || p.deleted {
		return nil
	}
	if err := p.syncLocked(); err != nil {
		return fmt.Errorf("sync %s: %w", tp, err)
	}
	return nil
}

// syncLater is called by the timer. What is closed meanwhile its last checkpoint has made durable.
func (p *partition) syncLater() {
	if p.log.enter() != nil {
		return
	}
	defer p.log.leave()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unsynced.stop()
	if p.unsynced.records > 0 && !p.deleted {
		_ = p.syncLocked() // said by fail, or tried again
	}
}

// flushDue syncs the partitions of a topic for which a change of its settings makes it due.
func (l *Log) flushDue(t *topic) error {
	for _, p := range t.partitions {
		p.mu.Lock()
		err := error(nil)
		if !p.deleted {
			err = p.syncDueLocked(0)
		}
		p.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}
