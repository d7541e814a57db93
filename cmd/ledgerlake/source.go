package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/kafka"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// stream is an opened SOURCE: a table, a log, or both.
type stream struct {
	table  *table.Table
	source broker.Source
	topic  string
	app    string
	names  table.Names    // system columns when there is no table; zero: the usual ones
	places *reader.Places // of a topic of Pulsar with a table
	values *topicSchemas  // of a topic of Pulsar
	label  string         // in front of what is said of it, where there are several
	closes []func() error
}

func (s *stream) close() error {
	var errs []error
	for _, c := range s.closes {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// mappedNames reads --map.
func mappedNames(m map[string]string) (n table.Names, err error) {
	if len(m) == 0 {
		return n, nil
	}
	known := map[string]*string{"partition": &n.Partition, "offset": &n.Offset, "timestamp": &n.Timestamp, "key": &n.Key, "headers": &n.Headers, "value": &n.Value}
	for what, column := range m {
		to, ok := known[what]
		if !ok || column == "" {
			return n, fmt.Errorf("--map %s=%s: want partition, offset, timestamp, key, headers or value, each with the name of a column", what, column)
		}
		*to = column
	}
	if !n.Ordered() {
		return n, errors.New("--map needs partition and offset: they say which record of the log a row is")
	}
	return n, nil
}

func closeAll(streams []*stream) error {
	var errs []error
	for _, s := range streams {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// sourceFlags say how SOURCE is opened.
type sourceFlags struct {
	store    storeFlags
	secure   kafkaSecurity // of a kafka:// or pulsar:// source, or a served directory
	pulsar   pulsarFlags
	dir      string // served directory
	tableURL string // the lake of a kafka:// or pulsar:// source
	app      string
	ofTopic  string            // of a table with rows of several topics
	mapped   map[string]string // system columns of a table that somebody else made
	log      *slog.Logger

	logs map[string]*local.Log // of stopped directories, by the directory: one can be opened once
}

// open understands a table path or URI, kafka://host:port/topic, pulsar://host:port/tenant/namespace/topic, and a topic of a served directory, given
// as DIR/TOPIC or as TOPIC with --dir.
func (f *sourceFlags) open(ctx context.Context, source string) (*stream, error) {
	switch {
	case f.ofTopic != "" && (strings.HasPrefix(source, "kafka://") || isPulsar(source) || f.dir != ""):
		return nil, fmt.Errorf("--topic chooses one of several topics of a table: %s names its topic itself", source)
	case strings.HasPrefix(source, "kafka://"):
		return f.openKafka(ctx, source)
	case isPulsar(source):
		return f.openPulsar(ctx, source)
	case f.dir != "":
		return f.openServed(ctx, f.dir, source)
	}
	if dir, topic := filepath.Split(filepath.Clean(source)); !strings.Contains(source, "://") && dir != "" && servedDir(dir) && !isTable(source) {
		return f.openServed(ctx, filepath.Clean(dir), topic)
	}
	s := &stream{app: f.app, topic: f.ofTopic}
	if err := f.openTable(ctx, s, source); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// isTable says whether a local path is a table: it may lie in a served directory, beside the log.
func isTable(path string) bool {
	_, err := os.Stat(filepath.Join(path, "_delta_log"))
	return err == nil
}

func (f *sourceFlags) openTable(ctx context.Context, s *stream, at string) error {
	if !strings.Contains(at, "://") {
		if _, err := os.Stat(at); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s does not exist: want a table, DIR/TOPIC of a served directory, or kafka://host:port/topic", at)
		}
	}
	store, err := f.store.open(ctx, at)
	if err != nil {
		return err
	}
	names, err := mappedNames(f.mapped)
	if err != nil {
		return err
	}
	t, err := table.Open(ctx, store, table.Config{Topic: s.topic, Names: names, Logger: f.log, Outside: f.store.open})
	if err != nil {
		return tableError(at, err)
	}
	s.table = t
	s.closes = append(s.closes, t.Log.Close)
	if err := f.checkTopic(ctx, t, at); err != nil {
		return err
	}
	switch {
	case t.Names.Topic != "" && t.Topic() == "":
		f.log.Info("rows come by version and file, the oldest first: the table has rows of several topics (--topic reads one as a stream)", "table", at)
	case t.Spoilt() != nil:
		f.log.Warn("no stream can be read from the table", "table", at, "because", t.Spoilt())
	case !t.Names.Ordered():
		f.log.Info("rows come by version and file, the oldest first: the table has no columns that say which record of a log a row is (--map names them)", "table", at)
	}
	return nil
}

// checkTopic refuses a --topic that the table has nothing of.
func (f *sourceFlags) checkTopic(ctx context.Context, t *table.Table, at string) error {
	switch {
	case f.ofTopic == "":
		return nil
	case t.Names.Topic == "":
		return fmt.Errorf("--topic chooses one of several topics of a table: %s has no column that tells any apart", at)
	}
	snap, err := t.Log.Snapshot(ctx)
	if err != nil {
		return err
	}
	topics, err := t.Topics(snap)
	if err != nil || slices.Contains(topics, f.ofTopic) || len(table.Partitions(snap, cmp.Or(f.app, f.ofTopic))) > 0 {
		return err
	}
	return fmt.Errorf("%s has nothing of topic %s; it has rows of %v", at, f.ofTopic, topics)
}

func (f *sourceFlags) openKafka(ctx context.Context, source string) (*stream, error) {
	u, err := url.Parse(source)
	if err != nil || u.Host == "" || len(u.Path) < 2 {
		return nil, fmt.Errorf("%s: want kafka://host:port/topic", source)
	}
	s := &stream{topic: u.Path[1:], app: f.app}
	if s.app == "" {
		s.app = s.topic
	}
	cfg, err := f.secure.config(strings.Split(u.Host, ","), "ledgerlake-read", f.log)
	if err != nil {
		return nil, err
	}
	src, err := kafka.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s.source = src
	s.closes = append(s.closes, src.Close)
	if f.tableURL != "" {
		if err := f.openTable(ctx, s, f.tableURL); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

// openServed reads a running directory over its Kafka port, and a stopped one by opening its log itself.
func (f *sourceFlags) openServed(ctx context.Context, dir, topic string) (*stream, error) {
	if !servedDir(dir) {
		return nil, fmt.Errorf("%s holds no log: want the --dir of `ledgerlake serve`", dir)
	}
	s := &stream{topic: topic, app: topic}
	info := serveInfo{Lake: filepath.Join(dir, "lake")}
	raw, err := os.ReadFile(filepath.Join(dir, serveInfoName))
	running := false
	if err == nil {
		if err := json.Unmarshal(raw, &info); err != nil {
			return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, serveInfoName), err)
		}
		running = listening(info.Kafka)
	}
	if running {
		cfg, err := f.secure.served(dir, &info, f.log)
		if err != nil {
			return nil, err
		}
		src, err := kafka.Open(ctx, cfg)
		if err != nil {
			return nil, info.explain(dir, err)
		}
		s.source = src
		s.closes = append(s.closes, src.Close)
	} else {
		if err := f.openLog(ctx, s, dir); err != nil {
			return nil, err
		}
	}
	if _, err := s.source.Partitions(ctx, topic); err != nil {
		if there, _ := topicNames(dir); errors.Is(err, broker.ErrUnknownTopic) && len(there) > 0 {
			err = fmt.Errorf("%w; there are %s", err, strings.Join(there[:min(len(there), 20)], ", "))
		}
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), s.close())
	}
	at := strings.TrimSuffix(info.Lake, "/") + "/" + topic
	store, err := f.store.open(ctx, at)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	t, err := table.Open(ctx, store, table.Config{Topic: topic, Logger: f.log})
	switch {
	case err == nil:
		s.table = t
		s.closes = append(s.closes, t.Log.Close)
	case !errors.Is(err, deltalog.ErrNotTable): // nothing tiered yet is no fault
		return nil, errors.Join(fmt.Errorf("open table %s: %w", at, err), s.close())
	}
	return s, nil
}

// openLog opens the log of a stopped directory. The stream that is the first to need it closes it.
func (f *sourceFlags) openLog(ctx context.Context, s *stream, dir string) error {
	if log, ok := f.logs[dir]; ok {
		s.source = log
		return nil
	}
	// Who only reads does not know what was set of brokers, and may keep more than was meant to be kept: nothing expires here.
	log, err := local.Open(ctx, local.Config{Dir: filepath.Join(dir, "log"), FS: vfs.OS(), AwaitDefaults: true, Logger: f.log})
	if err != nil {
		return lockError(dir, fmt.Errorf("open the log of %s: %w", dir, err))
	}
	if f.logs == nil {
		f.logs = map[string]*local.Log{}
	}
	f.logs[dir] = log
	s.source = log
	s.closes = append(s.closes, func() error { delete(f.logs, dir); return log.Close() })
	return nil
}

func listening(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, 2*time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// servedTopics gives bounds and lake ends of all partitions of a served directory, running or stopped.
func servedTopics(ctx context.Context, dir string, secure kafkaSecurity, log *slog.Logger) ([]topicReport, error) {
	names, err := topicNames(dir)
	if err != nil {
		return nil, err
	}
	var out []topicReport
	for _, name := range names {
		f := &sourceFlags{dir: dir, secure: secure, log: log}
		s, err := f.openServed(ctx, dir, name)
		if errors.Is(err, broker.ErrUnknownTopic) {
			continue // the folder of a deleted topic
		}
		if err != nil {
			return nil, err
		}
		rows, err := topicBounds(ctx, s)
		if err = errors.Join(err, s.close()); err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

func topicBounds(ctx context.Context, s *stream) ([]topicReport, error) {
	parts, err := s.source.Partitions(ctx, s.topic)
	if err != nil {
		return nil, err
	}
	var snap *deltalog.Snapshot
	if s.table != nil {
		if snap, err = s.table.Log.Snapshot(ctx); err != nil {
			return nil, err
		}
	}
	var out []topicReport
	for _, p := range parts {
		b, err := s.source.Bounds(ctx, record.TopicPartition{Topic: s.topic, Partition: p})
		if err != nil {
			return nil, err
		}
		r := topicReport{Topic: s.topic, Partition: p, LogStart: int64(b.Start), End: int64(b.End)}
		if snap != nil {
			end, _ := table.LakeEnd(snap, s.app, p)
			r.LakeEnd = int64(end)
		}
		r.Lag = r.End - max(r.LakeEnd, r.LogStart)
		out = append(out, r)
	}
	return out, nil
}
