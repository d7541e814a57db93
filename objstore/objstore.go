package objstore

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"time"
)

// Info describes one object.
type Info struct {
	Key     string // relative to the store's root, '/' between parts, never starting with '/'
	Size    int64
	ModTime time.Time
}

// ListOptions choose objects. Listing is in ascending byte order of keys.
type ListOptions struct {
	Prefix     string
	StartAfter string // only keys greater than this
	Flat       bool   // do not descend: leave out keys with a '/' after Prefix
	NoLinks    bool   // leave out what a folder of a file system only links to: it belongs to somebody else
}

// Store is a flat space of immutable-by-habit objects under one root (a table's folder or bucket prefix).
// All methods may be called concurrently. A published object is seen whole or not at all.
type Store interface {
	Get(ctx context.Context, key string) ([]byte, error)
	// GetRange reads length bytes at off. Reading past the end is io.ErrUnexpectedEOF.
	GetRange(ctx context.Context, key string, off, length int64) ([]byte, error)
	Head(ctx context.Context, key string) (Info, error)
	// Put publishes data under key, replacing what is there. Durable when it returns.
	Put(ctx context.Context, key string, data []byte) error
	// PutIfAbsent publishes data unless key exists (ErrExists). An outcome that the store cannot tell
	// (timeout, reset after sending) wraps ErrUnknownOutcome: the caller reads back.
	PutIfAbsent(ctx context.Context, key string, data []byte) error
	// Create starts a new object of unknown size. Nothing is visible before Close returns nil.
	Create(ctx context.Context, key string) (Writer, error)
	List(ctx context.Context, opts ListOptions) iter.Seq2[Info, error]
	// Delete removes key; a missing key is no error.
	Delete(ctx context.Context, key string) error
	// URL names the root for people and other engines: an absolute path or s3://bucket/prefix.
	URL() string
}

// Writer takes the bytes of one new object. Exactly one of Close and Abort ends it.
type Writer interface {
	io.Writer
	Close() error // publishes
	Abort() error // leaves nothing behind
}

var (
	// ErrNotFound is returned when there is no object under the key.
	ErrNotFound = errors.New("object not found")
	// ErrExists is returned by PutIfAbsent when the key is taken.
	ErrExists = errors.New("object exists already")
	// ErrDenied is wrapped where the store knows who asks and says no: somebody has to mend rights.
	ErrDenied = errors.New("the credentials are good but may not do this")
	// ErrCredentials is wrapped where the store does not know who asks, or does not any more: somebody has to give others, but
	// for those that renew themselves and could not for a moment.
	ErrCredentials = errors.New("there are no usable credentials")
	// ErrUnknownOutcome wraps failures after which the object may or may not have been published.
	ErrUnknownOutcome = errors.New("the store did not say whether the object was written")
	// ErrNotFinal comes with ErrUnknownOutcome when finding one's own object there is no proof that it stays:
	// another writer may replace it, or it may not survive a crash.
	ErrNotFinal = errors.New("the object may not stay")
)

// Refused says whether it is about who asks that an operation failed: a person has to mend credentials or rights.
func Refused(err error) bool {
	return errors.Is(err, ErrCredentials) || errors.Is(err, ErrDenied) || errors.Is(err, fs.ErrPermission)
}
