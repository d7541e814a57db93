package bench

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// Events makes shop events as JSON objects of about 690 bytes, the same for the same seed: 19 columns with two
// levels of objects and a list, in one key order.
type Events struct {
	rng  *rand.Rand
	pad  int
	n    int64
	at   time.Time
	step time.Duration
}

// NewEvents starts a stream of events; each is step later than the one before.
func NewEvents(seed uint64, start time.Time, step time.Duration) *Events {
	return &Events{rng: rand.New(rand.NewPCG(seed, 1)), at: start, step: step, pad: 165}
}

var (
	eventKinds = []string{"page_view", "page_view", "page_view", "search", "add_to_cart", "checkout", "payment", "refund"}
	countries  = []string{"DE", "FR", "US", "JP", "BR", "IN", "GB", "NL", "SE", "KE"}
	cities     = []string{"Berlin", "Lyon", "Austin", "Osaka", "Recife", "Pune", "Leeds", "Delft", "Malmo", "Nairobi"}
	tagWords   = []string{"promo", "mobile", "returning", "gift", "express", "newsletter", "beta"}
	systems    = []string{"linux", "android", "ios", "windows", "macos"}
	agents     = []string{"Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/128.0", "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) Safari/604.1", "okhttp/4.12.0 (Android 14; Pixel 8)"}
)

const padLetters = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-_"

// Next appends the key and the value of the next event to the two buffers.
func (e *Events) Next(key, value []byte) (k, v []byte) {
	r := e.rng
	user := r.Int64N(100_000)
	place := r.IntN(len(countries))
	kind := eventKinds[r.IntN(len(eventKinds))]
	key = strconv.AppendInt(append(key, "user-"...), user, 10)
	v = append(value, `{"event_id":"`...)
	v = fmt.Appendf(v, "%016x%016x", r.Uint64(), r.Uint64())
	v = append(v, `","seq":`...)
	v = strconv.AppendInt(v, e.n, 10)
	v = append(v, `,"event_time":"`...)
	v = e.at.UTC().AppendFormat(v, "2006-01-02T15:04:05.000Z")
	v = append(v, `","kind":"`...)
	v = append(v, kind...)
	v = append(v, `","user_id":`...)
	v = strconv.AppendInt(v, user, 10)
	v = append(v, `,"session":"`...)
	v = fmt.Appendf(v, "s-%08x", r.Uint32())
	v = append(v, `","amount":`...)
	v = strconv.AppendFloat(v, float64(r.IntN(50_000))/100, 'f', 2, 64)
	v = append(v, `,"quantity":`...)
	v = strconv.AppendInt(v, int64(1+r.IntN(9)), 10)
	v = append(v, `,"member":`...)
	v = strconv.AppendBool(v, r.IntN(3) == 0)
	v = append(v, `,"geo":{"country":"`...)
	v = append(v, countries[place]...)
	v = append(v, `","city":"`...)
	v = append(v, cities[place]...)
	v = append(v, `","lat":`...)
	v = strconv.AppendFloat(v, float64(r.IntN(180_000)-90_000)/1000, 'f', 3, 64)
	v = append(v, `},"tags":[`...)
	for i := range r.IntN(4) {
		if i > 0 {
			v = append(v, ',')
		}
		v = append(append(append(v, '"'), tagWords[r.IntN(len(tagWords))]...), '"')
	}
	v = append(v, `],"url":"https://shop.example/p/`...)
	v = strconv.AppendInt(v, r.Int64N(50_000), 10)
	v = append(v, `","referrer":`...)
	if r.IntN(3) == 0 {
		v = append(v, `null`...)
	} else {
		v = append(append(append(v, `"https://search.example/?q=`...), tagWords[r.IntN(len(tagWords))]...), '"')
	}
	v = append(v, `,"ip":"10.`...)
	v = fmt.Appendf(v, "%d.%d.%d", r.IntN(256), r.IntN(256), r.IntN(256))
	v = append(v, `","device":{"os":"`...)
	v = append(v, systems[r.IntN(len(systems))]...)
	v = append(v, `","screen":{"width":`...)
	v = strconv.AppendInt(v, int64(320+16*r.IntN(140)), 10)
	v = append(v, `,"height":`...)
	v = strconv.AppendInt(v, int64(480+16*r.IntN(100)), 10)
	v = append(v, `}},"latency_ms":`...)
	v = strconv.AppendFloat(v, float64(r.IntN(400_000))/1000, 'f', 3, 64)
	v = append(v, `,"agent":"`...)
	v = append(v, agents[r.IntN(len(agents))]...)
	v = append(v, `","note":"`...)
	for range e.pad {
		v = append(v, padLetters[r.IntN(len(padLetters))])
	}
	v = append(v, `"}`...)
	e.n++
	e.at = e.at.Add(e.step)
	return key, v
}
