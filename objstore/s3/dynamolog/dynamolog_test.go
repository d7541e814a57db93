package dynamolog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/objstore/objstoretest"
	"github.com/ledgerlake/ledgerlake/objstore/s3"
	"github.com/ledgerlake/ledgerlake/objstore/s3/dynamolog"
)

func open(t testing.TB, store objstore.Store, lock dynamolog.LockTable) *dynamolog.Store {
	t.Helper()
	s, err := dynamolog.New(store, lock, dynamolog.Config{TablePath: tablePath})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func file(v int) string { return fmt.Sprintf("%020d.json", v) }
func key(v int) string  { return "_delta_log/" + file(v) }

func mustPut(t testing.TB, s objstore.Store, v int, data string) {
	t.Helper()
	if err := s.PutIfAbsent(t.Context(), key(v), []byte(data)); err != nil {
		t.Fatalf("version %d: %v", v, err)
	}
}

func wantVersion(t testing.TB, s objstore.Store, v int, want string) {
	t.Helper()
	if b, err := s.Get(t.Context(), key(v)); err != nil || string(b) != want {
		t.Fatalf("version %d is %q, %v; want %q", v, b, err, want)
	}
}

// versions lists the versions of the log.
func versions(t testing.TB, s objstore.Store) (found []int) {
	t.Helper()
	for info, err := range s.List(t.Context(), objstore.ListOptions{Prefix: "_delta_log/", Flat: true}) {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		v := 0
		if n, _ := fmt.Sscanf(info.Key, "_delta_log/%d.json", &v); n == 1 {
			found = append(found, v)
		}
	}
	return found
}

func temps(t testing.TB, s objstore.Store) (found []string) {
	t.Helper()
	for info, err := range s.List(t.Context(), objstore.ListOptions{Prefix: "_delta_log/.tmp/"}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, info.Key)
	}
	return found
}

func TestConformance(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store { return open(t, mem.New(), newLock()) })
}

// TestScheme checks what others find: one entry a version, complete, to expire in a day, and no leavings.
func TestScheme(t *testing.T) {
	inner, lock := mem.New(), newLock()
	now := time.Unix(1_700_000_000, 0)
	s, err := dynamolog.New(inner, lock, dynamolog.Config{TablePath: tablePath, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	var during dynamolog.Entry
	inner.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpPutIfAbsent && c.Key == key(0) {
			during, _, _ = lock.Get(t.Context(), tablePath, file(0))
		}
		return mem.Fault{}
	})
	mustPut(t, s, 0, "zero")
	if !strings.HasPrefix(during.Temp, ".tmp/"+file(0)+".") || during.Complete || !during.Expire.IsZero() {
		t.Errorf("before the copy the entry is %+v", during)
	}
	if e, ok := lock.entry(t, tablePath, file(0)); !ok || !e.Complete || !e.Expire.Equal(now.Add(24*time.Hour)) || e.Temp != during.Temp {
		t.Errorf("afterwards it is %+v", e)
	}
	if err := s.PutIfAbsent(t.Context(), key(0), []byte("other")); !errors.Is(err, objstore.ErrExists) {
		t.Errorf("version 0 again: %v", err)
	}
	if err := s.PutIfAbsent(t.Context(), key(2), []byte("gap")); err == nil || errors.Is(err, objstore.ErrExists) || !strings.Contains(err.Error(), "gap") {
		t.Errorf("version 2 without 1: %v", err)
	}
	mustPut(t, s, 1, "one")
	wantVersion(t, s, 0, "zero")
	if got := temps(t, s); len(got) != 0 {
		t.Errorf("temporary files stay: %q", got)
	}
}

// outage stops everything at the n-th operation of store or lock table, for ever, as a writer that dies does.
// With after the n-th operation itself still takes effect.
func outage(inner *mem.Store, lock *memLock, n int64, after bool) *atomic.Int64 {
	var count atomic.Int64
	dead := errors.New("the writer died")
	step := func() mem.Fault {
		switch c := count.Add(1); {
		case c == n && after:
			return mem.Fault{After: dead}
		case c >= n:
			return mem.Fault{Before: dead}
		}
		return mem.Fault{}
	}
	inner.SetHook(func(context.Context, mem.Call) mem.Fault { return step() })
	lock.setFault(func(string) mem.Fault { return step() })
	return &count
}

