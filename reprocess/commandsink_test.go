package reprocess_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/reprocess"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// loader is a sink: it appends what it gets to a file of its own in dir, and dies by the dice that lie there, before or
// behind the acknowledgement.
func loader(dir string) {
	f, err := os.CreateTemp(dir, "got-*")
	if err != nil {
		panic(err)
	}
	lives, err := filepath.Glob(filepath.Join(dir, "got-*"))
	if err != nil {
		panic(err)
	}
	dies := func(int) bool { return false }
	if dice, err := os.ReadFile(filepath.Join(dir, "dice")); err == nil {
		seed, err := strconv.ParseUint(string(dice), 10, 64)
		if err != nil {
			panic(err)
		}
		rng := rand.New(rand.NewPCG(seed, uint64(len(lives))))
		dies = func(of int) bool { return rng.IntN(of) == 0 }
	}
	last := map[int]int64{}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var r struct {
			Flush     bool  `json:"_flush"`
			Partition int   `json:"_partition"`
			Offset    int64 `json:"_offset"`
		}
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			panic(err)
		}
		if !r.Flush {
			fmt.Fprintf(f, "%s\n", in.Bytes())
			last[r.Partition] = r.Offset
			if dies(300) {
				os.Exit(3)
			}
			continue
		}
		for p, o := range last {
			fmt.Printf("{\"_partition\":%d,\"_offset\":%d}\n", p, o)
		}
		if dies(4) {
			os.Exit(4)
		}
	}
}

// A program as a sink gets each record in order, the refused ones too, and whatever dies in between, what it has by
// place is that of an undisturbed run: no record is missing, and one that comes again is the same (I4, I7).
func TestCommandSink(t *testing.T) {
	r := newRig(t)
	r.send(0, 500)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	r.send(500, 700)
	dir := t.TempDir()
	dice := filepath.Join(dir, "dice")
	if err := os.WriteFile(dice, fmt.Append(nil, seedtest.New(t)), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv(helper, "sink:"+dir)
	cfg := r.config(reprocess.Spec{Where: "n % 3 != 0", Columns: []reprocess.Column{{Name: "n", Value: "n == 50 ? int('no') : n * 2"}}})
	cfg.Tiering = tiering.Config{MaxRows: 30, RetryBase: time.Microsecond, RetryMax: time.Millisecond}
	for try := 0; ; try++ {
		if try == 5 {
			if err := os.Remove(dice); err != nil {
				t.Fatal(err)
			}
		}
		cfg.Outlet = &reprocess.CommandOutlet{Argv: []string{os.Args[0]}}
		err := r.open(cfg).Run(t.Context(), reprocess.RunOptions{})
		if err == nil {
			break
		}
		if try >= 5 || !errors.Is(err, broker.ErrGiveUp) { // five failures in a row are the dice's
			t.Fatal(err)
		}
	}
	got := map[place]string{}
	files, err := filepath.Glob(filepath.Join(dir, "got-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		last := map[int32]int64{}
		for _, text := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
			if text == "" {
				continue
			}
			var l struct {
				Partition int32  `json:"_partition"`
				Offset    int64  `json:"_offset"`
				Error     string `json:"_error"`
				N         int
			}
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			p := place{l.Partition, l.Offset}
			if before, again := got[p]; again && before != text {
				t.Fatalf("%v came as %s, and again as %s", p, before, text)
			}
			if at, ok := last[l.Partition]; ok && at >= l.Offset {
				t.Fatalf("%s comes behind offset %d", text, at)
			}
			last[l.Partition], got[p] = l.Offset, text
			n := r.sent[p]
			if n%3 == 0 || (n == 50) != (l.Error != "") || n != 50 && l.N != 2*n || n == 50 && l.N != 50 {
				t.Fatalf("record %d came as %s", n, text)
			}
		}
	}
	if want := len(r.want(func(n int) (int64, bool) { return 0, n%3 != 0 })); len(got) != want {
		t.Fatalf("%d records came, want %d", len(got), want)
	}
}

// A program that acknowledges what it did not get, says other things, or ends early is told so, and the job ends (I8).
func TestCommandSinkThatIsWrong(t *testing.T) {
	for script, want := range map[string]string{
		`read x; echo '{"_partition":0,"_offset":99999}'; cat >/dev/null`: "which it did not get",
		`read x; echo loading; cat >/dev/null`:                            "want {\"_partition\": p",
		`read x; exit 0`:                                                  "it ended before",
		`exit 1`:                                                          "sink command sh",
	} {
		r := newRig(t)
		r.send(0, 100)
		cfg := r.config(reprocess.Spec{})
		cfg.Table = nil
		cfg.Outlet = &reprocess.CommandOutlet{Argv: []string{"sh", "-c", script}}
		err := r.open(cfg).Run(t.Context(), reprocess.RunOptions{})
		if !errors.Is(err, broker.ErrGiveUp) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", script, err)
		}
	}
}

