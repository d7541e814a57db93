package bench

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/openstore"
)

// lake is where the tables of a scenario lie, and how each program is told of it.
type lake struct {
	dir  string // in which the files of the tables can be seen, whatever the store
	root string // what stands before a table's name in its URL
	opts openstore.Options
	env  []string // of every program
	args []string // of ledgerlake alone
	s3   *s3Node  // nil: a folder
}

func folderLake(scratch string) *lake {
	dir := filepath.Join(scratch, "tables")
	return &lake{dir: dir, root: dir}
}

func (n *s3Node) lake() *lake {
	return &lake{dir: n.bucket, root: "s3://lake", opts: n.opts, env: n.env, args: []string{"--s3-endpoint", n.endpoint}, s3: n}
}

func (l *lake) url(table string) string  { return l.root + "/" + table }
func (l *lake) path(table string) string { return filepath.Join(l.dir, table) }

func (l *lake) open(ctx context.Context, table string) (objstore.Store, error) {
	return openstore.Open(ctx, l.url(table), l.opts)
}

// requests are those that the table's making and filling took; nil for a folder.
func (l *lake) requests(table string) (map[string]int64, error) {
	if l.s3 == nil {
		return nil, nil
	}
	return l.s3.requests(table + "/")
}

// ingestStore names the kinds of lake that a case of scenario ingest may ask for.
type ingestStore string

const (
	onFolder ingestStore = ""
	onS3     ingestStore = "S3"
)

// lakes opens each kind once.
type lakes struct {
	scratch string
	opened  map[ingestStore]*lake
	stop    []func()
}

func (l *lakes) of(ctx context.Context, kind ingestStore) (*lake, error) {
	if at, ok := l.opened[kind]; ok {
		return at, nil
	}
	if l.opened == nil {
		l.opened = map[ingestStore]*lake{}
	}
	if kind == onFolder {
		l.opened[kind] = folderLake(l.scratch)
		return l.opened[kind], nil
	}
	node, stop, ok, err := startS3(ctx, l.scratch, true)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("the S3 server versitygw: %w", errNotInstalled)
	}
	l.stop = append(l.stop, stop)
	l.opened[kind] = node.lake()
	return l.opened[kind], nil
}

func (l *lakes) close() {
	for _, stop := range l.stop {
		stop()
	}
}
