package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/where"
	"github.com/ledgerlake/ledgerlake/reader"
)

const (
	trailerToken = "Ledgerlake-Token"
	trailerError = "Ledgerlake-Error"
	trailerLost  = "Ledgerlake-Lost"
	// keepAlive is how often a quiet event stream says that it is there.
	keepAlive = 10 * time.Second
	// rowsPiece is about how many bytes of rows are made before they go out: a batch may be large, and become larger as text.
	rowsPiece = 64 << 10
	// keepBuffer is the largest buffer, in bytes, that a stream keeps behind a batch: one row may be large.
	keepBuffer = 1 << 20
)

// records streams a topic. Once the first byte is out, the only way to say that something went wrong is the
// trailer, and for an event stream an event.
func (s *Server) records(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		fail(w, http.StatusServiceUnavailable, fmt.Errorf("%d record streams are open, which is the limit: try again, or read through the Kafka port", s.cfg.MaxStreams))
		return
	}
	events := strings.Contains(r.Header.Get("Accept"), "text/event-stream")
	want, topics, err := request(r, events)
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	if err := broker.Shown(topics...); err != nil {
		fail(w, statusOf(err), err)
		return
	}
	gaps := reader.Gaps{All: events || want.Gaps}
	c, err := want.Open(r.Context(), topics, func(topic string, cfg *reader.Config) {
		if t, ok := s.cfg.Table(topic); ok {
			cfg.Table = t
		}
		cfg.Source = s.cfg.Engine
		cfg.OnGap = func(g reader.Gap) { gaps.Add(topic, g) }
	})
	if err != nil {
		fail(w, statusOf(err), err)
		return
	}
	defer c.Close()
	var out output = &lines{w: w, gaps: want.Gaps}
	if events {
		out = &eventStream{w: w}
	}
	out.begin()
	err = copyRows(r.Context(), c, out, &gaps, events)
	if r.Context().Err() != nil {
		return // nobody listens
	}
	out.end(c.Token(), err)
}

// statusOf tells a reader's refusals apart.
func statusOf(err error) int {
	var missing *reader.MissingError
	var beyond *broker.OutOfRangeError
	switch {
	case errors.Is(err, broker.ErrUnknownTopic):
		return http.StatusNotFound
	case errors.As(err, &missing):
		return http.StatusGone
	case errors.As(err, &beyond):
		return http.StatusRequestedRangeNotSatisfiable
	case errors.Is(err, reader.ErrBadToken), errors.Is(err, reader.ErrBadRequest), errors.Is(err, reader.ErrBadBound), errors.Is(err, where.ErrSyntax), errors.Is(err, reader.ErrNotReplayable):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// request reads the topics and the parameters of a stream. Unknown ones are refused: a typing mistake must not give other
// rows.
func request(r *http.Request, events bool) (want reader.Request, topics []string, err error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return want, nil, fmt.Errorf("query: %w", err)
	}
	if topic := r.PathValue("topic"); topic != "" {
		topics = []string{topic}
	}
	for name, values := range q {
		if len(values) != 1 {
			return want, nil, fmt.Errorf("parameter %s is there %d times", name, len(values))
		}
		v := values[0]
		switch name {
		case "from":
			want.From = v
		case "until":
			want.Until = v
		case "partition":
			want.Partitions, err = parsePartitions(v)
		case "columns":
			want.Columns = strings.Split(v, ",")
		case "where":
			want.Where = v
		case "order":
			want.Order = v
		case "max-rate":
			want.MaxRate = v
		case "topics":
			if topics != nil {
				err = errors.New("the path has a topic")
			}
			topics = strings.Split(v, ",")
		case "limit":
			want.Limit, err = strconv.ParseInt(v, 10, 64)
			if err == nil && want.Limit < 1 {
				err = errors.New("want a number above 0")
			}
		case "follow":
			want.Follow, err = strconv.ParseBool(v)
		case "skip-missing":
			want.SkipMissing, err = strconv.ParseBool(v)
		case "gaps":
			want.Gaps, err = strconv.ParseBool(v)
		default:
			err = errors.New("no such parameter: want from, until, partition, columns, where, order, max-rate, limit, follow, skip-missing or gaps")
		}
		if err != nil {
			return want, nil, fmt.Errorf("parameter %s=%s: %w", name, v, err)
		}
	}
	// A browser that lost its connection names the last event that it got.
	if id := r.Header.Get("Last-Event-ID"); events && id != "" {
		want.From = "token:" + id
	}
	if topics == nil {
		return want, nil, errors.New("parameter topics: want topics, separated by commas")
	}
	return want, topics, nil
}

func parsePartitions(s string) ([]int32, error) {
	var out []int32
	for _, p := range strings.Split(s, ",") {
		n, err := strconv.ParseInt(p, 10, 32)
		if err != nil || n < 0 {
			return nil, errors.New("want partition numbers, separated by commas")
		}
		out = append(out, int32(n))
	}
	return out, nil
}

// output is a form of a stream.
type output interface {
	begin()
	// rows writes and flushes some. The token is empty where more of their batch come.
	rows(ndjson []byte, inLake bool, token string) error
	gap(g reader.TopicGap) error
	alive() error
	end(token string, err error)
}

// copyRows streams until the end, an error, or the client's leave.
func copyRows(ctx context.Context, c reader.Read, out output, gaps *reader.Gaps, events bool) error {
	var buf []byte
	for {
		wait, cancel := ctx, context.CancelFunc(func() {})
		if events {
			wait, cancel = context.WithTimeout(ctx, keepAlive)
		}
		rb, err := c.Next(wait)
		quiet := errors.Is(err, context.DeadlineExceeded) && wait.Err() != nil && ctx.Err() == nil
		cancel()
		for _, g := range gaps.Take() {
			if err := out.gap(g); err != nil {
				return err
			}
		}
		switch {
		case quiet: // the cursor is where it was
			err = out.alive()
		case errors.Is(err, io.EOF):
			return nil
		case err == nil:
			buf, err = copyBatch(buf, rb, c, out)
		}
		if err != nil {
			return err
		}
	}
}

// copyBatch writes the rows of a batch piece by piece. It gives its buffer back.
func copyBatch(buf []byte, rb arrow.RecordBatch, c reader.Read, out output) (_ []byte, err error) {
	if cap(buf) > keepBuffer {
		buf = nil
	}
	for row, token := 0, ""; row < int(rb.NumRows()); {
		if buf, row, err = reader.AppendNDJSONPiece(buf[:0], rb, row, rowsPiece); err != nil {
			return buf, err
		}
		if row == int(rb.NumRows()) {
			token = c.Token()
		}
		if err := out.rows(buf, c.InLake(), token); err != nil {
			return buf, err
		}
	}
	return buf, nil
}

// lines is NDJSON: rows, and gaps where they are asked for. In the trailers are the place to go on from, and how many
// offsets are lost.
type lines struct {
	w    http.ResponseWriter
	gaps bool
	lost int64
}

func (l *lines) begin() {
	h := l.w.Header()
	h.Set("Content-Type", "application/x-ndjson")
	h.Set("Cache-Control", "no-store")
	h.Set("Trailer", strings.Join([]string{trailerToken, trailerError, trailerLost}, ", "))
}

func (l *lines) rows(ndjson []byte, _ bool, _ string) error {
	if _, err := l.w.Write(ndjson); err != nil {
		return err
	}
	return http.NewResponseController(l.w).Flush()
}

// gap goes out with the rows behind it, as a line of its own.
func (l *lines) gap(g reader.TopicGap) error {
	if g.Reason == reader.GapLost {
		l.lost += int64(g.To - g.From)
	}
	if !l.gaps {
		return nil
	}
	raw, err := json.Marshal(map[string]reader.TopicGap{"_gap": g})
	if err == nil {
		_, err = l.w.Write(append(raw, '\n'))
	}
	return err
}

func (l *lines) alive() error { return nil }

func (l *lines) end(token string, err error) {
	if l.lost > 0 {
		l.w.Header().Set(trailerLost, strconv.FormatInt(l.lost, 10))
	}
	if err != nil {
		l.w.Header().Set(trailerError, strings.Map(printable, err.Error()))
		if _, widened := errors.AsType[*reader.WidenedError](err); widened {
			l.w.Header().Set(trailerToken, token) // all rows before it are out
		}
		return
	}
	l.w.Header().Set(trailerToken, token)
}

// printable keeps an error inside of one header line.
func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return ' '
	}
	return r
}