// A program that ends with a status other than 0 after it acknowledged everything has done its work: the job is done, and
// logs the status.
func TestCommandSinkThatEndsWithAStatus(t *testing.T) {
	r := newRig(t)
	r.send(0, 100)
	dir := t.TempDir()
	t.Setenv(helper, "sink:"+dir)
	cfg := r.config(reprocess.Spec{})
	var log bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Outlet = &reprocess.CommandOutlet{Argv: []string{"sh", "-c", `"$0"; exit 7`, os.Args[0]}}
	j := r.open(cfg)
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if st, err := j.Status(t.Context()); err != nil || st.Decided != 100 || !strings.Contains(log.String(), "exit status 7") {
		t.Errorf("%+v %v, log %s", st, err, log.String())
	}
}

// A split whose program always fails gives up, however well those of the other splits do (I8).
func TestCommandSinkOfOneSplitThatFails(t *testing.T) {
	o := &reprocess.CommandOutlet{Argv: []string{"sh", "-c", `read x; exit 1`}}
	good := &reprocess.CommandOutlet{Argv: []string{"sh", "-c", `read x; echo '{"_partition":1,"_offset":0}'; cat >/dev/null`}}
	one := func(argv []string, app string, partition int32) error {
		o.Argv = argv
		d, err := o.Open(t.Context(), reprocess.Work{App: app})
		if err != nil {
			t.Fatal(err)
		}
		in := []reprocess.Record{{Partition: partition, Record: record.Record{Value: []byte(`{}`)}}}
		err = d.Deliver(t.Context(), in, []reprocess.Result{{Value: []byte(`{}`)}})
		if err == nil {
			err = d.Commit(t.Context(), nil)
		}
		_ = d.Close()
		return err
	}
	bad := o.Argv
	for range 4 {
		if err := one(bad, "job/0", 0); err == nil || errors.Is(err, broker.ErrGiveUp) {
			t.Fatal(err)
		}
		if err := one(good.Argv, "job/1", 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := one(bad, "job/0", 0); !errors.Is(err, broker.ErrGiveUp) {
		t.Errorf("five in a row: %v", err)
	}
}

// The keys of a job that go together do so.
func TestSinkKeys(t *testing.T) {
	for text, good := range map[string]bool{
		"sink: kafka://h:1/t\npartitions: key\norigin: true\ndelivery: at-least-once": true,
		"sink: topic:./data/t\nstate: ./state":                                        true,
		"sink: command\nsinkCommand: [cat]":                                           true,
		"sink: ./table\nschema: x.json":                                               true,
		"sink: command":                                                               false,
		"sink: ./table\nsinkCommand: [cat]":                                           false,
		"sink: ./table\norigin: true":                                                 false,
		"sink: ./table\nstate: ./state":                                               false,
		"sink: kafka://h:1/t\ndelivery: once":                                         false,
		"sink: kafka://h:1/t\npartitions: some":                                       false,
		"sink: kafka://h:1/t\nsplitBytes: 10":                                         false,
		"sink: mysql://h/t":                                                           false,
		"origin: true":                                                                false,
	} {
		_, err := reprocess.ParseSpec([]byte("name: a\nsource: b\n" + text))
		if (err == nil) != good || err != nil && !errors.Is(err, reprocess.ErrSpec) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