// TestCrashAtEachStep has a writer die before or after each of its operations. What it acknowledged is there; what
// is there has its content for ever, whether a reader, a lister or the next writer is the first to come (I1, I5).
func TestCrashAtEachStep(t *testing.T) {
	for _, next := range []string{"lister", "reader", "writer", "racing writers"} {
		for _, after := range []bool{false, true} {
			for n := int64(1); ; n++ {
				inner, lock := mem.New(), newLock()
				mustPut(t, open(t, inner, lock), 0, "zero")
				count := outage(inner, lock, n, after)
				err := open(t, inner, lock).PutIfAbsent(t.Context(), key(1), []byte("one"))
				inner.SetHook(nil)
				lock.setFault(nil)
				name := fmt.Sprintf("%s after operation %d, done %v", next, n, after)
				_, made := lock.entry(t, tablePath, file(1))
				if err == nil && !made || made && err != nil && !errors.Is(err, objstore.ErrUnknownOutcome) {
					t.Fatalf("%s: PutIfAbsent = %v, and the commit is made: %v", name, err, made)
				}
				checkNext(t, name, next, inner, lock, made)
				if count.Load() < n {
					break
				}
			}
		}
	}
}

func checkNext(t *testing.T, name, next string, inner *mem.Store, lock *memLock, made bool) {
	t.Helper()
	s := open(t, inner, lock)
	switch next {
	case "lister":
		if got := len(versions(t, s)); got != 1 && !made || got != 2 && made {
			t.Fatalf("%s: %d versions, and the commit is made: %v", name, got, made)
		}
	case "reader":
		if _, err := s.Get(t.Context(), key(1)); (err == nil) != made || !made && !errors.Is(err, objstore.ErrNotFound) {
			t.Fatalf("%s: Get = %v, and the commit is made: %v", name, err, made)
		}
	case "writer":
		err := s.PutIfAbsent(t.Context(), key(1), []byte("rival"))
		if made && !errors.Is(err, objstore.ErrExists) || !made && err != nil {
			t.Fatalf("%s: the next writer got %v, and the commit is made: %v", name, err, made)
		}
		mustPut(t, s, 2, "two")
		wantVersion(t, s, 2, "two")
	case "racing writers":
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				s := open(t, inner, lock)
				_ = s.PutIfAbsent(t.Context(), key(1), []byte("rival"))
				if err := s.PutIfAbsent(t.Context(), key(2), []byte("two")); err != nil && !errors.Is(err, objstore.ErrExists) {
					t.Errorf("%s: version 2: %v", name, err)
				}
			})
		}
		wg.Wait()
	}
	if made {
		wantVersion(t, s, 1, "one")
		if e, _ := lock.entry(t, tablePath, file(1)); !e.Complete && next != "reader" {
			// A reader that finds N.json has nothing to look up.
			t.Fatalf("%s: the entry stays incomplete", name)
		}
	}
}

