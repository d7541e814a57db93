package fsm

import "fmt"

// Encode gives a command's bytes in the log.
func Encode(c Command) []byte {
	w := &writer{b: []byte{format, byte(c.kind())}}
	w.str(c.TableName())
	c.encode(w)
	return w.b
}

// Decode reads what Encode wrote.
func Decode(b []byte) (Command, error) {
	if len(b) < 2 || b[0] < oldFormat || b[0] > format {
		return nil, fmt.Errorf("%w: unknown format; a newer program wrote it, upgrade this node", ErrCorrupt)
	}
	r := &reader{b: b[2:], format: b[0]}
	table := r.str()
	var c Command
	switch kind(b[1]) {
	case kindOpen:
		c = decodeOpen(r, table)
	case kindLease:
		c = decodeLease(r, table)
	case kindBatch:
		c = decodeBatch(r, table)
	case kindPublished:
		c = decodePublished(r, table)
	case kindForeign:
		f := &Foreign{Table: table, Version: r.int(), Hash: r.str(), Stamp: r.int(), Positions: r.numbers(),
			Removed: r.sums(), Shape: decodeShape(r), Reshaped: r.bool()}
		if r.format >= 4 {
			f.Blind = r.bool()
		}
		c = f
	default:
		return nil, fmt.Errorf("%w: unknown command %d; a newer program wrote it, upgrade this node", ErrCorrupt, b[1])
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Open) encode(w *writer) {
	w.int(c.Version)
	w.str(c.Hash)
	c.Shape.encode(w)
	w.int(c.Stamp)
	w.numbers(c.Positions)
	w.int(c.Replace)
	w.str(c.ReplaceHash)
}

func decodeOpen(r *reader, table string) *Open {
	return &Open{Table: table, Version: r.int(), Hash: r.str(), Shape: decodeShape(r), Stamp: r.int(),
		Positions: r.numbers(), Replace: r.int(), ReplaceHash: r.str()}
}

func (c *Lease) encode(w *writer) {
	w.str(c.App)
	w.count(len(c.Partitions))
	for _, p := range c.Partitions {
		w.int(int64(p))
	}
	w.str(c.Owner)
}

func decodeLease(r *reader, table string) *Lease {
	c := &Lease{Table: table, App: r.str()}
	for range r.count(1) {
		c.Partitions = append(c.Partitions, int32(r.int()))
	}
	c.Owner = r.str()
	return c
}

func (c *Batch) encode(w *writer) {
	w.str(c.TxnID)
	w.int(c.Time)
	w.str(c.Engine)
	w.count(len(c.Requests))
	for i := range c.Requests {
		c.Requests[i].encode(w)
	}
	w.bool(c.Open)
	w.bool(c.Done != nil)
	if c.Done != nil {
		c.Done.encode(w)
	}
}

func decodeBatch(r *reader, table string) *Batch {
	c := &Batch{Table: table, TxnID: r.str(), Time: r.int(), Engine: r.str()}
	for range r.count(minRequest) {
		c.Requests = append(c.Requests, decodeRequest(r))
	}
	if r.format >= 4 {
		c.Open = r.bool()
		if r.bool() {
			c.Done = decodePublished(r, table)
		}
	}
	return c
}

func decodePublished(r *reader, table string) *PublishedAt {
	return &PublishedAt{Table: table, Version: r.int(), TxnID: r.str(), Hash: r.str()}
}

func (c *PublishedAt) encode(w *writer) {
	w.int(c.Version)
	w.str(c.TxnID)
	w.str(c.Hash)
}

func (c *Foreign) encode(w *writer) {
	w.int(c.Version)
	w.str(c.Hash)
	w.int(c.Stamp)
	w.numbers(c.Positions)
	w.sums(c.Removed)
	c.Shape.encode(w)
	w.bool(c.Reshaped)
	w.bool(c.Blind)
}

func (s Shape) encode(w *writer) {
	w.str(s.Incarnation)
	w.str(s.Schema)
	w.str(s.Meta)
	w.str(s.Proto)
	w.bool(s.Stamped)
}

func decodeShape(r *reader) Shape {
	return Shape{Incarnation: r.str(), Schema: r.str(), Meta: r.str(), Proto: r.str(), Stamped: r.bool()}
}

// minRequest is the least number of bytes of an encoded request.
const minRequest = 14

func (q *Request) encode(w *writer) {
	w.str(q.ID)
	w.str(q.App)
	w.count(len(q.Ranges))
	for _, x := range q.Ranges {
		w.int(int64(x.Partition))
		w.int(x.From)
		w.int(x.To)
		w.int(x.Epoch)
	}
	w.str(q.Incarnation)
	w.str(q.Schema)
	w.str(q.Meta)
	w.str(q.Proto)
	w.bytes(q.Lines)
	w.str(q.Operation)
	w.texts(q.Parameters)
	w.int(q.Read)
	w.sums(q.Removes)
	w.bool(q.Change != nil)
	if q.Change != nil {
		q.Change.encode(w)
	}
	w.str(q.Reject)
	w.str(q.Staged.Key)
	w.str(q.Staged.Hash)
	w.int(q.Staged.Size)
	w.texts(q.Metrics)
	w.bool(q.Planned)
	w.bool(q.Early)
	w.bool(q.Unread)
	w.numbers(q.Moves)
	w.int(int64(q.All))
}

func decodeRequest(r *reader) Request {
	q := Request{ID: r.str(), App: r.str()}
	for range r.count(4) {
		q.Ranges = append(q.Ranges, Range{Partition: int32(r.int()), From: r.int(), To: r.int(), Epoch: r.int()})
	}
	q.Incarnation, q.Schema, q.Meta, q.Proto = r.str(), r.str(), r.str(), r.str()
	q.Lines, q.Operation, q.Parameters = r.bytes(), r.str(), r.texts()
	q.Read, q.Removes = r.int(), r.sums()
	if r.bool() {
		s := decodeShape(r)
		q.Change = &s
	}
	q.Reject = r.str()
	if r.format == oldFormat {
		q.Planned, q.loose = len(q.Removes) > 0, true
		return q
	}
	q.Staged = Staged{Key: r.str(), Hash: r.str(), Size: r.int()}
	q.Metrics, q.Planned, q.Early = r.texts(), r.bool(), r.bool()
	if r.format >= 3 {
		q.Unread = r.bool()
	} else {
		q.loose = true
	}
	if r.format >= 4 {
		if m := r.numbers(); len(m) > 0 {
			q.Moves = m
		}
		if q.All = Extent(r.int()); q.All > AllCommits {
			r.fail("unknown extent of a plan")
		}
	}
	return q
}

// Size is about the number of bytes of the request in the log.
func (q *Request) Size() int {
	n := 128 + len(q.Lines) + len(q.Ranges)*12 + len(q.Reject) + len(q.Staged.Key) + 8*len(q.Removes)
	for id := range q.Moves {
		n += len(id) + 12
	}
	for _, m := range []map[string]string{q.Parameters, q.Metrics} {
		for k, v := range m {
			n += len(k) + len(v) + 4
		}
	}
	return n
}

func (a Answer) encode(w *writer) {
	w.int(int64(a.Code))
	w.int(a.Version)
	w.int(int64(a.Partition))
	w.int(a.At)
	w.str(a.Text)
}

func decodeAnswer(r *reader) Answer {
	a := Answer{Code: Code(r.int()), Version: r.int(), Partition: int32(r.int()), At: r.int(), Text: r.str()}
	if a.Code >= codes {
		r.fail("unknown answer")
	}
	return a
}
