// Package dynamolog orders the versions of a table on S3 by a lock table in DynamoDB, by the scheme of Spark's
// S3DynamoDBLogStore and of delta-rs with AWS_S3_LOCKING_PROVIDER=dynamodb, so that all of them may write to one
// table at once.
//
// A commit is made when its entry for N.json is added to the lock table, which takes one entry a version (I5).
// Before that its content lies in a temporary file; after it, the writer or anyone who comes later copies that
// file to N.json and marks the entry complete. What a stopped writer leaves:
//
//	the temporary file alone          nothing: no entry points to it
//	the entry, not yet N.json         a commit (I1): the next listing, read or commit makes N.json of it
//	N.json, the entry not complete    a commit: the next of them marks it
//	all, and the temporary file       a commit, and a file that no one needs
//
// Store is an objstore.Store over that of the table: only the log's version files go through the lock table.
// All writers of a table must use it. A writer that does not is noticed, as far as its traces show, and
// refused with ErrMixedWriters; Guard does so for the other side. Complete entries carry the time after which
// DynamoDB may remove them: switch on time to live for the attribute expireTime.
//
// All methods may be called concurrently. An outcome that nobody can tell wraps objstore.ErrUnknownOutcome: the
// entry may still arrive, and its temporary file is kept for that.
package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
)

var (
	// ErrMixedWriters is returned when a writer was seen that does not use the lock table, or another one.
	ErrMixedWriters = errors.New("not all writers of this table use the same lock table: stop the others, " +
		"or let all of them use it, and compare what was written with the table")
	// ErrStaleEntries is returned when a table is to be made where the lock table knows an older one.
	ErrStaleEntries = errors.New("the lock table still has entries of an older table at this place: " +
		"wait until they expire (a day), remove them, or take another place")
	// ErrLostVersion is returned when the lock table has a version of which no content is left.
	ErrLostVersion = errors.New("the lock table has this version, but neither it nor its temporary file is in the store: " +
		"if the table was removed, remove its entries too")
)

// logDir is the folder of the versions.
const logDir = "_delta_log/"

// Config of a Store.
type Config struct {
	// TablePath names the table in the lock table: its URL without a slash at the end. The scheme counts: all
	// writers use s3a://, as Hadoop does, or all use s3://.
	TablePath string
	// TTL is how long complete entries are kept at least; default one day, as Spark and delta-rs have it.
	TTL time.Duration
	// Settle bounds the work after the commit point, which goes on when the caller gives up; default 30 s.
	Settle time.Duration
	Now    func() time.Time // default time.Now
}

func (c Config) withDefaults() Config {
	if c.TTL == 0 {
		c.TTL = 24 * time.Hour
	}
	if c.Settle == 0 {
		c.Settle = 30 * time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func (c Config) validate() error {
	scheme, rest, ok := strings.Cut(c.TablePath, "://")
	if !ok || scheme != "s3" && scheme != "s3a" || rest == "" || strings.HasSuffix(rest, "/") {
		return fmt.Errorf("table path %q is not s3://bucket/prefix or s3a://bucket/prefix, without a slash at the end", c.TablePath)
	}
	if c.TTL < 0 || c.Settle < 0 {
		return errors.New("TTL and Settle must not be negative")
	}
	return nil
}

// Store is a table's store whose versions go through a lock table.
type Store struct {
	objstore.Store
	lock LockTable
	cfg  Config

	mu      sync.Mutex
	claimed bool // the store carries our mark
}

var _ objstore.Store = (*Store)(nil)

// New puts the lock table before the versions in store, whose root is the table's. It sends nothing yet.
func New(store objstore.Store, lock LockTable, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open lock table of %s: %w", store.URL(), err)
	}
	return &Store{Store: store, lock: lock, cfg: cfg}, nil
}

// Entry is the state of one version in the lock table.
type Entry struct {
	File     string    // such as 00000000000000000007.json
	Temp     string    // its content until it is copied, relative to _delta_log
	Complete bool      // File is in the store
	Expire   time.Time // zero until it is complete
}

// key is the entry's version in the store.
func (e Entry) key() string { return logDir + e.File }

// LockTable keeps the entries of tables. Reads see all writes that were answered before.
type LockTable interface {
	// Name tells people which table it is.
	Name() string
	// Get gives the entry of a file.
	Get(ctx context.Context, tablePath, file string) (Entry, bool, error)
	// Latest gives the entry with the greatest file.
	Latest(ctx context.Context, tablePath string) (Entry, bool, error)
	// Add adds an entry that is not complete. ErrTaken when the file has one; objstore.ErrUnknownOutcome when
	// it may have been added or may be later.
	Add(ctx context.Context, tablePath string, e Entry) error
	// Complete marks the entry if it is still the same one.
	Complete(ctx context.Context, tablePath string, e Entry) error
}

// ErrTaken is returned by LockTable.Add when the file has an entry.
var ErrTaken = errors.New("the lock table has an entry for this version")

// fileName is the name of a version.
func fileName(version int64) string { return fmt.Sprintf("%020d.json", version) }

// parseFile gives the version of a name in the log's folder; false for all that is not N.json.
func parseFile(name string) (int64, bool) {
	digits, ok := strings.CutSuffix(name, ".json")
	if !ok || len(digits) != 20 || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	v, err := strconv.ParseInt(digits, 10, 64)
	return v, err == nil
}

// parseKey does the same for a key of the store.
func parseKey(key string) (int64, bool) {
	name, ok := strings.CutPrefix(key, logDir)
	if !ok || path.Base(name) != name {
		return 0, false
	}
	return parseFile(name)
}
