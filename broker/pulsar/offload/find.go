package offload

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// names are those of objects: UUID-ledger-ID, and -index behind that.
var names = regexp.MustCompile(`^([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})-ledger-([0-9]{1,18})(-index)?$`)

// maxIndex bounds an index object: three million blocks.
const maxIndex = 64 << 20

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

// load reads the indexes of ledgers.
func load(ctx context.Context, store objstore.Store, all []found) ([]*ledger, error) {
	const atOnce = 16
	out := make([]*ledger, len(all))
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, x := range all {
		g.Go(func() error {
			key := x.key + "-index"
			if x.indexSize > maxIndex {
				return &DamageError{Object: key, Reason: fmt.Sprintf("an index of %d bytes", x.indexSize)}
			}
			raw, err := store.Get(ctx, key)
			if err != nil {
				return fmt.Errorf("read %s: %w", key, err)
			}
			idx, err := parseIndex(key, raw)
			if err != nil {
				return err
			}
			if idx.size != x.size {
				return &DamageError{Object: x.key, Offset: x.size, Reason: fmt.Sprintf("it has %d bytes, and its index says %d", x.size, idx.size)}
			}
			mu.Lock()
			defer mu.Unlock()
			out[i] = &ledger{id: x.id, key: x.key, index: idx}
			return nil
		})
	}
	return out, g.Wait()
}

// once leaves one of the copies of a ledger that several attempts may have left; they must say the same.
func once(all []*ledger) ([]*ledger, error) {
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
