// Package objstoretest is the conformance suite of object stores: what every backend must pass.
package objstoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// Run tests a backend. open gives a fresh, empty store for each part.
func Run(t *testing.T, open func(t *testing.T) objstore.Store) {
	parts := []struct {
		name string
		test func(t *testing.T, s objstore.Store)
	}{
		{"PutGet", testPutGet},
		{"NotFound", testNotFound},
		{"Ranges", testRanges},
		{"ReaderAt", testReaderAt},
		{"PutIfAbsent", testPutIfAbsent},
		{"OneWinner", testOneWinner},
		{"Create", testCreate},
		{"Abort", testAbort},
		{"WholeOrNothing", testWholeOrNothing},
		{"List", testList},
		{"ListOddNames", testListOddNames},
		{"OddKeys", testOddKeys},
		{"InvalidKeys", testInvalidKeys},
		{"Delete", testDelete},
		{"Canceled", testCanceled},
	}
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) { p.test(t, open(t)) })
	}
}

func put(t *testing.T, s objstore.Store, key, data string) {
	t.Helper()
	if err := s.Put(t.Context(), key, []byte(data)); err != nil {
		t.Fatalf("Put(%q) = %v", key, err)
	}
}

func wantData(t *testing.T, s objstore.Store, key, want string) {
	t.Helper()
	got, err := s.Get(t.Context(), key)
	if err != nil || string(got) != want {
		t.Fatalf("Get(%q) = %.60q, %v; want %.60q", key, got, err, want)
	}
}

// keys lists all keys for the options.
func keys(t *testing.T, s objstore.Store, opts objstore.ListOptions) []string {
	t.Helper()
	got := []string{}
	for info, err := range s.List(t.Context(), opts) {
		if err != nil {
			t.Fatalf("List(%+v) = %v", opts, err)
		}
		got = append(got, info.Key)
	}
	return got
}

func testPutGet(t *testing.T, s objstore.Store) {
	put(t, s, "a/b/one", "1")
	put(t, s, "empty", "")
	wantData(t, s, "a/b/one", "1")
	wantData(t, s, "empty", "")
	put(t, s, "a/b/one", "replaced")
	wantData(t, s, "a/b/one", "replaced")
	info, err := s.Head(t.Context(), "a/b/one")
	if err != nil || info.Key != "a/b/one" || info.Size != 8 || info.ModTime.IsZero() {
		t.Fatalf("Head = %+v, %v", info, err)
	}
	if s.URL() == "" {
		t.Error("URL is empty")
	}
}

func testNotFound(t *testing.T, s objstore.Store) {
	put(t, s, "folder/x", "1")
	for _, key := range []string{"none", "folder", "folder/y", "none/at/all"} {
		if _, err := s.Get(t.Context(), key); !errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("Get(%q) = %v, want ErrNotFound", key, err)
		}
		if _, err := s.GetRange(t.Context(), key, 0, 1); !errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("GetRange(%q) = %v, want ErrNotFound", key, err)
		}
		if _, err := s.Head(t.Context(), key); !errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("Head(%q) = %v, want ErrNotFound", key, err)
		}
	}
	if got := keys(t, s, objstore.ListOptions{Prefix: "none/"}); len(got) != 0 {
		t.Errorf("List of an empty prefix = %q", got)
	}
}

func testRanges(t *testing.T, s objstore.Store) {
	put(t, s, "k", "0123456789")
	for _, c := range []struct {
		off, length int64
		want        string
	}{{0, 10, "0123456789"}, {3, 4, "3456"}, {9, 1, "9"}, {0, 0, ""}, {10, 0, ""}} {
		got, err := s.GetRange(t.Context(), "k", c.off, c.length)
		if err != nil || string(got) != c.want {
			t.Errorf("GetRange(%d, %d) = %q, %v; want %q", c.off, c.length, got, err, c.want)
		}
	}
	for _, c := range [][2]int64{{0, 11}, {10, 1}, {11, 1}, {100, 5}, {-1, 2}, {0, -1}} {
		if got, err := s.GetRange(t.Context(), "k", c[0], c[1]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("GetRange(%d, %d) = %q, %v; want ErrUnexpectedEOF", c[0], c[1], got, err)
		}
	}
}