// TestUnknownOutcomes: answers of the lock table are lost, before and after their effect.
func TestUnknownOutcomes(t *testing.T) {
	lost := errors.New("connection reset")
	unknown := fmt.Errorf("%w: %w", objstore.ErrUnknownOutcome, lost)
	for name, c := range map[string]struct {
		faults map[string]mem.Fault
		want   error // nil: acknowledged
		made   bool
	}{
		"the answer is lost, and read back":       {map[string]mem.Fault{"Add": {After: lost}}, nil, true},
		"the request is lost":                     {map[string]mem.Fault{"Add": {Before: unknown}}, objstore.ErrUnknownOutcome, false},
		"the request is refused":                  {map[string]mem.Fault{"Add": {Before: lost}}, lost, false},
		"the entry is not marked":                 {map[string]mem.Fault{"Complete": {Before: lost}}, nil, true},
		"the predecessor cannot be looked up":     {map[string]mem.Fault{"Get": {Before: lost}}, lost, false},
		"the other scheme cannot be looked up":    {map[string]mem.Fault{"Latest": {Before: unknown}}, lost, false},
		"the answer is lost and so is the reader": {map[string]mem.Fault{"Add": {After: lost}, "Get2": {Before: lost}}, objstore.ErrUnknownOutcome, true},
	} {
		t.Run(name, func(t *testing.T) {
			inner, lock := mem.New(), newLock()
			if _, ok := c.faults["Latest"]; !ok {
				mustPut(t, open(t, inner, lock), 0, "zero")
			}
			first := len(versions(t, inner))
			gets := 0
			lock.setFault(func(op string) mem.Fault {
				if op == "Get" {
					if gets++; gets == 2 {
						op = "Get2"
					}
				}
				return c.faults[op]
			})
			err := open(t, inner, lock).PutIfAbsent(t.Context(), key(first), []byte("new"))
			lock.setFault(nil)
			if c.want == nil && err != nil || c.want != nil && (err == nil || !strings.Contains(err.Error(), c.want.Error())) ||
				errors.Is(err, objstore.ErrUnknownOutcome) != (c.want == objstore.ErrUnknownOutcome) {
				t.Fatalf("PutIfAbsent = %v, want %v", err, c.want)
			}
			if _, made := lock.entry(t, tablePath, file(first)); made != c.made {
				t.Fatalf("made: %v, want %v", made, c.made)
			}
			if got := temps(t, inner); len(got) == 0 && errors.Is(err, objstore.ErrUnknownOutcome) {
				t.Error("the temporary file is gone, while its entry may still arrive")
			} else if len(got) != 0 && err != nil && !errors.Is(err, objstore.ErrUnknownOutcome) {
				t.Errorf("a commit that was not made leaves %q", got)
			}
			if c.made {
				wantVersion(t, open(t, inner, lock), first, "new")
			}
		})
	}
}

