package web

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/reader"
)

// oneBatch is a read of one batch, which holds the place "end".
type oneBatch struct {
	reader.Read
	rb arrow.RecordBatch
}

func (o *oneBatch) Next(context.Context) (rb arrow.RecordBatch, err error) {
	if o.rb == nil {
		return nil, io.EOF
	}
	rb, o.rb = o.rb, nil
	return rb, nil
}

func (o *oneBatch) Token() string { return "end" }
func (o *oneBatch) InLake() bool  { return true }

// flushes notes what a client is sent at one time.
type flushes struct {
	http.ResponseWriter
	waiting, largest, count int
	all                     bytes.Buffer
}

func (f *flushes) Write(b []byte) (int, error) {
	f.waiting += len(b)
	f.largest = max(f.largest, f.waiting)
	return f.all.Write(b)
}

func (f *flushes) FlushError() error {
	f.waiting = 0
	f.count++
	return nil
}

// A large batch goes out in pieces, whole rows each, and only its end has a token.
func TestLargeBatchGoesOutInPieces(t *testing.T) {
	const rows, size = 5000, 1000
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for range rows {
		b.Append(strings.Repeat("x", size))
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.BinaryTypes.String}}, nil)
	for _, events := range []bool{false, true} {
		to := &flushes{}
		var out output = &lines{w: to}
		if events {
			out = &eventStream{w: to}
		}
		read := &oneBatch{rb: array.NewRecordBatch(schema, []arrow.Array{b.NewArray()}, rows)}
		if !events {
			for range rows { // the builder is empty again
				b.Append(strings.Repeat("x", size))
			}
		}
		if err := copyRows(t.Context(), read, out, &reader.Gaps{}, events); err != nil {
			t.Fatal(err)
		}
		if most := 2 * rowsPiece; to.largest > most || to.count < rows*size/most {
			t.Errorf("events %v: %d pieces, the largest of %d bytes", events, to.count, to.largest)
		}
		got := to.all.String()
		if n := strings.Count(got, `{"v":"`+strings.Repeat("x", size)+`"}`+"\n"); n != rows {
			t.Errorf("events %v: %d rows", events, n)
		}
		if n := strings.Count(got, "id: "); events && (n != 1 || strings.Index(got, "id: end") < len(got)-2*size) {
			t.Errorf("%d tokens, the first at %d of %d", n, strings.Index(got, "id: "), len(got))
		}
	}
}
