package bench

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/deltalog"
)

// shape is one kind of message, and the table that it goes into.
type shape struct {
	name       string
	about      string
	unique     string                      // a string column whose values tell the records apart
	partition  []string                    // columns that divide the table: none, or one of texts
	divides    func(message []byte) []byte // its value
	transforms []string                    // in kafka-delta-ingest's grammar
	fields     string                      // columns as a Delta schema; empty: those of a sample
	avro       string                      // schema of values that are single Avro objects; empty: JSON
	make       func(seed uint64) func(buf []byte) []byte
}

// shapes are the messages that scenario ingest knows.
func shapes() []shape {
	return []shape{
		{
			name: "web", about: "229 bytes: the web requests of kafka-delta-ingest's own example, with the transforms of its README",
			unique: "uuid", partition: []string{"date"}, divides: func(m []byte) []byte { return textOf(m, "timestamp")[:10] }, fields: webFields, make: webRequests(0), transforms: webTransforms,
		},
		{
			name: "web100", about: "241 bytes: the same with a column of 100 values, by which the table is divided",
			unique: "uuid", partition: []string{"site"}, divides: func(m []byte) []byte { return textOf(m, "site") }, fields: webSiteFields, make: webRequests(100), transforms: webTransforms,
		},
		{name: "event", about: "690 bytes: shop events, 19 columns with two levels of objects and a list", unique: "event_id", make: shopEvents(165, false)},
		{name: "shuffled", about: "690 bytes: shop events, keys of each message in another order", unique: "event_id", make: shopEvents(165, true)},
		{name: "event2k", about: "2 KB: shop events with a long text", unique: "event_id", make: shopEvents(1500, false)},
		{name: "event3k", about: "3 KB: shop events with a longer text", unique: "event_id", make: shopEvents(2500, false)},
		{name: "event1k", about: "1.2 KB: shop events with a text", unique: "event_id", make: shopEvents(680, false)},
		{name: "wide", about: "1 KB: 40 columns, half of them in four objects, two levels deep", unique: "id", make: wideMessages},
		{name: "avro", about: "190 bytes: web requests as single Avro objects, 8 columns", unique: "uuid", fields: avroFields, avro: avroSchema, make: avroRequests},
	}
}

// shapeOf finds a shape by its name.
func shapeOf(name string) (shape, error) {
	for _, s := range shapes() {
		if s.name == name {
			return s, nil
		}
	}
	return shape{}, fmt.Errorf("bench: no message shape %q", name)
}

var webTransforms = []string{
	"date: substr(meta.producer.timestamp, `0`, `10`)", "meta.kafka.offset: kafka.offset",
	"meta.kafka.partition: kafka.partition", "meta.kafka.topic: kafka.topic",
}

// webSiteFields are webFields and the site.
var webSiteFields = strings.TrimSuffix(webFields, "]}") + `,{"name":"site","type":"string","nullable":true,"metadata":{}}]}`

const webFields = `{"type":"struct","fields":[
{"name":"meta","nullable":true,"metadata":{},"type":{"type":"struct","fields":[
 {"name":"producer","nullable":true,"metadata":{},"type":{"type":"struct","fields":[{"name":"timestamp","type":"string","nullable":true,"metadata":{}}]}},
 {"name":"kafka","nullable":true,"metadata":{},"type":{"type":"struct","fields":[{"name":"offset","type":"long","nullable":true,"metadata":{}},
  {"name":"topic","type":"string","nullable":true,"metadata":{}},{"name":"partition","type":"integer","nullable":true,"metadata":{}}]}}]}},
{"name":"method","type":"string","nullable":true,"metadata":{}},{"name":"session_id","type":"string","nullable":true,"metadata":{}},
{"name":"status","type":"integer","nullable":true,"metadata":{}},{"name":"url","type":"string","nullable":true,"metadata":{}},
{"name":"uuid","type":"string","nullable":true,"metadata":{}},{"name":"date","type":"string","nullable":true,"metadata":{}}]}`

// columns gives the table's columns.
func (s shape) columns() (*deltalog.StructType, error) {
	if s.fields != "" {
		return deltalog.ParseSchema(s.fields)
	}
	next := s.make(1)
	var samples [][]byte
	for range 1000 {
		samples = append(samples, next(nil))
	}
	schema, err := decode.InferJSON(samples)
	if err != nil {
		return nil, err
	}
	return deltalog.FromArrow(schema)
}

