package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/broker/kafka"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/reprocess"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// openSink sets what the job fills: a table of its own, or an outlet with a table for its state.
func (f *jobFlags) openSink(ctx context.Context, o *openedJob, cfg *reprocess.Config) error {
	path, err := o.statePath(ctx)
	if err != nil {
		return err
	}
	if cfg.Sink, err = f.store.open(ctx, path); err != nil {
		return err
	}
	kind, at := o.spec.Target()
	if kind != reprocess.KindTable {
		f.outletLimits(&cfg.Tiering)
	}
	switch kind {
	case reprocess.KindTopic:
		cfg.Outlet, err = f.openTopic(ctx, o, at)
		return err
	case reprocess.KindCommand:
		cfg.Outlet = &reprocess.CommandOutlet{Argv: o.spec.SinkCommand}
		return nil
	}
	cfg.DeadLetterStore = func(ctx context.Context) (objstore.Store, error) { return f.store.open(ctx, path+"_dead_letters") }
	return nil
}

// outletLimits leaves limits that the command line does not name to the outlet: those of data files are too large for it.
func (f *jobFlags) outletLimits(c *tiering.Config) {
	if !f.changed("flush-age") {
		c.MaxAge = 0
	}
	if !f.changed("flush-rows") {
		c.MaxRows = 0
	}
	if !f.changed("flush-bytes") {
		c.MaxBytes = 0
	}
}

// maxTxnAge is how old a transaction may get before it is committed: brokers end those of 15 minutes.
const maxTxnAge = 5 * time.Minute

// statePath gives the place of the job's table.
func (o *openedJob) statePath(ctx context.Context) (string, error) {
	kind, _ := o.spec.Target()
	switch {
	case kind == reprocess.KindTable:
		return o.sinkPath(ctx)
	case o.spec.State != "":
		return o.spec.State, nil
	case o.source.table == nil:
		return "", fmt.Errorf("a job whose sink is no table keeps its plan and positions beside the source's table, and the source has none yet: give it a place by \"state: PATH\"")
	}
	return reprocess.ShadowPath(o.source.table.Store.URL(), o.spec.Name), nil
}

// openTopic connects to the log that a job sends to.
func (f *jobFlags) openTopic(ctx context.Context, o *openedJob, at string) (*reprocess.TopicOutlet, error) {
	age := f.tiering.MaxAge
	if age > maxTxnAge {
		return nil, fmt.Errorf("--flush-age %s is too long for transactions: want at most %s", age, maxTxnAge)
	}
	cfg, topic, err := f.sinkCluster(at)
	if err != nil {
		return nil, err
	}
	src, err := kafka.Open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the sink: %w", err)
	}
	o.closes = append(o.closes, src.Close)
	return &reprocess.TopicOutlet{Topic: topic, Log: src,
		ByKey: o.spec.Partitions == reprocess.ByKey, Origin: o.spec.Origin, AtLeastOnce: o.spec.Delivery == reprocess.AtLeastOnce,
		Producer: func(ctx context.Context, id string) (reprocess.Producer, error) {
			return kafka.OpenTxn(ctx, kafka.TxnConfig{Config: cfg, ID: id, Timeout: max(time.Minute, 2*age)})
		},
		Create: func(ctx context.Context, topic string, partitions int32, settings map[string]string) error {
			return kafka.CreateTopic(ctx, cfg, topic, partitions, settings)
		}}, nil
}

// sinkCluster understands kafka://host:port/topic, and DIR/TOPIC of a directory that is served now.
func (f *jobFlags) sinkCluster(at string) (cfg kafka.Config, topic string, err error) {
	if strings.HasPrefix(at, "kafka://") {
		u, err := url.Parse(at)
		if err != nil || u.Host == "" || len(u.Path) < 2 {
			return cfg, "", fmt.Errorf("sink %s: want kafka://host:port/topic", at)
		}
		cfg, err = f.secure.config(strings.Split(u.Host, ","), "ledgerlake-reprocess", f.log)
		return cfg, u.Path[1:], err
	}
	dir, topic := filepath.Split(filepath.Clean(at))
	raw, err := os.ReadFile(filepath.Join(dir, serveInfoName))
	var info serveInfo
	if err == nil {
		err = json.Unmarshal(raw, &info)
	}
	if err != nil || !listening(info.Kafka) {
		return cfg, "", fmt.Errorf("sink topic:%s: %s is not served now: start `ledgerlake serve --dir %s`, which takes the records", at, filepath.Clean(dir), filepath.Clean(dir))
	}
	cfg, err = f.secure.served(filepath.Clean(dir), &info, f.log)
	return cfg, topic, err
}