func testReaderAt(t *testing.T, s objstore.Store) {
	put(t, s, "k", "0123456789")
	r := objstore.ReaderAt(t.Context(), s, "k", 10)
	got, err := io.ReadAll(io.NewSectionReader(r, 2, 5))
	if err != nil || string(got) != "23456" {
		t.Fatalf("section = %q, %v", got, err)
	}
	buf := make([]byte, 4)
	if n, err := r.ReadAt(buf, 8); n != 2 || !errors.Is(err, io.EOF) {
		t.Fatalf("ReadAt over the end = %d, %v; want 2, EOF", n, err)
	}
	if n, err := r.ReadAt(buf, 10); n != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("ReadAt at the end = %d, %v; want 0, EOF", n, err)
	}
}

func testPutIfAbsent(t *testing.T, s objstore.Store) {
	const key = "_delta_log/00000000000000000000.json"
	if err := s.PutIfAbsent(t.Context(), key, []byte("first")); err != nil {
		t.Fatalf("first PutIfAbsent = %v", err)
	}
	if err := s.PutIfAbsent(t.Context(), key, []byte("second")); !errors.Is(err, objstore.ErrExists) {
		t.Fatalf("second PutIfAbsent = %v, want ErrExists", err)
	}
	wantData(t, s, key, "first")
}

// testOneWinner proves the base of I5: of racing writers one wins, and its content stays.
func testOneWinner(t *testing.T, s objstore.Store) {
	const writers, rounds = 8, 10
	for round := range rounds {
		key := fmt.Sprintf("log/%03d", round)
		var wg sync.WaitGroup
		var mu sync.Mutex
		var winners []string
		for w := range writers {
			wg.Go(func() {
				data := strings.Repeat(fmt.Sprintf("writer %d ", w), 100)
				err := s.PutIfAbsent(t.Context(), key, []byte(data))
				for errors.Is(err, objstore.ErrUnknownOutcome) { // as a caller must: read back, then try again
					got, getErr := s.Get(t.Context(), key)
					if getErr == nil && string(got) == data {
						err = nil
						break
					}
					err = s.PutIfAbsent(t.Context(), key, []byte(data))
				}
				if err == nil {
					mu.Lock()
					winners = append(winners, data)
					mu.Unlock()
				} else if !errors.Is(err, objstore.ErrExists) {
					t.Errorf("PutIfAbsent = %v, want nil or ErrExists", err)
				}
			})
		}
		wg.Wait()
		if len(winners) != 1 {
			t.Fatalf("%s has %d winners, want 1", key, len(winners))
		}
		wantData(t, s, key, winners[0])
	}
}

func testCreate(t *testing.T, s objstore.Store) {
	for _, size := range []int{0, 1, 100_000, 9 << 20} {
		key := fmt.Sprintf("data/part-%d", size)
		w, err := s.Create(t.Context(), key)
		if err != nil {
			t.Fatalf("Create = %v", err)
		}
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(i * 7 >> 3)
		}
		for rest := want; len(rest) > 0; {
			n := min(len(rest), 70_000)
			if _, err := w.Write(rest[:n]); err != nil {
				t.Fatalf("Write = %v", err)
			}
			rest = rest[n:]
		}
		if _, err := s.Head(t.Context(), key); !errors.Is(err, objstore.ErrNotFound) {
			t.Fatalf("Head before Close = %v, want ErrNotFound", err)
		}
		if err := w.Close(); err != nil {
			t.Fatalf("Close = %v", err)
		}
		got, err := s.Get(t.Context(), key)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("Get of %d bytes = %d bytes, %v; or the content differs", size, len(got), err)
		}
	}
}

