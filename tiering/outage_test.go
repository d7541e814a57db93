package tiering_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// outage is a decoder whose schemas are out of reach for a while.
type outage struct {
	decode.Decoder
	calls, down *atomic.Int64
}

func (o outage) Append(v []byte) error {
	if o.calls.Add(1) > 30 && o.down.Add(-1) >= 0 {
		return &decode.UnavailableError{Err: errors.New("registry is down")}
	}
	return o.Decoder.Append(v)
}

// I7: what a decoder cannot do yet is tried again from the table; it is neither a dead letter nor a hole.
func TestOutageOfTheDecoderPauses(t *testing.T) {
	r := newRig(t, 2)
	r.fill(50, 7)
	var calls, down atomic.Int64
	down.Store(9)
	r.cfg.NewDecoder = func(payload *arrow.Schema) (decode.Decoder, error) {
		d, err := decode.ForTable(payload)
		return outage{d, &calls, &down}, err
	}
	s := r.mustRun()
	if down.Load() > 0 || s.DeadLetters != 0 {
		t.Errorf("%d refusals left, %d dead letters", down.Load(), s.DeadLetters)
	}
	r.check()
}

// unknown is a decoder to which the schemas of some values are out of reach while down is set.
type unknown struct {
	decode.Decoder
	down *atomic.Bool
	met  *atomic.Int64
	ends int64 // of the outage: what of met; 0: the test says
}

func (u unknown) Append(v []byte) error {
	if bytes.Contains(v, []byte("new schema")) && u.down.Load() {
		if u.met.Add(1) == u.ends {
			u.down.Store(false)
		}
		return &decode.UnavailableError{Err: errors.New("registry is down")}
	}
	return u.Decoder.Append(v)
}

func (u unknown) Truncate(n int) { u.Decoder.(decode.Truncater).Truncate(n) }

// I3, I7: while a record cannot be judged its partition waits before it; what comes before that record, in its batch too, and
// other partitions are committed, by the same session. Afterwards each record is there once. With rules for rows too, by which a
// batch is decoded again.
func TestOutageHoldsUpNoOtherRecord(t *testing.T) {
	for _, keyed := range []bool{false, true} {
		t.Run(fmt.Sprint("partition columns ", keyed), func(t *testing.T) {
			r := newRig(t, 3)
			if keyed {
				r.partitioned([]string{"s"}, payload().Fields()...)
			}
			var down atomic.Bool
			var met atomic.Int64
			down.Store(true)
			r.cfg.UntilEnd, r.cfg.MaxAge, r.cfg.Workers = false, time.Millisecond, 2
			r.cfg.NewDecoder = func(payload *arrow.Schema) (decode.Decoder, error) {
				d, err := decode.ForTable(payload)
				return unknown{d, &down, &met, 0}, err
			}
			for p := range int32(3) {
				r.log.append(t, p, record.None, []byte(`{"n":1,"s":"a"}`), []byte(`{"n":2,"s":"b"}`))
			}
			r.log.append(t, 0, record.None, []byte(`{"n":3,"s":"c"}`), []byte(`bad`), []byte(`{"n":4,"s":"new schema"}`), []byte(`{"n":5,"s":"a"}`))
			r.log.append(t, 0, record.None, []byte(`{"n":6,"s":"a"}`))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			tr, done := r.open()
			defer done()
			ended := make(chan error, 1)
			go func() { ended <- tr.Run(ctx) }()
			ends := func() map[int32]record.Offset { return tr.Stats().LakeEnd }
			eventually(t, func() bool { return ends()[0] == 4 && ends()[1] == 2 && ends()[2] == 2 && met.Load() > 3 })
			r.log.append(t, 1, record.None, []byte(`{"n":7,"s":"b"}`)) // the others go on
			r.log.append(t, 2, record.None, []byte(`{"n":8,"s":"c"}`))
			eventually(t, func() bool { return ends()[1] == 3 && ends()[2] == 3 })
			if s := tr.Stats(); ends()[0] != 4 || s.DeadLetters != 1 || s.Restarts != 0 || s.Rows != 9 {
				t.Errorf("in the outage: ends %v, %+v", ends(), s)
			}
			down.Store(false)
			eventually(t, func() bool { return ends()[0] == 7 })
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if s := tr.Stats(); s.Rows != 12 || s.Records != 13 {
				t.Errorf("afterwards: %+v", s)
			}
			wantDead(t, r, place{0, 3})
			if !keyed {
				r.check(place{0, 3})
			} else if got := scanned(t, r.store, "_partition", "_offset"); len(got) != 12 {
				t.Errorf("rows %v", got)
			}
		})
	}
}

// A run that is told to stop while a partition waits commits what is before it, and ends well; one that is bounded is not at its end.
func TestStopInAnOutage(t *testing.T) {
	r := newRig(t, 1)
	var down atomic.Bool
	var met atomic.Int64
	ends := int64(0)
	down.Store(true)
	r.cfg.UntilEnd, r.cfg.MaxAge = false, time.Hour
	r.cfg.NewDecoder = func(payload *arrow.Schema) (decode.Decoder, error) {
		d, err := decode.ForTable(payload)
		return unknown{d, &down, &met, ends}, err
	}
	r.log.append(t, 0, record.None, []byte(`{"n":1}`), []byte(`{"s":"new schema"}`))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	tr, done := r.open()
	defer done()
	ended := make(chan error, 1)
	go func() { ended <- tr.Run(ctx) }()
	eventually(t, func() bool { return met.Load() > 2 })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	_, snap := rows(t, r.store)
	if end, ok := table.LakeEnd(snap, "orders", 0); !ok || end != 1 {
		t.Errorf("the table ends at %d, %v", end, ok)
	}
	r.cfg.UntilEnd, ends = true, met.Load()+3
	r.mustRun()
	r.check()
}

// A bounded run reads on when it has fetched all and a record cannot be judged, whoever hears of which first: it ends well at the
// end only (I7).
func TestBoundedRunInAnOutage(t *testing.T) {
	for i := range 100 {
		r := newRig(t, 1)
		var down atomic.Bool
		var met atomic.Int64
		down.Store(true)
		r.cfg.NewDecoder = func(payload *arrow.Schema) (decode.Decoder, error) {
			d, err := decode.ForTable(payload)
			return unknown{d, &down, &met, int64(2 + i%2)}, err
		}
		r.log.append(t, 0, record.None, []byte(`{"n":1}`), []byte(`{"s":"new schema"}`))
		r.mustRun()
		if r.check(); t.Failed() {
			return
		}
	}
}
