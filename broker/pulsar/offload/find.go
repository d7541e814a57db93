package offload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// names are those of objects: UUID-ledger-ID, and -index behind that.
var names = regexp.MustCompile(`^([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})-ledger-([0-9]{1,18})(-index)?$`)

// maxIndex bounds an index object, in bytes. The stores take at most 50,000 parts in an object, so blocks need 1 MB; the
// rest is for the metadata.
const maxIndex = 8 << 20

// found is a pair of objects of a ledger.
type found struct {
	id        int64
	uuid, key string
	size      int64 // of the data object
	indexSize int64 // 0: there is none
}

// list gives the ledgers that have both objects.
func list(ctx context.Context, store objstore.Store) ([]found, error) {
	all := map[string]*found{}
	for info, err := range store.List(ctx, objstore.ListOptions{Flat: true}) {
		if err != nil {
			return nil, fmt.Errorf("list the offloaded objects: %w", err)
		}
		m := names.FindStringSubmatch(info.Key)
		if m == nil {
			continue
		}
		key := strings.TrimSuffix(info.Key, "-index")
		x := all[key]
		if x == nil {
			id, _ := strconv.ParseInt(m[2], 10, 64) // 18 digits
			x = &found{id: id, uuid: m[1], key: key}
			all[key] = x
		}
		if m[3] == "" {
			x.size = info.Size
		} else {
			x.indexSize = info.Size
		}
	}
	var out []found
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if x := all[key]; x.size > 0 && x.indexSize > 0 { // else an upload that was cut off
			out = append(out, *x)
		}
	}
	slices.SortStableFunc(out, func(a, b found) int { return cmp.Compare(a.id, b.id) })
	return out, nil
}

// load reads what the indexes of ledgers say before their blocks, and gives it to take, in no order, one after the other:
// with an error where the index is not what an offloader writes. The blocks are read when the ledger is.
func load(ctx context.Context, store objstore.Store, all []found, take func(*ledger, error) error) error {
	const atOnce = 16
	var mu sync.Mutex
	room := semaphore.NewWeighted(2 * maxIndex)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, x := range all {
		g.Go(func() error {
			l := &ledger{id: x.id, key: x.key, indexSize: x.indexSize}
			var err error
			if l.head, err = readHead(ctx, store, room, x); err == nil && l.size != x.size {
				err = &DamageError{Object: x.key, Offset: x.size, Reason: fmt.Sprintf("it has %d bytes, and its index says %d", x.size, l.size)}
			}
			var damage *DamageError
			if err != nil && !errors.As(err, &damage) && !errors.Is(err, broker.ErrUnsupported) {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			return take(l, err)
		})
	}
	return g.Wait()
}

// readHead reads the beginning of an index. room bounds the bytes that are held at once.
func readHead(ctx context.Context, store objstore.Store, room *semaphore.Weighted, of found) (*head, error) {
	key := of.key + "-index"
	if of.indexSize > maxIndex {
		return &head{}, &DamageError{Object: key, Reason: fmt.Sprintf("an index of %d bytes, at most %d are taken", of.indexSize, maxIndex)}
	}
	const mostly = 16 << 10
	for n := min(of.indexSize, mostly); ; {
		x, need, err := func() (*head, int64, error) {
			if err := room.Acquire(ctx, n); err != nil {
				return nil, 0, err
			}
			defer room.Release(n)
			raw, err := store.GetRange(ctx, key, 0, n)
			if err != nil {
				return nil, 0, fmt.Errorf("read %s: %w", key, err)
			}
			return parseHead(key, raw, of.indexSize)
		}()
		if x != nil || err != nil {
			return x, err
		}
		n = need
	}
}

// once leaves one of the copies of a ledger that several attempts may have left; they must say the same.
func once(all []*ledger) ([]*ledger, error) {
	slices.SortFunc(all, func(a, b *ledger) int { return cmp.Or(cmp.Compare(a.id, b.id), strings.Compare(a.key, b.key)) })
	var out []*ledger
	for _, l := range all {
		if n := len(out); n > 0 && out[n-1].id == l.id {
			if b := out[n-1]; b.last != l.last || b.length != l.length || b.topic != l.topic {
				return nil, fmt.Errorf("ledger %d stands in %s and in %s, and they are not the same: give the list of ledgers that says which one counts", l.id, b.key, l.key)
			}
			continue
		}
		out = append(out, l)
	}
	return out, nil
}
