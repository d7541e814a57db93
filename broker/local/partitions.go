package local

import (
	"context"
	"fmt"
	"slices"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// CreatePartitions gives a topic more partitions, total in all. They are durable when it returns; a crash before
// leaves empty directories that nothing names.
func (l *Log) CreatePartitions(_ context.Context, name string, total int32) error {
	t, done, err := l.changing(name)
	if err != nil {
		return err
	}
	defer done()
	own := t.own()
	has := own.Partitions
	if total <= has {
		return fmt.Errorf("%w: topic %s has %d partitions, %d are not more", broker.ErrInvalidTopic, name, has, total)
	}
	var more []*partition
	if own.Partitions = total; total > broker.MaxPartitions {
		return fmt.Errorf("%w: %d partitions are more than %d", broker.ErrInvalidTopic, total, broker.MaxPartitions)
	}
	for i := has; i < total; i++ {
		more = append(more, newPartition(l, t, i))
	}
	if err := l.makePartitionDirs(more); err != nil {
		return fmt.Errorf("add partitions to %s: %w: %w", name, broker.ErrStorage, err)
	}
	topics := l.states()
	topics[name] = l.state(t, own)
	if err := l.saveTopics(topics, withoutDirs(l.deleting, more)); err != nil {
		return fmt.Errorf("add partitions to %s: %w", name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t.partitions = append(slices.Clip(t.partitions), more...)
	t.set(own, l.defaults)
	return nil
}

// Size gives the bytes of a partition's segments.
func (l *Log) Size(_ context.Context, tp record.TopicPartition) (n int64, err error) {
	if l.isClosed() {
		return 0, broker.ErrClosed
	}
	p, err := l.partition(tp)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.segs {
		n += s.state().Size
	}
	return n, nil
}