// id finds the value of the unique column in a message that the shape has made; behind it stands that of the column
// that divides the table, so that a row under another one's value is another record.
func (s shape) id(message []byte) []byte {
	if s.avro != "" {
		return avroID(message)
	}
	id := textOf(message, s.unique)
	if s.divides == nil {
		return id
	}
	return slices.Concat(id, []byte{'|'}, s.divides(message))
}

// textOf finds the first text of a name in a message without escapes.
func textOf(message []byte, name string) []byte {
	_, rest, _ := bytes.Cut(message, []byte(`"`+name+`":"`))
	text, _, _ := bytes.Cut(rest, []byte{'"'})
	return text
}

// content says which records a table or a topic has, whatever their order: their number, and the sum of the hashes of
// their ids. A record that is lost, doubled or put in place of another changes it.
type content struct {
	records int64
	sum     uint64
}

func (c *content) add(id []byte) {
	h := fnv.New64a()
	_, _ = h.Write(id)
	c.records++
	c.sum += h.Sum64()
}

// webRequests makes messages of the shape that kafka-delta-ingest's example has; with sites above 0, of as many sites.
func webRequests(sites int) func(uint64) func([]byte) []byte {
	return func(seed uint64) func([]byte) []byte { return webRequestsOf(sites, seed) }
}

func webRequestsOf(sites int, seed uint64) func([]byte) []byte {
	rng := rand.New(rand.NewPCG(seed, 2))
	methods := []string{"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"}
	hosts := []string{"http://www.search.example", "http://www.video.example", "http://www.shop.example.org", "http://news.example"}
	statuses := []int{200, 201, 204, 301, 400, 401, 404, 500}
	at := start()
	return func(b []byte) []byte {
		at = at.Add(time.Millisecond)
		b = append(b, `{"meta":{"producer":{"timestamp":"`...)
		b = at.AppendFormat(b, "2006-01-02T15:04:05.000000+00:00")
		b = append(append(b, `"}},"method":"`...), methods[rng.IntN(len(methods))]...)
		b = appendUUID(append(b, `","session_id":"`...), rng)
		b = strconv.AppendInt(append(b, `","status":`...), int64(statuses[rng.IntN(len(statuses))]), 10)
		if sites > 0 {
			b = fmt.Appendf(b, `,"site":"s%03d"`, rng.IntN(sites))
		}
		b = append(append(b, `,"url":"`...), hosts[rng.IntN(len(hosts))]...)
		b = appendUUID(append(b, `","uuid":"`...), rng)
		return append(b, `"}`...)
	}
}

func appendUUID(b []byte, rng *rand.Rand) []byte {
	hi, lo := rng.Uint64(), rng.Uint64()
	return fmt.Appendf(b, "%08x-%04x-%04x-%04x-%012x", hi>>32, hi>>16&0xffff, hi&0xffff, lo>>48, lo&0xffffffffffff)
}

func shopEvents(pad int, shuffle bool) func(uint64) func([]byte) []byte {
	return func(seed uint64) func([]byte) []byte {
		events := NewEvents(seed, start(), time.Millisecond)
		events.pad = pad
		rng := rand.New(rand.NewPCG(seed, 3))
		var key, plain []byte
		return func(b []byte) []byte {
			key, plain = events.Next(key[:0], plain[:0])
			if !shuffle {
				return append(b, plain...)
			}
			return appendShuffled(b, plain, rng)
		}
	}
}

// appendShuffled appends a JSON object with its members in a random order.
func appendShuffled(b, object []byte, rng *rand.Rand) []byte {
	var members [][]byte
	depth, from, quoted := 0, 1, false
	for i := 1; i < len(object); i++ {
		switch c := object[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case depth == 0 && (c == ',' || c == '}'):
			members = append(members, object[from:i])
			from = i + 1
		case c == '}' || c == ']':
			depth--
		}
	}
	rng.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	b = append(b, '{')
	b = append(b, bytes.Join(members, []byte{','})...)
	return append(b, '}')
}
