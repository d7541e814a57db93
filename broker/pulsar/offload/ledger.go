package offload

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
	"github.com/ledgerlake/ledgerlake/objstore"
)

const (
	magicBlock   = 0xFBDBABCB
	magicPadding = 0xFEDCDEAD
	entryHeader  = 4 + 8
	maxEntry     = 256 << 20 // far above what brokers take
)

// ledger is one that was offloaded.
type ledger struct {
	id        int64
	key       string // of the data object
	indexSize int64
	*head
}

// ledgerReader gives the entries of a ledger one after the other. It is for one goroutine.
type ledgerReader struct {
	l      *ledger
	blocks []block
	in     *ahead
	at     int   // the block
	next   int64 // entry
}

// read begins at an entry of the ledger.
func (l *ledger) read(ctx context.Context, store objstore.Store, entry int64) (*ledgerReader, error) {
	blocks, err := l.open(ctx, store)
	if err != nil {
		return nil, err
	}
	i := sort.Search(len(blocks), func(i int) bool { return blocks[i].first > entry }) - 1
	r := &ledgerReader{l: l, blocks: blocks, at: i, next: blocks[i].first, in: newAhead(ctx, store, l.key, blocks[i].offset, l.size)}
	if err := r.begin(); err != nil {
		return nil, err
	}
	for r.next < entry {
		if _, _, err := r.entry(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// open reads where the blocks are.
func (l *ledger) open(ctx context.Context, store objstore.Store) ([]block, error) {
	key := l.key + "-index"
	raw, err := store.GetRange(ctx, key, 0, l.indexSize)
	if err != nil {
		return nil, failed(key, 0, l.indexSize, err)
	}
	x, _, err := parseHead(key, raw, int64(len(raw)))
	if err == nil && *x != *l.head {
		err = &DamageError{Object: key, Reason: "it was changed since it was listed"}
	}
	if err != nil {
		return nil, err
	}
	return x.parseBlocks(key, raw)
}

// blockEnd is where the block ends.
func (r *ledgerReader) blockEnd() int64 {
	if r.at+1 < len(r.blocks) {
		return r.blocks[r.at+1].offset
	}
	return r.l.size
}

func (r *ledgerReader) damage(at int64, format string, args ...any) error {
	return &DamageError{Object: r.l.key, Offset: at, Reason: fmt.Sprintf(format, args...)}
}

func (r *ledgerReader) failed(err error) error { return failed(r.l.key, r.in.pos, r.l.size, err) }

// failed tells what another try may mend from what is wrong with an object of size bytes, and from what a person must mend.
func failed(key string, at, size int64, err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, objstore.ErrNotFound):
		return &DamageError{Object: key, Offset: at, Reason: fmt.Sprintf("it has not the %d bytes that it should: %v", size, err)}
	case errors.Is(err, objstore.ErrCredentials): // those that renew themselves may come in a moment
		return &storeError{fmt.Errorf("%w: read %s: %w; with others the same command goes on where it was", broker.ErrGiveUp, key, err)}
	case objstore.Refused(err):
		return fmt.Errorf("%w: read %s: %w; when it may be read, the same command goes on where it was", broker.ErrGiveUp, key, err)
	}
	return &storeError{fmt.Errorf("read %s: %w", key, err)}
}

// storeError is a fault of the store, which may pass, as a lost connection may. One that is a broker.ErrGiveUp too ends the run
// when it does not within Config.RetryTimeout of the source.
type storeError struct{ error }

func (e *storeError) Unwrap() error        { return e.error }
func (e *storeError) Is(target error) bool { return target == wire.ErrLost }

// begin reads the header of a block.
func (r *ledgerReader) begin() error {
	at, want := r.in.pos, r.blocks[r.at]
	b, err := r.in.take(int(r.l.header))
	if err != nil {
		return r.failed(err)
	}
	magic, header := binary.BigEndian.Uint32(b), int64(binary.BigEndian.Uint64(b[4:]))
	size, first := int64(binary.BigEndian.Uint64(b[12:])), int64(binary.BigEndian.Uint64(b[20:]))
	if magic != magicBlock || header != r.l.header || size != r.blockEnd()-want.offset || first != want.first {
		return r.damage(at, "a block header %08x of %d bytes, block of %d, first entry %d; the index has %d, %d, %d", magic, header, size, first,
			r.l.header, r.blockEnd()-want.offset, want.first)
	}
	return nil
}

// entry gives the next entry; io.EOF behind the last one.
func (r *ledgerReader) entry() (id int64, raw []byte, err error) {
	if r.next > r.l.last {
		return 0, nil, io.EOF
	}
	for {
		end := r.blockEnd()
		size, ok, err := r.size(end)
		if err != nil {
			return 0, nil, err
		}
		if ok {
			return r.body(size, end)
		}
		if r.at+1 == len(r.blocks) || r.blocks[r.at+1].first != r.next {
			return 0, nil, r.damage(r.in.pos, "the block ends before entry %d", r.next)
		}
		if err := r.in.skip(end); err != nil {
			return 0, nil, r.failed(err)
		}
		r.at++
		if err := r.begin(); err != nil {
			return 0, nil, err
		}
	}
}

// size reads the size of an entry; false when there is none any more in the block.
func (r *ledgerReader) size(end int64) (uint32, bool, error) {
	if end-r.in.pos < entryHeader {
		return 0, false, nil
	}
	b, err := r.in.take(4)
	if err != nil {
		return 0, false, r.failed(err)
	}
	n := binary.BigEndian.Uint32(b)
	return n, n != magicPadding, nil
}

func (r *ledgerReader) body(size uint32, end int64) (int64, []byte, error) {
	at := r.in.pos - 4
	if n := int64(size); n > end-r.in.pos-8 || n > maxEntry {
		return 0, nil, r.damage(at, "entry %d has %d bytes where %d are left in its block", r.next, n, end-r.in.pos-8)
	}
	b, err := r.in.take(8 + int(size))
	if err != nil {
		return 0, nil, r.failed(err)
	}
	id := int64(binary.BigEndian.Uint64(b))
	if id != r.next {
		return 0, nil, r.damage(at, "entry %d where %d is due", id, r.next)
	}
	r.next++
	return id, b[8:], nil
}