func testAbort(t *testing.T, s objstore.Store) {
	put(t, s, "old", "kept")
	for _, c := range []struct {
		key  string
		size int
	}{{"new", 10}, {"old", 10}, {"large", 9 << 20}} {
		w, err := s.Create(t.Context(), c.key)
		if err != nil {
			t.Fatalf("Create = %v", err)
		}
		if _, err := w.Write(make([]byte, c.size)); err != nil {
			t.Fatalf("Write = %v", err)
		}
		if err := w.Abort(); err != nil {
			t.Fatalf("Abort = %v", err)
		}
	}
	wantData(t, s, "old", "kept")
	if got := keys(t, s, objstore.ListOptions{}); !slices.Equal(got, []string{"old"}) {
		t.Errorf("after Abort the store has %q, want only old", got)
	}
}

// testWholeOrNothing reads while a key is replaced: a reader sees one version or the other.
func testWholeOrNothing(t *testing.T, s objstore.Store) {
	versions := []string{strings.Repeat("a", 300_000), strings.Repeat("b", 400_000)}
	put(t, s, "k", versions[0])
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		defer stop()
		for i := range 10 {
			if err := s.Put(t.Context(), "k", []byte(versions[i%2])); err != nil {
				t.Errorf("Put = %v", err)
			}
		}
	})
	for ctx.Err() == nil {
		got, err := s.Get(t.Context(), "k")
		if err != nil {
			t.Errorf("Get = %v", err)
			break
		}
		if !slices.Contains(versions, string(got)) {
			t.Errorf("Get saw %d bytes that no writer wrote", len(got))
			break
		}
	}
	wg.Wait()
}

func testList(t *testing.T, s objstore.Store) {
	all := []string{"a", "b/1", "b/2", "b/c/3", "b0", "d/e/f"}
	for _, k := range []string{"d/e/f", "b/c/3", "b0", "a", "b/2", "b/1"} {
		put(t, s, k, "x")
	}
	for _, c := range []struct {
		opts objstore.ListOptions
		want []string
	}{
		{objstore.ListOptions{}, all},
		{objstore.ListOptions{Prefix: "b"}, []string{"b/1", "b/2", "b/c/3", "b0"}},
		{objstore.ListOptions{Prefix: "b/"}, []string{"b/1", "b/2", "b/c/3"}},
		{objstore.ListOptions{Prefix: "b/", Flat: true}, []string{"b/1", "b/2"}},
		{objstore.ListOptions{Flat: true}, []string{"a", "b0"}},
		{objstore.ListOptions{StartAfter: "b/2"}, []string{"b/c/3", "b0", "d/e/f"}},
		{objstore.ListOptions{Prefix: "b/", StartAfter: "b/1", Flat: true}, []string{"b/2"}},
		{objstore.ListOptions{Prefix: "b/", StartAfter: "zzz"}, []string{}},
		{objstore.ListOptions{Prefix: "d/e/f"}, []string{"d/e/f"}},
		{objstore.ListOptions{Prefix: "d/e/fg"}, []string{}},
	} {
		if got := keys(t, s, c.opts); !slices.Equal(got, c.want) {
			t.Errorf("List(%+v) = %q, want %q", c.opts, got, c.want)
		}
	}
	for info, err := range s.List(t.Context(), objstore.ListOptions{}) {
		if err != nil || info.Size != 1 || info.ModTime.IsZero() {
			t.Errorf("List gave %+v, %v", info, err)
		}
		break // a caller may stop
	}
}

// testListOddNames has names that sort differently as file names and as keys: '.' and '-' come before '/'.
func testListOddNames(t *testing.T, s objstore.Store) {
	want := []string{"a-b", "a.b/x", "a/x", "a/y/z", "a0", "ab"}
	for _, k := range want {
		put(t, s, k, "x")
	}
	if got := keys(t, s, objstore.ListOptions{}); !slices.Equal(got, want) {
		t.Errorf("List = %q, want %q", got, want)
	}
	for i, k := range want {
		if got := keys(t, s, objstore.ListOptions{StartAfter: k}); !slices.Equal(got, want[i+1:]) {
			t.Errorf("List after %q = %q, want %q", k, got, want[i+1:])
		}
	}
}

