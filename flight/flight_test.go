package flight_test

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	aflight "github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/flight"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

type rig struct {
	t      *testing.T
	log    *local.Log
	table  *table.Table
	client aflight.Client
	addr   string
}

func newRig(t *testing.T, cfg flight.Config) *rig {
	t.Helper()
	ctx := t.Context()
	r := &rig{t: t}
	var err error
	if r.log, err = local.Open(ctx, local.Config{Dir: "/log", FS: vfs.NewMem()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.log.Close() })
	if _, err := r.log.CreateTopic(ctx, "events", broker.TopicConfig{Partitions: 1, Tiered: true}); err != nil {
		t.Fatal(err)
	}
	payload := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	if r.table, err = table.OpenOrCreate(ctx, mem.New(), payload, table.Config{Topic: "events"}); err != nil {
		t.Fatal(err)
	}
	cfg.Listen, cfg.Engine = "127.0.0.1:0", r.log
	cfg.Table = func(topic string) (*table.Table, bool) { return r.table, topic == "events" }
	s, err := flight.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.addr = s.Addr().String()
	r.client, err = aflight.NewClientWithMiddleware(r.addr, nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.client.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) append(from, to int) {
	r.t.Helper()
	b := record.NewBuilder(record.None)
	for n := from; n < to; n++ {
		b.Append(int64(n), nil, fmt.Appendf(nil, `{"n":%d}`, n), nil)
	}
	r.put(b)
}

func (r *rig) appendValue(v string) {
	r.t.Helper()
	b := record.NewBuilder(record.None)
	b.Append(0, nil, []byte(v), nil)
	r.put(b)
}

func (r *rig) put(b *record.Builder) {
	r.t.Helper()
	raw, err := b.Build(0)
	if err == nil {
		_, err = r.log.Append(r.t.Context(), record.TopicPartition{Topic: "events"}, raw)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) tier() {
	r.t.Helper()
	r.tierWith(tiering.GapFail)
}

func (r *rig) tierWith(onGap tiering.GapPolicy) {
	r.t.Helper()
	tr, err := tiering.Open(r.t.Context(), tiering.Config{Source: r.log, Topic: "events", Table: r.table, Format: tiering.FormatJSON,
		UntilEnd: true, OnGap: onGap, DeadLetters: r.table /* none of these records is bad */})
	if err == nil {
		err = tr.Run(r.t.Context())
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// get reads a ticket to its end, or until there are enough rows.
func (r *rig) get(ticket string, enough int) (numbers []int64, last flight.Metadata, err error) {
	r.t.Helper()
	stream, err := r.client.DoGet(r.t.Context(), &aflight.Ticket{Ticket: []byte(ticket)})
	if err != nil {
		return nil, last, err
	}
	in, err := aflight.NewRecordReader(stream)
	if err != nil {
		return nil, last, err
	}
	defer in.Release()
	for len(numbers) < enough {
		rb, err := in.Read()
		if err == io.EOF {
			return numbers, last, nil
		}
		if err != nil {
			return numbers, last, err
		}
		if err := json.Unmarshal(in.LatestAppMetadata(), &last); err != nil {
			r.t.Fatal(err)
		}
		numbers = append(numbers, rb.Column(0).(*array.Int64).Int64Values()...)
	}
	return numbers, last, nil
}

func upTo(from, to int64) (out []int64) {
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

// A stream crosses the seam, says so, and goes on behind its token (I4).
func TestStream(t *testing.T) {
	r := newRig(t, flight.Config{})
	r.append(0, 10)
	r.tier()
	r.append(10, 15)
	got, last, err := r.get(`{"topic":"events","from":"0:4","columns":["n"]}`, 1000)
	if err != nil || !slices.Equal(got, upTo(4, 15)) || last.Side != "log" || last.Token == "" {
		t.Fatalf("%v, %+v, %v", got, last, err)
	}
	r.append(15, 18)
	got, _, err = r.get(fmt.Sprintf(`{"topic":"events","from":"token:%s","columns":["n"],"follow":true}`, last.Token), 3)
	if err != nil || !slices.Equal(got, upTo(15, 18)) {
		t.Fatalf("behind the token: %v, %v", got, err)
	}
	got, _, err = r.get(`{"topic":"events","from":"latest","columns":["n"]}`, 1)
	if err != nil || len(got) > 0 {
		t.Fatalf("at the end: %v, %v", got, err)
	}
}

// A filter, an order and several topics are asked for as anywhere else, and a token goes on behind them (I4).
func TestRequests(t *testing.T) {
	r := newRig(t, flight.Config{})
	r.append(0, 10)
	r.tier()
	r.append(10, 15)
	got, _, err := r.get(`{"topic":"events","where":"n > 7 AND n <= 12","columns":["n"],"maxRate":"1000000"}`, 1000)
	if err != nil || !slices.Equal(got, upTo(8, 13)) {
		t.Errorf("a filter: %v, %v", got, err)
	}
	if _, err := r.log.CreateTopic(t.Context(), "others", broker.TopicConfig{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{`"topic":"events"`, `"topics":["others","events"]`} {
		for _, order := range []string{"", "time"} {
			got, last, err := r.get(fmt.Sprintf(`{%s,"order":%q,"columns":["n"],"limit":4}`, what, order), 1000)
			if err != nil || !slices.Equal(got, upTo(0, 4)) {
				t.Errorf("%s by %q: %v, %v", what, order, got, err)
			}
			got, _, err = r.get(fmt.Sprintf(`{%s,"order":%q,"columns":["n"],"from":"token:%s"}`, what, order, last.Token), 1000)
			if err != nil || !slices.Equal(got, upTo(4, 15)) {
				t.Errorf("%s by %q, behind the token: %v, %v", what, order, got, err)
			}
		}
	}
}

func TestInfo(t *testing.T) {
	r := newRig(t, flight.Config{})
	r.append(0, 3)
	info, err := r.client.GetFlightInfo(t.Context(), &aflight.FlightDescriptor{Type: aflight.DescriptorPATH, Path: []string{"events"}})
	if err != nil || len(info.Endpoint) != 1 || !info.Ordered {
		t.Fatalf("%v %v", info, err)
	}
	schema, err := aflight.DeserializeSchema(info.Schema, nil)
	if err != nil || schema.Field(1).Name != "_offset" {
		t.Fatalf("%v %v", schema, err)
	}
	list, err := r.client.ListFlights(t.Context(), &aflight.Criteria{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := list.Recv()
	if err != nil || first.FlightDescriptor.Path[0] != "events" {
		t.Fatalf("%v %v", first, err)
	}
	if _, err := list.Recv(); err != io.EOF {
		t.Fatalf("a second flight: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	r := newRig(t, flight.Config{MaxStreams: 1})
	r.append(0, 3)
	for ticket, want := range map[string]codes.Code{
		`{"topic":"nothing"}`:                    codes.NotFound,
		`{}`:                                     codes.InvalidArgument,
		`[1]`:                                    codes.InvalidArgument,
		``:                                       codes.InvalidArgument,
		`{"topic":"events","form":"0:1"}`:        codes.InvalidArgument,
		`{"topic":"events","from":"yesterday"}`:  codes.InvalidArgument,
		`{"topic":"events","from":"token:zzzz"}`: codes.InvalidArgument,
		`{"topic":"events","limit":-1}`:          codes.InvalidArgument,
		`{"topic":"events","order":"size"}`:      codes.InvalidArgument,
		`{"topic":"events","where":"n ~ 1"}`:     codes.InvalidArgument,
		`{"topic":"events","maxRate":"fast"}`:    codes.InvalidArgument,
		`{"topic":"events","topics":["events"]}`: codes.InvalidArgument,
		`{"topics":["events",""]}`:               codes.InvalidArgument,
		`{"topic":"events","from":"0:99"}`:       codes.OutOfRange,
	} {
		if _, _, err := r.get(ticket, 1); status.Code(err) != want {
			t.Errorf("%s: %v, want %v", ticket, err, want)
		}
	}
	stream, err := r.client.DoGet(t.Context(), &aflight.Ticket{Ticket: []byte(`{"topic":"events","follow":true}`)})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.get(`{"topic":"events"}`, 1); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a second stream: %v", err)
	}
	d := &aflight.FlightDescriptor{Type: aflight.DescriptorPATH, Path: []string{"events"}}
	if _, err := r.client.GetFlightInfo(t.Context(), d); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("GetFlightInfo beside a stream: %v", err)
	}
	if _, err := r.client.GetSchema(t.Context(), d); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("GetSchema beside a stream: %v", err)
	}
	list, err := r.client.ListFlights(t.Context(), &aflight.Criteria{})
	if err == nil {
		_, err = list.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("ListFlights beside a stream: %v", err)
	}
}

// What a log keeps for itself, credentials of users among it, is shown to nobody who did not log in, by whatever call.
func TestInternalTopicsAreNotShown(t *testing.T) {
	r := newRig(t, flight.Config{})
	r.append(0, 3)
	const secret = "__ledgerlake_settings"
	if _, err := r.log.CreateTopic(t.Context(), secret, broker.TopicConfig{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	descriptors := []*aflight.FlightDescriptor{{Type: aflight.DescriptorPATH, Path: []string{secret}}}
	for _, ticket := range []string{`{"topic":"__ledgerlake_settings"}`, `{"topic":"\u005f_ledgerlake_settings","follow":true}`, `{"topics":["__ledgerlake_settings"]}`,
		`{"topics":["events","__ledgerlake_settings"],"order":"time"}`, `{"topic":"__not_there"}`} {
		if _, _, err := r.get(ticket, 1); status.Code(err) != codes.NotFound {
			t.Errorf("DoGet %s: %v", ticket, err)
		}
		descriptors = append(descriptors, &aflight.FlightDescriptor{Type: aflight.DescriptorCMD, Cmd: []byte(ticket)})
	}
	for _, d := range descriptors {
		if _, err := r.client.GetFlightInfo(t.Context(), d); status.Code(err) != codes.NotFound {
			t.Errorf("GetFlightInfo %v: %v", d, err)
		}
		if _, err := r.client.GetSchema(t.Context(), d); status.Code(err) != codes.NotFound {
			t.Errorf("GetSchema %v: %v", d, err)
		}
	}
	list, err := r.client.ListFlights(t.Context(), &aflight.Criteria{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		info, err := list.Recv()
		if err == io.EOF {
			break
		}
		if err != nil || info.FlightDescriptor.Path[0] != "events" {
			t.Fatalf("listed: %v, %v", info, err)
		}
	}
}
