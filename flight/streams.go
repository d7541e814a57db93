package flight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/where"
	"github.com/ledgerlake/ledgerlake/reader"
)

// ListFlights gives a flight for each topic that is not internal.
func (s *Server) ListFlights(_ *flight.Criteria, out flight.FlightService_ListFlightsServer) error {
	return s.patiently(func(p *patience) error { return s.list(out, p) })
}

func (s *Server) list(out flight.FlightService_ListFlightsServer, p *patience) error {
	infos, err := s.cfg.Engine.Topics(out.Context())
	if err != nil {
		return statusOf(err)
	}
	for _, t := range infos {
		if broker.Internal(t.Name) {
			continue
		}
		info, err := s.info(out.Context(), &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{t.Name}}, Command{Topic: t.Name})
		if errors.Is(err, broker.ErrUnknownTopic) {
			continue // deleted meanwhile
		}
		if err != nil {
			return statusOf(err)
		}
		if err := p.send(func() error { return out.Send(info) }); err != nil {
			return err
		}
	}
	return nil
}

// GetFlightInfo gives the schema and the ticket of a stream.
func (s *Server) GetFlightInfo(ctx context.Context, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	free, err := s.place()
	if err != nil {
		return nil, err
	}
	defer free()
	c, err := commandOf(d)
	if err != nil {
		return nil, statusOf(err)
	}
	info, err := s.info(ctx, d, c)
	return info, statusOf(err)
}

// GetSchema gives the columns of a stream.
func (s *Server) GetSchema(ctx context.Context, d *flight.FlightDescriptor) (*flight.SchemaResult, error) {
	free, err := s.place()
	if err != nil {
		return nil, err
	}
	defer free()
	c, err := commandOf(d)
	if err != nil {
		return nil, statusOf(err)
	}
	schema, err := s.schema(ctx, c)
	if err != nil {
		return nil, statusOf(err)
	}
	return &flight.SchemaResult{Schema: flight.SerializeSchema(schema, memory.DefaultAllocator)}, nil
}

func commandOf(d *flight.FlightDescriptor) (Command, error) {
	switch {
	case d.GetType() == flight.DescriptorCMD:
		return parse(d.GetCmd())
	case len(d.GetPath()) == 1 && d.GetPath()[0] != "":
		return Command{Topic: d.GetPath()[0]}, nil
	}
	return Command{}, fmt.Errorf("%w: want a descriptor with the path [TOPIC], or a command", reader.ErrBadRequest)
}

func (s *Server) info(ctx context.Context, d *flight.FlightDescriptor, c Command) (*flight.FlightInfo, error) {
	schema, err := s.schema(ctx, c)
	if err != nil {
		return nil, err
	}
	ticket, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return &flight.FlightInfo{
		Schema:           flight.SerializeSchema(schema, memory.DefaultAllocator),
		FlightDescriptor: d,
		Endpoint:         []*flight.FlightEndpoint{{Ticket: &flight.Ticket{Ticket: ticket}}},
		TotalRecords:     -1, // known to nobody before it is read
		TotalBytes:       -1,
		Ordered:          true,
	}, nil
}

func (s *Server) schema(ctx context.Context, c Command) (*arrow.Schema, error) {
	cursor, err := s.open(ctx, c, &reader.Gaps{})
	if err != nil {
		return nil, err
	}
	return cursor.Schema(), cursor.Close()
}

func (s *Server) open(ctx context.Context, c Command, gaps *reader.Gaps) (reader.Read, error) {
	if err := broker.Shown(c.topics()...); err != nil {
		return nil, err
	}
	return c.Open(ctx, c.topics(), func(topic string, cfg *reader.Config) {
		if t, ok := s.cfg.Table(topic); ok {
			cfg.Table = t
		}
		cfg.Source = s.cfg.Engine
		cfg.OnGap = func(g reader.Gap) { gaps.Add(topic, g) }
	})
}

// place takes a place of those that are for streams: whatever opens a cursor needs one, if only to know its schema.
// The error is a status already.
func (s *Server) place() (free func(), err error) {
	select {
	case s.streams <- struct{}{}:
		return func() { <-s.streams }, nil
	default:
		return nil, status.Errorf(codes.ResourceExhausted, "%d streams are open, which is the limit: try again later", s.cfg.MaxStreams)
	}
}

// DoGet streams what a ticket asks for.
func (s *Server) DoGet(t *flight.Ticket, out flight.FlightService_DoGetServer) error {
	return s.patiently(func(p *patience) error { return s.stream(t, patientBatches{out, p}) })
}

func (s *Server) stream(t *flight.Ticket, out flight.FlightService_DoGetServer) error {
	c, err := parse(t.GetTicket())
	if err != nil {
		return statusOf(err)
	}
	gaps := &reader.Gaps{All: c.Gaps}
	cursor, err := s.open(out.Context(), c, gaps)
	if err != nil {
		return statusOf(err)
	}
	return statusOf(errors.Join(copyBatches(out, cursor, gaps), cursor.Close()))
}

func copyBatches(out flight.FlightService_DoGetServer, cursor reader.Read, gaps *reader.Gaps) error {
	w := flight.NewRecordWriter(out, ipc.WithSchema(cursor.Schema()), ipc.WithAllocator(memory.DefaultAllocator))
	for {
		rb, err := cursor.Next(out.Context())
		told := gaps.Take()
		if errors.Is(err, io.EOF) {
			if len(told) > 0 {
				if err := write(w, empty(cursor.Schema()), cursor, told); err != nil {
					return err
				}
			}
			return w.Close() // which sends the schema if there was no batch
		}
		if err != nil {
			return err // without Close: a client must not take this for the end
		}
		if err := write(w, rb, cursor, told); err != nil {
			return err
		}
	}
}

func write(w *flight.Writer, rb arrow.RecordBatch, cursor reader.Read, told []reader.TopicGap) error {
	m := Metadata{Token: cursor.Token(), Side: "log", Gaps: told}
	if cursor.InLake() {
		m.Side = "lake"
	}
	meta, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := w.WriteWithAppMetadata(rb, meta); err != nil {
		return fmt.Errorf("send a batch: %w", err)
	}
	return nil
}

// empty is a batch without rows, which bears metadata.
func empty(schema *arrow.Schema) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	return b.NewRecordBatch()
}

// statusOf gives errors the codes that clients tell them apart by.
func statusOf(err error) error {
	var beyond *broker.OutOfRangeError
	var missing *reader.MissingError
	var widened *reader.WidenedError
	code := codes.Internal
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, broker.ErrUnknownTopic):
		code = codes.NotFound
	case errors.Is(err, reader.ErrBadRequest), errors.Is(err, reader.ErrBadToken), errors.Is(err, reader.ErrBadBound), errors.Is(err, where.ErrSyntax), errors.Is(err, reader.ErrNotReplayable):
		code = codes.InvalidArgument
	case errors.As(err, &beyond):
		code = codes.OutOfRange
	case errors.As(err, &missing):
		code = codes.DataLoss
	case errors.As(err, &widened):
		code = codes.Aborted // what gRPC has for "begin again at a higher level"
	}
	return status.Error(code, err.Error())
}