// eventStream is server-sent events: rows as messages, and what happens beside them as named events.
type eventStream struct {
	w      http.ResponseWriter
	buf    bytes.Buffer
	inLake bool
	any    bool
}

func (e *eventStream) begin() {
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies hold streams back otherwise
	_ = e.send()                     // the browser learns that it is connected
}

func (e *eventStream) rows(ndjson []byte, inLake bool, token string) error {
	if !e.any || inLake != e.inLake {
		side := "log"
		if inLake {
			side = "lake"
		}
		fmt.Fprintf(&e.buf, "event: side\ndata: %q\n\n", side)
		e.any, e.inLake = true, inLake
	}
	// Only the last row of a batch has the token: it names the place behind all of them.
	rest := bytes.TrimSuffix(ndjson, []byte("\n"))
	for more := true; more; {
		var row []byte
		row, rest, more = bytes.Cut(rest, []byte("\n"))
		if !more && token != "" {
			fmt.Fprintf(&e.buf, "id: %s\n", token)
		}
		e.buf.WriteString("data: ")
		e.buf.Write(row)
		e.buf.WriteString("\n\n")
	}
	return e.send()
}

func (e *eventStream) gap(g reader.TopicGap) error {
	raw, err := json.Marshal(g)
	fmt.Fprintf(&e.buf, "event: gap\ndata: %s\n\n", raw)
	return err // goes out with the rows behind it
}

func (e *eventStream) alive() error {
	e.buf.WriteString(": quiet\n\n")
	return e.send()
}

func (e *eventStream) end(token string, err error) {
	if err != nil {
		fmt.Fprintf(&e.buf, "event: failed\ndata: %q\n\n", strings.Map(printable, err.Error()))
	} else {
		fmt.Fprintf(&e.buf, "event: end\ndata: %q\n\n", token)
	}
	_ = e.send() // the client may be gone
}

func (e *eventStream) send() error {
	if _, err := e.buf.WriteTo(e.w); err != nil {
		return err
	}
	return http.NewResponseController(e.w).Flush()
}
