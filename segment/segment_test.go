package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// kept is a batch that was written.
type kept struct {
	raw []byte
	h   record.BatchHeader
	pos int64
}

func build(t testing.TB, base record.Offset, ts int64, n, size int) ([]byte, record.BatchHeader) {
	t.Helper()
	b := record.NewBuilder(record.None)
	for i := range n {
		b.Append(ts+int64(i), []byte("k"), bytes.Repeat([]byte{'v'}, size), nil)
	}
	raw, err := b.Build(base)
	if err != nil {
		t.Fatal(err)
	}
	h, err := record.ParseHeader(raw)
	if err != nil {
		t.Fatal(err)
	}
	return raw, h
}

// makeSegment writes a segment of random batches with gaps between offsets.
func makeSegment(t testing.TB, fsys vfs.FS, base record.Offset, batches int, seed uint64) []kept {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	w, err := Create(fsys, "/", base)
	if err != nil {
		t.Fatal(err)
	}
	var out []kept
	next, ts := base, int64(1000)
	for range batches {
		raw, h := build(t, next, ts, 1+rng.IntN(5), rng.IntN(900))
		out = append(out, kept{raw, h, w.Info().Size})
		if err := w.Append(raw, h); err != nil {
			t.Fatal(err)
		}
		next = h.LastOffset() + 1 + record.Offset(rng.IntN(3))
		ts += int64(rng.IntN(9)) - 2
	}
	if err := errors.Join(w.Seal(), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestReadWrite(t *testing.T) {
	for seed := range uint64(20) {
		m := vfs.NewMem()
		batches := makeSegment(t, m, 1000, 100, seed)
		r, err := Open(m, "/", 1000)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Stat("/00000000000000001000.index"); err != nil || r.look.offCount < 5 || r.look.timeCount < 5 {
			t.Fatalf("index entries: %d and %d, %v", r.look.offCount, r.look.timeCount, err)
		}
		checkReads(t, r, batches, seed)
		checkTimes(t, r, batches, seed)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if found, err := Verify(m, "/00000000000000001000.log"); err != nil || len(found) > 0 {
			t.Fatalf("verify: %v %v", found, err)
		}
	}
}

// checkReads reads from every offset, also from inside a batch and from gaps.
func checkReads(t *testing.T, r *Reader, batches []kept, seed uint64) {
	t.Helper()
	i := 0
	last := batches[len(batches)-1].h
	for o := batches[0].h.BaseOffset - 5; o <= last.LastOffset()+1; o++ {
		for i < len(batches) && batches[i].h.LastOffset() < o {
			i++
		}
		got, err := r.Read(o, 3000)
		span, serr := r.Span(o, 3000)
		if i == len(batches) {
			if !errors.Is(err, io.EOF) || !errors.Is(serr, io.EOF) {
				t.Fatalf("seed %d: read behind the end: %v, %v", seed, err, serr)
			}
			break
		}
		want := bytes.Clone(batches[i].raw)
		for j := i + 1; j < len(batches) && len(want)+len(batches[j].raw) <= 3000; j++ {
			want = append(want, batches[j].raw...)
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("seed %d: read from %d: %d bytes, want %d, %v", seed, o, len(got), len(want), err)
		}
		after := slices.IndexFunc(batches, func(b kept) bool { return b.pos == batches[i].pos+int64(len(want)) })
		if serr != nil || span.Pos != batches[i].pos || span.Size != len(want) || after >= 0 && (span.Next <= batches[after-1].h.LastOffset() || span.Next > batches[after].h.BaseOffset) {
			t.Fatalf("seed %d: span from %d: %+v, want %d bytes at %d, %v", seed, o, span, len(want), batches[i].pos, serr)
		}
	}
}

func checkTimes(t *testing.T, r *Reader, batches []kept, seed uint64) {
	t.Helper()
	for ms := int64(950); ms < batches[len(batches)-1].h.MaxTimestamp+20; ms++ {
		want, found := record.Offset(0), false
		for _, b := range batches {
			if b.h.MaxTimestamp >= ms {
				want, found = b.h.BaseOffset+record.Offset(max(ms-b.h.BaseTimestamp, 0)), true
				break
			}
		}
		if got, ok, err := r.OffsetForTime(ms, 0, nil); err != nil || ok != found || got != want {
			t.Fatalf("seed %d: time %d: offset %d %v, want %d %v, %v", seed, ms, got, ok, want, found, err)
		}
	}
}

// TestIndexLayout compares index bytes with Kafka's rule: after more than 4096 bytes, the next batch's last
// offset and position; times when they grew, and at the end.
func TestIndexLayout(t *testing.T) {
	m := vfs.NewMem()
	batches := makeSegment(t, m, 7, 60, 1)
	var wantOff, wantTime []byte
	since, maxTS, maxOff, lastTS := int64(0), int64(-1), record.Offset(0), int64(-1)
	for _, b := range batches {
		if b.h.MaxTimestamp > maxTS {
			maxTS, maxOff = b.h.MaxTimestamp, b.h.LastOffset()
		}
		if since > 4096 {
			wantOff = binary.BigEndian.AppendUint32(wantOff, uint32(b.h.LastOffset()-7))
			wantOff = binary.BigEndian.AppendUint32(wantOff, uint32(b.pos))
			if maxTS > lastTS {
				wantTime = binary.BigEndian.AppendUint64(wantTime, uint64(maxTS))
				wantTime = binary.BigEndian.AppendUint32(wantTime, uint32(maxOff-7))
				lastTS = maxTS
			}
			since = 0
		}
		since += int64(len(b.raw))
	}
	if maxTS > lastTS {
		wantTime = binary.BigEndian.AppendUint64(wantTime, uint64(maxTS))
		wantTime = binary.BigEndian.AppendUint32(wantTime, uint32(maxOff-7))
	}
	for name, want := range map[string][]byte{FileName("/", 7, IndexSuffix): wantOff, FileName("/", 7, TimeIndexSuffix): wantTime} {
		got, err := vfs.ReadFile(m, name)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s:\n%x, want\n%x, %v", name, got, want, err)
		}
	}
}

// TestActive reads while the segment grows, then goes on after a restart with and without its indexes.
func TestActive(t *testing.T) {
	for _, lost := range []string{"", "none flushed", "index", "timeindex", "zeroed"} {
		t.Run(lost, func(t *testing.T) {
			m := vfs.NewMem()
			w, err := Create(m, "/", 0)
			if err != nil {
				t.Fatal(err)
			}
			var all []kept
			add := func(n int) {
				for range n {
					raw, h := build(t, w.Info().Next, 1000+int64(len(all)), 1, 500)
					all = append(all, kept{raw, h, w.Info().Size})
					if err := w.Append(raw, h); err != nil {
						t.Fatal(err)
					}
				}
			}
			add(30)
			early := w.Reader()
			add(30)
			checkReads(t, early, all[:30], 0)
			checkTimes(t, early, all[:30], 0)
			checkReads(t, w.Reader(), all, 0)
			checkTimes(t, w.Reader(), all, 0)
			info := w.Info()
			if lost != "none flushed" {
				if err := w.FlushIndex(); err != nil {
					t.Fatal(err)
				}
			}
			add(10) // behind what the caller knows
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			switch lost {
			case "index", "timeindex":
				err = m.Remove("/00000000000000000000." + lost)
			case "zeroed":
				var f vfs.File
				if f, err = m.Open("/00000000000000000000.index"); err == nil {
					_, err = f.WriteAt(make([]byte, 16), 8)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if w, err = OpenWriter(m, "/", info); err != nil {
				t.Fatal(err)
			}
			if err := w.Cut(); err != nil {
				t.Fatal(err)
			}
			all = all[:60]
			add(40)
			checkReads(t, w.Reader(), all, 0)
			checkTimes(t, w.Reader(), all, 0)
			if err := errors.Join(w.Seal(), w.Close()); err != nil {
				t.Fatal(err)
			}
			if found, err := Verify(m, "/00000000000000000000.log"); err != nil || len(found) > 0 {
				t.Fatalf("verify: %v %v", found, err)
			}
		})
	}
}

// TestDamage recovers damaged segments: what lies before the first bad byte stays, and the finding names it (I8).
func TestDamage(t *testing.T) {
	const name = "/00000000000000000005.log"
	put := func(pos int64, b ...byte) func(t *testing.T, f vfs.File) {
		return func(t *testing.T, f vfs.File) {
			if _, err := f.WriteAt(b, pos); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := vfs.NewMem()
	batches := makeSegment(t, m, 5, 40, 3)
	end := batches[39].pos + int64(len(batches[39].raw))
	cut := func(size int64) func(t *testing.T, f vfs.File) {
		return func(t *testing.T, f vfs.File) {
			if err := f.Truncate(size); err != nil {
				t.Fatal(err)
			}
		}
	}
	at := batches[20].pos
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, f vfs.File)
		good   int // batches that stay
		found  string
	}{
		{"none", cut(end), 40, ""},
		{"torn header", cut(batches[39].pos + 30), 39, "only 30 bytes"},
		{"torn batch", cut(end - 1), 39, "only"},
		{"bad crc field", put(at+17, 1, 2, 3, 4), 20, "CRC"},
		{"bad payload", put(at+61, 0xff), 20, "CRC"},
		{"bad length", put(at+8, 0x7f, 0xff, 0xff, 0xff), 20, "batch length"},
		{"large length", put(at+8, 0x3f, 0xff, 0xff, 0xff), 20, "a batch of 1073741835 bytes"},
		{"negative length", put(at+8, 0xff, 0xff, 0xff, 0xff), 20, "batch length"},
		{"zero page", put(at, make([]byte, len(batches[20].raw))...), 20, "zeros"},
		{"zero tail", cut(end + 4096), 40, "zeros (4096 bytes up to the end)"},
		{"old format", put(at+16, 1), 20, "version"},
		{"offset goes back", put(at, 0, 0, 0, 0, 0, 0, 0, 5), 20, "base offset"},
		{"offset of another segment", put(at, 0, 0, 1, 0, 0, 0, 0, 5), 20, "an offset near 5"},
		{"foreign", put(0, []byte(strings.Repeat("PAR1", 100))...), 0, ""},
		{"empty", cut(0), 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := m.Crash(nil, vfs.KeepAll)
			f, err := m.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			c.damage(t, f)
			bad := end
			if c.good < 40 {
				bad = batches[c.good].pos
			}
			findings, err := Verify(m, name)
			if err != nil {
				t.Fatal(err)
			}
			damaged := c.good < 40 && c.name != "empty" || c.found != ""
			if damaged && (len(findings) != 1 || findings[0].File != name || findings[0].Offset != bad || !strings.Contains(findings[0].String(), c.found)) {
				t.Errorf("verify: %v, want one at %d", findings, bad)
			}
			info, finding, err := Recover(m, "/", 5)
			if err != nil || info.Size != bad || (finding != nil) != damaged {
				t.Fatalf("recover: %+v %v %v, want a size of %d", info, finding, err, bad)
			}
			if found, err := Verify(m, name); err != nil || len(found) > 0 {
				t.Fatalf("verify after recovery: %v %v", found, err)
			}
			if c.good > 0 {
				r, err := Open(m, "/", 5)
				if err != nil {
					t.Fatal(err)
				}
				checkReads(t, r, batches[:c.good], 3)
				checkTimes(t, r, batches[:c.good], 3)
			}
		})
	}
}

// TestBadIndexes reads right with indexes that are missing or lie, and Verify finds the lies.
func TestBadIndexes(t *testing.T) {
	for _, c := range []struct {
		name, file string
		pos        int64
		bytes      []byte // nil: the file goes
		found      bool
		times      bool // times are found all the same
	}{
		{"no index", IndexSuffix, 0, nil, false, true},
		{"no time index", TimeIndexSuffix, 0, nil, false, true},
		{"inside a batch", IndexSuffix, 15, []byte{0xa5}, true, false},
		{"wrong time", TimeIndexSuffix, 0, []byte{0x10}, true, false},
		{"preallocated", IndexSuffix, 4096, make([]byte, 64), false, true},
		{"odd size", TimeIndexSuffix, 2000, []byte{1, 2, 3}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := vfs.NewMem()
			batches := makeSegment(t, m, 0, 60, 5)
			name := FileName("/", 0, c.file)
			if c.bytes == nil {
				if err := m.Remove(name); err != nil {
					t.Fatal(err)
				}
			} else {
				f, err := m.Open(name)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteAt(c.bytes, c.pos); err != nil {
					t.Fatal(err)
				}
			}
			found, err := Verify(m, FileName("/", 0, LogSuffix))
			if err != nil || (len(found) > 0) != c.found {
				t.Errorf("verify: %v %v", found, err)
			}
			if len(found) > 0 && found[0].File != name {
				t.Errorf("verify: %v", found)
			}
			r, err := Open(m, "/", 0)
			if err != nil {
				t.Fatal(err)
			}
			if c.times {
				checkReads(t, r, batches, 5)
				checkTimes(t, r, batches, 5)
				return
			}
			for _, b := range batches {
				if got, err := r.Read(b.h.BaseOffset, 1); err != nil || !bytes.Equal(got, b.raw) {
					t.Fatalf("read %d: %d bytes, %v", b.h.BaseOffset, len(got), err)
				}
			}
		})
	}
}

func TestNames(t *testing.T) {
	m := vfs.NewMem()
	for _, n := range []string{"/00000000000000000012.log", "/00000000000000000003.log", "/00000000000000000003.index", "/x.log", "/-0000000000000000003.log"} {
		if _, err := m.Create(n); err != nil {
			t.Fatal(err)
		}
	}
	got, err := List(m, "/")
	if diff := cmp.Diff([]record.Offset{3, 12}, got); err != nil || diff != "" {
		t.Error(diff, err)
	}
	if err := Remove(m, "/", 3); err != nil {
		t.Error(err)
	}
	if _, err := Verify(m, "/x.log"); !errors.Is(err, ErrName) {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	w, err := Create(vfs.NewMem(), "/", 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		base record.Offset
		want error
	}{{9, ErrOrder}, {10 + 1<<31, ErrFull}, {12, nil}, {12, ErrOrder}, {13, nil}} {
		raw, h := build(t, c.base, 1, 1, 1)
		if err := w.Append(raw, h); !errors.Is(err, c.want) {
			t.Errorf("append at %d: %v", c.base, err)
		}
	}
}

// FuzzVerify gives Verify, Recover and Read any bytes as a segment (I8).
func FuzzVerify(f *testing.F) {
	m := vfs.NewMem()
	for _, b := range makeSegment(f, m, 0, 3, 1) {
		f.Add(b.raw, []byte{0, 0, 0, 1, 0, 0, 0, 0}, []byte{})
	}
	f.Fuzz(func(t *testing.T, log, index, times []byte) {
		m := vfs.NewMem()
		for suffix, b := range map[string][]byte{LogSuffix: log, IndexSuffix: index, TimeIndexSuffix: times} {
			w, err := m.Create(FileName("/", 0, suffix))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.WriteAt(b, 0); err != nil {
				t.Fatal(err)
			}
		}
		before, err := Verify(m, FileName("/", 0, LogSuffix))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Open(m, "/", 0)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = r.Read(1, 100)
		_, _, _ = r.OffsetForTime(5, 0, nil)
		info, _, err := Recover(m, "/", 0)
		if err != nil || info.Size > int64(len(log)) {
			t.Fatalf("recover: %+v %v", info, err)
		}
		if found, err := Verify(m, FileName("/", 0, LogSuffix)); err != nil || len(found) > 0 {
			t.Fatalf("verify after recovery: %v %v; before: %v", found, err, before)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	m := vfs.NewMem()
	w, err := Create(m, "/", 0)
	if err != nil {
		b.Fatal(err)
	}
	for range 2000 {
		raw, h := build(b, w.Info().Next, 1, 10, 100)
		if err := w.Append(raw, h); err != nil {
			b.Fatal(err)
		}
	}
	for _, size := range []int{1, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			r := w.Reader()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				got, err := r.Read(record.Offset(i*37%10000), size)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(got)))
			}
		})
	}
}

