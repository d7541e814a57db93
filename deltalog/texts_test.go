package deltalog

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

// What was put stays what it is for those who read it meanwhile, wherever the memory moves (run with -race).
func TestTexts(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedtest.New(t), 0))
	var x texts
	x.reserve(rng.IntN(3) * 100)
	var want []string
	var at []span
	var readers sync.WaitGroup
	for i := range blockRows {
		text := strings.Repeat(fmt.Sprint(i, "-"), rng.IntN(40))
		s, err := x.put(text)
		if err != nil {
			t.Fatal(err)
		}
		want, at = append(want, text), append(at, s)
		if i%16 == 0 {
			want, at := want[:len(want):len(want)], at[:len(at):len(at)]
			readers.Go(func() {
				for range 10 {
					for j := range want {
						if got := x.at(at[j]); got != want[j] {
							t.Errorf("text %d is %q, want %q", j, got, want[j])
							return
						}
					}
				}
			})
		}
	}
	if next := x.close(); next < int(x.used) || int64(x.room) > int64(x.used)*9/8+1 {
		t.Errorf("closed with %d of %d bytes used, next %d", x.used, x.room, next)
	}
	readers.Wait()
	for j := range want {
		if got := x.at(at[j]); got != want[j] {
			t.Errorf("text %d is %q after the end, want %q", j, got, want[j])
		}
	}
	full := texts{used: 1<<32 - 2}
	if _, err := full.put("abc"); err == nil {
		t.Error("more text than a span can name was taken")
	}
}

// The text of a piece lies in memory that the next piece writes over, so nothing of a state may point there.
func TestStateKeepsNoTextOfAPiece(t *testing.T) {
	line := func(name string) []byte {
		return fmt.Appendf(nil, `{"add":{"path":"%[1]s/file","partitionValues":{"p":"%[1]s"},"size":1,"modificationTime":2,"dataChange":true,"stats":"{\"numRecords\":%[2]d}","tags":{"t":"%[1]s"},"clusteringProvider":"%[1]s","deletionVector":{"storageType":"u","pathOrInlineDv":"%[1]s","offset":1,"sizeInBytes":1,"cardinality":1}}}
{"remove":{"path":"%[1]s/gone","deletionTimestamp":1,"partitionValues":{"p":"%[1]s"},"dataChange":true}}
{"txn":{"appId":"%[1]s","version":1}}
`, name, len(name))
	}
	p := &parser{in: newInterner(), tagTexts: true, a: &actions{}}
	s, w := newState(false), &summary{}
	names := []string{"aaaaaa", "bbbbbb", "cccccc"}
	for v, name := range names {
		if err := p.lines(line(name), "x", 1); err != nil {
			t.Fatal(err)
		}
		w.add(p.a)
		if err := s.applyFiles(Version(v), s.mark(), p.a, false); err != nil {
			t.Fatal(err)
		}
		if err := s.applyNamed(Version(v), p.a); err != nil {
			t.Fatal(err)
		}
		p.a.reset()
	}
	for i, name := range names {
		var a Add
		b, j := s.files.at(i)
		b.addAt(j, &a)
		if a.Path != name+"/file" || a.Stats != `{"numRecords":6}` || *a.Tags["t"] != name || *a.PartitionValues["p"] != name ||
			a.ClusteringProvider != name || a.DeletionVector.PathOrInlineDV != name {
			t.Errorf("add %d is %+v", i, a)
		}
		var r Remove
		b, j = s.graves.at(i)
		b.removeAt(j, &r)
		if r.Path != name+"/gone" || *r.PartitionValues["p"] != name || w.removed[i] != name+"/gone" || s.txns[name].Version != 1 {
			t.Errorf("remove %d is %+v, summary %q, transactions %v", i, r, w.removed[i], s.txns)
		}
	}
}
