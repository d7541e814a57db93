package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
)

const (
	producersFile    = "producers.json"
	producersVersion = 1
	producerBlock    = 1000 // ids that one write gives out
)

// producerIDs is the content of producers.json.
type producerIDs struct {
	Version int   `json:"version"`
	Next    int64 `json:"next"` // ids from here on were never given
}

func (l *Log) loadProducerIDs() error {
	name := path.Join(l.cfg.Dir, producersFile)
	b, err := vfs.ReadFile(l.fs, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read producer ids: %w", err)
	}
	var ids producerIDs
	if err := json.Unmarshal(b, &ids); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if ids.Version != producersVersion || ids.Next < 0 {
		return fmt.Errorf("read %s: version %d, next id %d", name, ids.Version, ids.Next)
	}
	l.nextProducer, l.endProducer = ids.Next, ids.Next
	return nil
}

// InitProducerID gives an id that was never given before. A block of ids is durable before its first is given.
func (l *Log) InitProducerID(context.Context) (id int64, epoch int16, err error) {
	if err := l.enter(); err != nil {
		return 0, 0, err
	}
	defer l.leave()
	l.producerMu.Lock()
	defer l.producerMu.Unlock()
	if l.nextProducer == l.endProducer {
		if l.endProducer > math.MaxInt64-producerBlock {
			return 0, 0, fmt.Errorf("producer ids: %w: all are given", broker.ErrUnsupported)
		}
		end := l.endProducer + producerBlock
		b, err := json.Marshal(producerIDs{Version: producersVersion, Next: end})
		if err != nil {
			return 0, 0, fmt.Errorf("write producer ids: %w", err)
		}
		if err := l.replaceFile(producersFile, append(b, '\n')); err != nil {
			return 0, 0, fmt.Errorf("write producer ids: %w: %w", broker.ErrStorage, err)
		}
		l.endProducer = end
	}
	id = l.nextProducer
	l.nextProducer++
	return id, 0, nil
}