// What is staged is behind the end: no Reader sees it, nothing is appended before it is published, in order, and who opens the
// segment again as it was before finds it gone after Cut.
func TestStage(t *testing.T) {
	m := vfs.NewMem()
	w, err := Create(m, "/", 10)
	if err != nil {
		t.Fatal(err)
	}
	raw10, h10 := build(t, 10, 1, 1, 1)
	raw11, h11 := build(t, 11, 1, 1, 1)
	raw12, h12 := build(t, 12, 1, 1, 1)
	if err := errors.Join(w.Append(raw10, h10), w.Stage(raw11, h11), w.Stage(raw12, h12)); err != nil {
		t.Fatal(err)
	}
	before := w.Info()
	if want := int64(len(raw10)); before.Size != want || before.Next != 11 || w.End() != want+int64(len(raw11)+len(raw12)) {
		t.Errorf("%+v, end %d", before, w.End())
	}
	if got, err := w.Reader().Read(10, 1<<20); err != nil || !bytes.Equal(got, raw10) {
		t.Errorf("a Reader sees %d bytes, %v", len(got), err)
	}
	if err := w.Append(raw12, h12); !errors.Is(err, ErrOrder) {
		t.Errorf("append behind what is staged: %v", err)
	}
	if err := w.Publish(h11); err != nil {
		t.Error(err)
	}
	if err := w.Publish(h11); !errors.Is(err, ErrOrder) {
		t.Errorf("published twice: %v", err)
	}
	if got, err := w.Reader().Read(10, 1<<20); err != nil || !bytes.Equal(got, append(slices.Clip(raw10), raw11...)) {
		t.Errorf("after Publish a Reader sees %d bytes, %v", len(got), err)
	}
	again, err := OpenWriter(m, "/", before)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Cut(); err != nil {
		t.Fatal(err)
	}
	if size, err := again.log.Size(); err != nil || size != before.Size {
		t.Errorf("%d bytes after Cut, %v", size, err)
	}
}
