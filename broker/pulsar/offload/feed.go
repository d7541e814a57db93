package offload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// Config says what to read.
type Config struct {
	Store objstore.Store // its root holds the objects
	Topic string         // tenant/namespace/topic
	// Lists are the ledgers of each partition: see ParseLists. Without one, they are found by their names.
	Lists map[string][]Listed
	// From leaves out the ledgers of a partition below an id; AllPartitions is for those that are not named.
	From   map[int32]int64
	Logger *slog.Logger // default: silent
}

// AllPartitions stands for each partition in Config.From.
const AllPartitions int32 = -1

// Feed is the topic as its objects have it. It never changes.
type Feed struct {
	store  objstore.Store
	log    *slog.Logger
	topic  string
	parts  map[string]*partition // by the partition's topic
	strays []Stray               // by ledger
	ctx    context.Context       // ends with Close
	stop   context.CancelFunc
}

var _ pulsar.Feed = (*Feed)(nil)

// Open finds the ledgers of a topic and reads their indexes. broker.ErrUnknownTopic when there are none.
func Open(ctx context.Context, cfg Config) (*Feed, error) {
	f := &Feed{store: cfg.Store, log: cfg.Logger, topic: cfg.Topic, parts: map[string]*partition{}}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	f.ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	objects, err := list(ctx, cfg.Store)
	if err == nil && cfg.Lists != nil {
		err = f.listed(ctx, cfg, objects)
	} else if err == nil {
		err = f.named(ctx, cfg, objects)
	}
	if err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

// named takes what the objects say themselves.
func (f *Feed) named(ctx context.Context, cfg Config, objects []found) error {
	lowest := cfg.lowest()
	objects = slices.DeleteFunc(objects, func(x found) bool { return x.id < lowest })
	by, others := map[string][]*ledger{}, map[string]bool{}
	err := load(ctx, cfg.Store, objects, func(l *ledger, err error) error {
		n, ours := partitionOf(cfg.Topic, l.topic)
		if _, seen := by[l.topic]; ours && !seen {
			by[l.topic] = nil
		}
		switch {
		case ours && l.id < cfg.from(n): // left out
		case ours && err != nil:
			return err
		case ours:
			by[l.topic] = append(by[l.topic], l)
		case l.topic == "":
			if err == nil {
				err = errNoTopic
			}
			f.strays = append(f.strays, Stray{Ledger: l.id, Object: l.key + "-index", Err: err})
		case len(others) < 100:
			others[l.topic] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(f.strays, func(a, b Stray) int {
		return cmp.Or(cmp.Compare(a.Ledger, b.Ledger), strings.Compare(a.Object, b.Object))
	})
	for topic, ledgers := range by {
		n, _ := partitionOf(cfg.Topic, topic)
		p := &partition{number: n, log: f.log, strays: f.strays}
		if p.ledgers, err = once(ledgers); err != nil {
			return err
		}
		f.parts[topic] = p
	}
	if len(f.parts) == 0 {
		err := fmt.Errorf("topic %s has no ledger in %s: %w: topics there: %s", cfg.Topic, cfg.Store.URL(), broker.ErrUnknownTopic, strings.Join(slices.Sorted(maps.Keys(others)), ", "))
		if n := len(f.strays); n > 0 {
			err = fmt.Errorf("%w; of %d ledgers it is not known: %s: %w", err, n, f.strays[0].Object, f.strays[0].Err)
		}
		return err
	}
	return nil
}

// listed takes what the list says, up to a ledger that is not there.
func (f *Feed) listed(ctx context.Context, cfg Config, objects []found) error {
	any, of := false, map[int64][]found{}
	for _, x := range objects {
		of[x.id] = append(of[x.id], x)
	}
	for topic, list := range cfg.Lists {
		n, ok := partitionOf(cfg.Topic, topic)
		if !ok {
			return fmt.Errorf("the list of ledgers is of %s, not of %s", topic, cfg.Topic)
		}
		p := &partition{number: n, log: f.log, complete: true}
		f.parts[topic] = p
		var chosen []found
		for _, want := range list {
			if want.Entries == 0 || want.ID < cfg.from(n) { // empty, or open
				continue
			}
			copies := slices.DeleteFunc(slices.Clone(of[want.ID]), func(x found) bool { return want.UUID != "" && x.uuid != want.UUID })
			switch {
			case len(copies) == 0 && p.gap == nil:
				p.gap = &Gap{Before: want.ID, Missing: true}
			case len(copies) == 0:
			case p.gap != nil:
				p.gap.More++
			default:
				chosen = append(chosen, copies...)
			}
		}
		if p.gap != nil && p.gap.More == 0 { // the rest is still in Pulsar
			p.rest, p.gap = p.gap.Before, nil
		}
		var all []*ledger
		err := load(ctx, cfg.Store, chosen, func(l *ledger, err error) error {
			all = append(all, l)
			return err
		})
		if err != nil {
			return err
		}
		if p.ledgers, err = once(all); err != nil {
			return err
		}
		for _, l := range p.ledgers {
			any = true
			i := slices.IndexFunc(list, func(x Listed) bool { return x.ID == l.id })
			if l.last+1 != list[i].Entries || l.topic != "" && l.topic != topic {
				return fmt.Errorf("%s has %d entries of %s, and the list of ledgers says %d of %s", l.key, l.last+1, l.topic, list[i].Entries, topic)
			}
		}
	}
	if !any {
		return fmt.Errorf("none of the ledgers listed for %s is in %s: %w", cfg.Topic, cfg.Store.URL(), broker.ErrUnknownTopic)
	}
	return nil
}

func (c *Config) from(n int32) int64 {
	if id, ok := c.From[n]; ok {
		return id
	}
	return c.From[AllPartitions]
}

// lowest is the id below which no ledger of any partition is wanted.
func (c *Config) lowest() int64 {
	least := c.From[AllPartitions]
	for _, id := range c.From {
		least = min(least, id)
	}
	return least
}

// partitionOf says which partition of a topic another topic is; false when it is none.
func partitionOf(topic, of string) (int32, bool) {
	if of == topic {
		return 0, true
	}
	rest, ok := strings.CutPrefix(of, topic+"-partition-")
	n, err := strconv.ParseInt(rest, 10, 32)
	return int32(n), ok && err == nil && n >= 0 && strconv.FormatInt(n, 10) == rest
}

// Partitions is for pulsar.Feed.
func (f *Feed) Partitions(_ context.Context, topic string) (int, error) {
	most := 0
	for name, p := range f.parts {
		if strings.TrimPrefix(topic, "persistent://") == f.topic && name != f.topic {
			most = max(most, int(p.number)+1)
		}
	}
	return most, nil
}

// Topics is for pulsar.Feed.
func (f *Feed) Topics(_ context.Context, namespace, pattern string) ([]string, error) {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(f.parts)) {
		if strings.HasPrefix(name, namespace+"/") && match.MatchString("persistent://"+name) {
			out = append(out, "persistent://"+name)
		}
	}
	return out, nil
}

// Open is for pulsar.Feed. A partition without ledgers is empty.
func (f *Feed) Open(_ context.Context, topic string, start wire.MessageID, _ func()) (pulsar.Entries, error) {
	if f.ctx.Err() != nil {
		return nil, broker.ErrClosed
	}
	p := f.parts[strings.TrimPrefix(topic, "persistent://")]
	if p == nil {
		p = &partition{log: f.log}
	}
	ctx, cancel := context.WithCancel(f.ctx)
	k := &entries{cancel: cancel, walk: newWalk(ctx, f, p, start)}
	k.fates = &fates{known: map[transaction]bool{}, begin: func(at wire.MessageID) walk { return newWalk(ctx, f, p, at) }}
	return k, nil
}

// Gapless is true: what stands behind a gap is not given.
func (f *Feed) Gapless() bool { return true }

// Close ends all reads.
func (f *Feed) Close() { f.stop() }

// partition are the ledgers of one partition, in order.
type partition struct {
	number   int32
	ledgers  []*ledger
	complete bool  // a list says that none is missing between them
	rest     int64 // the first ledger that is not offloaded yet; 0: none
	log      *slog.Logger
	strays   []Stray // that may be of it, by ledger

	mu       sync.Mutex
	cut      int  // so many ledgers come before a gap that the index showed; 0: no such gap
	unproven bool // nothing says whether a ledger is missing between two
	gap      *Gap
	hidden   *wire.MessageID
}

// end is how many of the ledgers are given.
func (p *partition) end() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut > 0 {
		return p.cut
	}
	return len(p.ledgers)
}

func (p *partition) last() wire.MessageID {
	n := p.end()
	if n == 0 {
		return wire.Earliest
	}
	return wire.MessageID{Ledger: p.ledgers[n-1].id, Entry: p.ledgers[n-1].last, Batch: -1}
}

// follows says whether the first entry of ledger number at comes right behind the one before it, whose index is before.
func (p *partition) follows(at int, before int64, d *wire.Delivery) bool {
	if p.complete {
		return true
	}
	first := firstIndex(d)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case before < 0 || first < 0:
		if s := p.between(p.ledgers[at-1].id, d.ID.Ledger); s != nil {
			if p.cut == 0 {
				p.cut, p.gap = at, &Gap{Before: s.Ledger, Missing: true, More: len(p.ledgers) - at, Stray: s}
				p.log.Warn("a ledger whose topic is not known may be missing: what comes behind it is left out", "partition", p.number, "ledger", s.Ledger, "object", s.Object, "err", s.Err)
			}
			return false
		}
		p.unproven = true
	case first > before+1:
		if p.cut == 0 {
			p.cut = at
			p.gap = &Gap{Before: d.ID.Ledger, Messages: first - before - 1, More: len(p.ledgers) - at}
			p.log.Warn("a ledger is missing: what comes behind it is left out", "partition", p.number, "before_ledger", d.ID.Ledger, "messages", p.gap.Messages)
		}
		return false
	}
	return true
}

// between is the first stray between two ledgers; nil: none.
func (p *partition) between(after, before int64) *Stray {
	i := sort.Search(len(p.strays), func(i int) bool { return p.strays[i].Ledger > after })
	if i == len(p.strays) || p.strays[i].Ledger >= before {
		return nil
	}
	return &p.strays[i]
}

// hide notes the first message that is not given, since its transaction has no end.
func (p *partition) hide(id wire.MessageID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hidden = &id
}

// Gap is a place where ledgers are missing. What comes behind it is not given.
type Gap struct {
	Before   int64  // a ledger: the missing one itself where a list names it, else the one behind it
	Missing  bool   // Before is the missing one
	Messages int64  // that are missing, where the running index tells; 0: unknown
	More     int    // ledgers that are there behind the gap
	Stray    *Stray // it is here that the missing one may be; nil: no
}

// Stray is a ledger whose topic is not known: its index is damaged, or of another format, or does not say.
type Stray struct {
	Ledger int64
	Object string // the index
	Err    error
}

var errNoTopic = errors.New("the ledger does not say its topic")

// Strays are the ledgers of which nothing says whether they are the topic's, by id. A list of ledgers (Config.Lists) leaves
// none. Where no running index tells that nothing is missing at its place, the topic ends before it: see Gap.
func (f *Feed) Strays() []Stray { return f.strays }

// Report is what is to be known of a partition besides its messages. What the index shows is known once it was read.
type Report struct {
	Partition   int32
	Ledgers     int // that are given
	First, Last int64
	Gap         *Gap            // nil: none
	Hidden      *wire.MessageID // the first message of a transaction without an end; nil: none
	Unproven    bool            // nothing tells whether a ledger is missing between two
	Rest        int64           // the first ledger that is not offloaded yet; 0: none, or unknown
}

// Reports gives that of each partition.
func (f *Feed) Reports() []Report {
	var out []Report
	for _, p := range f.parts {
		n := p.end()
		p.mu.Lock()
		r := Report{Partition: p.number, Ledgers: n, Gap: p.gap, Hidden: p.hidden, Unproven: p.unproven, Rest: p.rest}
		p.mu.Unlock()
		if n > 0 {
			r.First, r.Last = p.ledgers[0].id, p.ledgers[n-1].id
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Report) int { return int(a.Partition - b.Partition) })
	return out
}

var errBadFrom = errors.New("want LEDGER, or PARTITION@LEDGER")

// ParseFrom reads what Config.From takes, from LEDGER or PARTITION@LEDGER.
func ParseFrom(texts []string) (map[int32]int64, error) {
	out := map[int32]int64{}
	for _, t := range texts {
		n, id := AllPartitions, t
		if p, rest, ok := strings.Cut(t, "@"); ok {
			v, err := strconv.ParseInt(p, 10, 32)
			if err != nil || v < 0 {
				return nil, fmt.Errorf("%q: %w", t, errBadFrom)
			}
			n, id = int32(v), rest
		}
		v, err := strconv.ParseInt(id, 10, 64)
		if err != nil || v < 0 {
			return nil, fmt.Errorf("%q: %w", t, errBadFrom)
		}
		out[n] = v
	}
	return out, nil
}