func testOddKeys(t *testing.T, s objstore.Store) {
	odd := []string{
		"with space", "p=100%/x", "%20", "a+b", "q?x=1", "h#ash", "quote'\"", "am&p", "co:lon", "semi;colon",
		"\u00e4\u00f6\u00fc/\u65e5\u672c\u8a9e", "back\\slash", ".hidden", "t=2024-01-01 00%3A00%3A00/f", "tilde~", "br[ack]et{s}", "star*",
	}
	odd = slices.DeleteFunc(odd, func(k string) bool {
		err := s.Put(t.Context(), k, []byte("data of "+k))
		if err != nil && !errors.Is(err, objstore.ErrInvalidKey) {
			t.Fatalf("Put(%q) = %v", k, err)
		}
		return err != nil // a backend may refuse what it would change
	})
	if len(odd) < 15 {
		t.Errorf("only %q are taken", odd)
	}
	for _, k := range odd {
		wantData(t, s, k, "data of "+k)
	}
	slices.Sort(odd)
	if got := keys(t, s, objstore.ListOptions{}); !slices.Equal(got, odd) {
		t.Errorf("List = %q, want %q", got, odd)
	}
	if got := keys(t, s, objstore.ListOptions{StartAfter: "p=100%/x", Prefix: "q"}); !slices.Equal(got, []string{"q?x=1", "quote'\""}) {
		t.Errorf("List(q) = %q", got)
	}
}

// testInvalidKeys proves I8: a key never leaves the root.
func testInvalidKeys(t *testing.T, s objstore.Store) {
	for _, k := range []string{"", "/", "/a", "a/", "a//b", "..", "../x", "a/../../x", "a/./b", ".", "nul\x00", "bad\xff", strings.Repeat("k", 1025)} {
		if err := s.Put(t.Context(), k, nil); !errors.Is(err, objstore.ErrInvalidKey) {
			t.Errorf("Put(%.20q) = %v, want ErrInvalidKey", k, err)
		}
		if err := s.PutIfAbsent(t.Context(), k, nil); !errors.Is(err, objstore.ErrInvalidKey) {
			t.Errorf("PutIfAbsent(%.20q) = %v, want ErrInvalidKey", k, err)
		}
		if _, err := s.Create(t.Context(), k); !errors.Is(err, objstore.ErrInvalidKey) {
			t.Errorf("Create(%.20q) = %v, want ErrInvalidKey", k, err)
		}
		if _, err := s.Get(t.Context(), k); !errors.Is(err, objstore.ErrInvalidKey) {
			t.Errorf("Get(%.20q) = %v, want ErrInvalidKey", k, err)
		}
		if err := s.Delete(t.Context(), k); !errors.Is(err, objstore.ErrInvalidKey) {
			t.Errorf("Delete(%.20q) = %v, want ErrInvalidKey", k, err)
		}
	}
}

func testDelete(t *testing.T, s objstore.Store) {
	put(t, s, "a/x", "1")
	put(t, s, "a/y", "2")
	for range 2 { // deleting what is not there is no error
		if err := s.Delete(t.Context(), "a/x"); err != nil {
			t.Fatalf("Delete = %v", err)
		}
	}
	if got := keys(t, s, objstore.ListOptions{}); !slices.Equal(got, []string{"a/y"}) {
		t.Errorf("after Delete the store has %q", got)
	}
	if err := s.PutIfAbsent(t.Context(), "a/x", []byte("again")); err != nil {
		t.Errorf("PutIfAbsent after Delete = %v", err)
	}
}

func testCanceled(t *testing.T, s objstore.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Put(ctx, "k", []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, want Canceled", err)
	}
	if _, err := s.Get(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("Get = %v, want Canceled", err)
	}
	for _, err := range s.List(ctx, objstore.ListOptions{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("List = %v, want Canceled", err)
		}
	}
	if got := keys(t, s, objstore.ListOptions{}); len(got) != 0 {
		t.Errorf("a canceled Put left %q", got)
	}
}