// TestOneWinner proves I5 for racing writers with lost answers: a version has one content, that of the writer
// which was told so.
func TestOneWinner(t *testing.T) {
	seed := seedtest.New(t)
	rng, mu := rand.New(rand.NewPCG(seed, seed)), sync.Mutex{}
	roll := func() mem.Fault {
		mu.Lock()
		defer mu.Unlock()
		switch rng.IntN(12) {
		case 0:
			return mem.Fault{Before: fmt.Errorf("%w: reset", objstore.ErrUnknownOutcome)}
		case 1:
			return mem.Fault{After: errors.New("reset")}
		}
		return mem.Fault{}
	}
	inner, lock := mem.New(), newLock()
	mustPut(t, open(t, inner, lock), 0, "zero")
	inner.SetHook(func(context.Context, mem.Call) mem.Fault { return roll() })
	lock.setFault(func(string) mem.Fault { return roll() })
	const writers, rounds = 6, 40
	won := make([][]string, rounds+1)
	for v := 1; v <= rounds; v++ {
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				s := open(t, inner, lock)
				data := fmt.Sprintf("writer %d of %d", w, v)
				for try := 0; ; try++ {
					err := s.PutIfAbsent(t.Context(), key(v), []byte(data))
					if err == nil {
						mu.Lock()
						won[v] = append(won[v], data)
						mu.Unlock()
						return
					}
					if errors.Is(err, objstore.ErrExists) {
						return
					}
					if try > 200 || errors.Is(err, dynamolog.ErrMixedWriters) {
						t.Errorf("version %d: %v", v, err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	inner.SetHook(nil)
	lock.setFault(nil)
	s := open(t, inner, lock)
	for v := 1; v <= rounds; v++ {
		got, err := s.Get(t.Context(), key(v))
		if err != nil || len(won[v]) > 1 || len(won[v]) == 1 && won[v][0] != string(got) {
			t.Fatalf("version %d is %q, %v; told to have won: %q", v, got, err, won[v])
		}
	}
	if got := versions(t, s); len(got) != rounds+1 {
		t.Errorf("%d versions, want %d", len(got), rounds+1)
	}
}

// TestForeignTraces: what other engines of the scheme leave is taken as they mean it.
func TestForeignTraces(t *testing.T) {
	add := func(t *testing.T, lock *memLock, v int, temp string, complete bool) {
		t.Helper()
		e := dynamolog.Entry{File: file(v), Temp: temp}
		if err := lock.Add(t.Context(), tablePath, e); err != nil {
			t.Fatal(err)
		}
		if e.Complete = complete; complete {
			_ = lock.Complete(t.Context(), tablePath, e)
		}
	}
	t.Run("delta-rs died before the move", func(t *testing.T) {
		inner, lock := mem.New(), newLock()
		_ = inner.Put(t.Context(), "_delta_log/_commit_1.json.tmp", []byte("zero"))
		add(t, lock, 0, "_commit_1.json.tmp", false)
		s := open(t, inner, lock)
		if got := versions(t, s); len(got) != 1 {
			t.Fatalf("versions %v", got)
		}
		wantVersion(t, s, 0, "zero")
		mustPut(t, s, 1, "one")
	})
	t.Run("delta-rs died after the move", func(t *testing.T) {
		inner, lock := mem.New(), newLock()
		_ = inner.Put(t.Context(), key(0), []byte("zero"))
		add(t, lock, 0, "_commit_1.json.tmp", false)
		s := open(t, inner, lock)
		mustPut(t, s, 1, "one")
		if e, _ := lock.entry(t, tablePath, file(0)); !e.Complete {
			t.Error("the entry stays incomplete")
		}
	})
	t.Run("the content is lost", func(t *testing.T) {
		inner, lock := mem.New(), newLock()
		add(t, lock, 0, ".tmp/x", false)
		if _, err := open(t, inner, lock).Get(t.Context(), key(0)); !errors.Is(err, dynamolog.ErrLostVersion) {
			t.Errorf("Get = %v", err)
		}
	})
	t.Run("entries of a table that was removed", func(t *testing.T) {
		inner, lock := mem.New(), newLock()
		add(t, lock, 0, ".tmp/x", true)
		if err := open(t, inner, lock).PutIfAbsent(t.Context(), key(0), nil); !errors.Is(err, dynamolog.ErrStaleEntries) {
			t.Errorf("PutIfAbsent = %v", err)
		}
	})
	t.Run("entries that expired", func(t *testing.T) {
		inner, lock := mem.New(), newLock()
		_ = inner.Put(t.Context(), key(0), []byte("zero"))
		mustPut(t, open(t, inner, lock), 1, "one")
	})
	t.Run("a path that leaves the log", func(t *testing.T) {
		inner, lock := mem.New(), newLock()
		add(t, lock, 0, "../../x", false)
		if _, err := open(t, inner, lock).Get(t.Context(), key(0)); !errors.Is(err, objstore.ErrInvalidKey) {
			t.Errorf("Get = %v", err)
		}
	})
}

// TestMixedWriters: a writer that does not use the lock table is noticed, on both sides.
func TestMixedWriters(t *testing.T) {
	want := func(t *testing.T, what string, err error) {
		t.Helper()
		if !errors.Is(err, dynamolog.ErrMixedWriters) || errors.Is(err, objstore.ErrExists) {
			t.Errorf("%s: %v, want ErrMixedWriters", what, err)
		}
	}
	t.Run("between entry and copy", func(t *testing.T) {
		inner, lock := mem.New(), newLock()
		s := open(t, inner, lock)
		mustPut(t, s, 0, "zero")
		var once sync.Once
		inner.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
			if c.Op == mem.OpPutIfAbsent && c.Key == key(1) {
				once.Do(func() { _ = inner.Put(t.Context(), key(1), []byte("foreign")) })
			}
			return mem.Fault{}
		})
		want(t, "our commit", s.PutIfAbsent(t.Context(), key(1), []byte("one")))
		wantVersion(t, s, 1, "foreign") // I5: we overwrite nothing
		if e, _ := lock.entry(t, tablePath, file(1)); !e.Complete {
			t.Error("the entry still asks others to copy our content over it")
		}
	})
	t.Run("a version without an entry", func(t *testing.T) {
		inner, lock := mem.New(), newLock()
		s := open(t, inner, lock)
		mustPut(t, s, 0, "zero")
		_ = inner.Put(t.Context(), key(1), []byte("foreign"))
		want(t, "our commit", s.PutIfAbsent(t.Context(), key(2), []byte("two")))
	})
	t.Run("recovery meets other content", func(t *testing.T) {
		inner, lock := mem.New(), newLock()
		_ = inner.Put(t.Context(), "_delta_log/.tmp/x", []byte("zero"))
		_ = inner.Put(t.Context(), key(0), []byte("foreign"))
		_ = lock.Add(t.Context(), tablePath, dynamolog.Entry{File: file(0), Temp: ".tmp/x"})
		s := open(t, inner, lock)
		var err error
		for _, err = range s.List(t.Context(), objstore.ListOptions{Prefix: "_delta_log/"}) {
			break
		}
		want(t, "the first to see it", err)
		if got := versions(t, s); !slices.Equal(got, []int{0}) { // it is said once, and does not lock the table
			t.Errorf("versions %v", got)
		}
	})
	t.Run("another lock table, another scheme", func(t *testing.T) {
		inner, lock := mem.New(), newLock()
		mustPut(t, open(t, inner, lock), 0, "zero")
		other, err := dynamolog.New(inner, lock, dynamolog.Config{TablePath: "s3a://lake/t"})
		if err != nil {
			t.Fatal(err)
		}
		want(t, "marked as s3://", other.PutIfAbsent(t.Context(), key(1), nil))
		fresh := mem.New() // not marked, as after Spark, which knows no marks
		_ = fresh.Put(t.Context(), key(0), []byte("zero"))
		other, _ = dynamolog.New(fresh, lock, dynamolog.Config{TablePath: "s3a://lake/t"})
		want(t, "entries as s3://", other.PutIfAbsent(t.Context(), key(1), nil))
	})
	t.Run("guard", func(t *testing.T) {
		inner, lock := mem.New(), newLock()
		mustPut(t, open(t, inner, lock), 0, "zero")
		want(t, "our mark", dynamolog.Guard(inner).PutIfAbsent(t.Context(), key(1), nil))
		spark := mem.New()
		_ = spark.Put(t.Context(), "_delta_log/.tmp/"+file(0)+".uuid", []byte("zero"))
		want(t, "Spark's files", dynamolog.Guard(spark).PutIfAbsent(t.Context(), key(1), nil))
		free := dynamolog.Guard(mem.New())
		mustPut(t, free, 0, "zero")
		mustPut(t, free, 1, "one")
	})
}

// noCondition is a store without conditional put.
type noCondition struct{ objstore.Store }

func (noCondition) PutIfAbsent(context.Context, string, []byte) error { return s3.ErrNoConditionalPut }

// A store without conditional put is served by the lock table alone, as by Spark.
func TestWithoutConditionalPut(t *testing.T) {
	inner, lock := noCondition{mem.New()}, newLock()
	s := open(t, inner, lock)
	mustPut(t, s, 0, "zero")
	if err := s.PutIfAbsent(t.Context(), key(0), []byte("x")); !errors.Is(err, objstore.ErrExists) {
		t.Fatal(err)
	}
	mustPut(t, s, 1, "one")
	wantVersion(t, s, 0, "zero")
}

func TestConfig(t *testing.T) {
	for _, path := range []string{"", "lake/t", "s3://", "s3://lake/t/", "gs://lake/t"} {
		if _, err := dynamolog.New(mem.New(), newLock(), dynamolog.Config{TablePath: path}); err == nil {
			t.Errorf("table path %q is taken", path)
		}
	}
}
