package reprocess_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/reprocess"
)

// Values may have fields that are named as the coordinates are, written in any way: the command sees those of the record, and
// such values neither become dead letters nor end the job (I7).
func TestValuesWithTheNamesOfCoordinates(t *testing.T) {
	c, err := reprocess.StartCommand([]string{"cat"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var in []reprocess.Record
	for i, field := range []string{`"_offset"`, `"_error"`, `"_\u006fffset"`, `"\u005Foffset"`, `"_Offset"`, `"_OFFSET"`, `"_key"`} {
		value := fmt.Appendf(nil, `{"n":%d,%s:"x","in":{"_offset":1}}`, i, field)
		in = append(in, reprocess.Record{Record: record.Record{Offset: record.Offset(100 + i), Value: value}})
	}
	out, err := c.Apply(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range out {
		if r.Err != nil || !strings.Contains(string(r.Value), fmt.Sprintf(`"n":%d`, i)) || !strings.Contains(string(r.Value), `"in":{"_offset":1}`) {
			t.Errorf("%s became %s, %v", in[i].Value, r.Value, r.Err)
		}
	}
}

// A program that takes nothing more, and lives on, does not hold up a job for ever: it is ended, and the job says why.
func TestCommandSinkThatStopsReading(t *testing.T) {
	r := newRig(t)
	r.send(0, 20_000)
	cfg := r.config(reprocess.Spec{})
	cfg.Outlet = &reprocess.CommandOutlet{Argv: []string{"sh", "-c", "exec sleep 1000"}, AnswerTime: 20 * time.Millisecond}
	done := make(chan error, 1)
	j := r.open(cfg)
	go func() { done <- j.Run(t.Context(), reprocess.RunOptions{}) }()
	select {
	case err := <-done:
		if !errors.Is(err, broker.ErrGiveUp) || !strings.Contains(err.Error(), "took nothing") {
			t.Errorf("%v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the job hangs")
	}
}
