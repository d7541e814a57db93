package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"
	"time"
)

// Quotas that can be set, by Kafka's names: record bytes a second.
const (
	produceQuota = "producer_byte_rate"
	fetchQuota   = "consumer_byte_rate"
)

const (
	maxQuotas   = 10_000
	maxMeters   = 10_000           // clients that are measured at a time
	maxThrottle = 30 * time.Second // of one answer: what is above it is for the next one
	maxDebt     = time.Hour        // of a client: what is above it is forgiven
	quotaBurst  = time.Second      // as much as the rate gives in this time may come at once
)

// quotaName is one part of whom a quota is for: nobody in particular (the zero value), a name, or all who have no quota by name.
type quotaName struct {
	Name string `json:"name,omitempty"`
	Set  bool   `json:"set,omitempty"`
	Rest bool   `json:"rest,omitempty"`
}

// quotaEntity is whom a quota is for.
type quotaEntity struct {
	User   quotaName `json:"user"`
	Client quotaName `json:"client"`
}

// quotas are the quotas that are set, and the meters of those whom they bind. They are kept in the settings.
type quotas struct {
	settings *settings
	kept     *held
	metered  *held // of meters alone, as who connects makes them: nobody starves what is kept
	now      func() time.Time

	mu     sync.Mutex
	set    map[quotaEntity]map[string]float64
	meters map[meterKey]*meter
}

type meterKey struct {
	user, client string // only as far as the quota tells them apart
	of           quotaEntity
	quota        string
}

// meter is a bucket that the rate drains.
type meter struct {
	level float64 // bytes
	at    time.Time
}

func newQuotas(st *settings, kept, metered *held) *quotas {
	return &quotas{settings: st, kept: kept, metered: metered, now: time.Now, set: map[quotaEntity]map[string]float64{}, meters: map[meterKey]*meter{}}
}

// replay takes a record of the settings.
func (q *quotas) replay(what, value []byte) error {
	var e quotaEntity
	if err := json.Unmarshal(what, &e); err != nil {
		return err
	}
	q.kept.add(-e.cost(q.set[e]))
	if value == nil {
		delete(q.set, e)
		return nil
	}
	var v map[string]float64
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	q.set[e] = v
	q.kept.add(e.cost(v))
	return nil
}

// cost is what quotas of an entity take in memory; none take nothing.
func (e quotaEntity) cost(values map[string]float64) int64 {
	if len(values) == 0 {
		return 0
	}
	return int64(512 + len(e.User.Name) + len(e.Client.Name))
}

func (k meterKey) cost() int64 {
	return int64(384 + len(k.user) + len(k.client) + len(k.of.User.Name) + len(k.of.Client.Name))
}

// quotaChange sets quotas of an entity, or removes them where the value is NaN.
type quotaChange struct {
	entity quotaEntity
	values map[string]float64
}

// change makes changes durable, together, and then counts them.
func (q *quotas) change(ctx context.Context, changes []quotaChange) error {
	q.settings.mu.Lock()
	defer q.settings.mu.Unlock()
	next := map[quotaEntity]map[string]float64{}
	for _, c := range changes {
		v, ok := next[c.entity]
		if !ok {
			v = maps.Clone(q.of(c.entity))
		}
		if v == nil {
			v = map[string]float64{}
		}
		for name, rate := range c.values {
			if v[name] = rate; math.IsNaN(rate) {
				delete(v, name)
			}
		}
		next[c.entity] = v
	}
	if before, after := q.count(next); after > maxQuotas && after > before {
		return fmt.Errorf("there can be quotas for %d users and clients, and with these there were %d: %w", maxQuotas, after, errTooMany)
	}
	var recs []stateRecord
	var more int64
	for e, v := range next {
		more += e.cost(v) - e.cost(q.of(e))
		var value any
		if len(v) > 0 {
			value = v
		}
		rec, err := settingRecord(settingQuota, e, value)
		if err != nil {
			return err
		}
		recs = append(recs, rec)
	}
	if more > 0 && !q.kept.take(more) {
		return fmt.Errorf("%w: %w", errNoMemory, errTooMany)
	}
	if err := q.settings.topic.append(ctx, recs); err != nil { // COMMIT POINT
		q.kept.add(-max(more, 0))
		return err
	}
	q.kept.add(min(more, 0))
	q.mu.Lock()
	defer q.mu.Unlock()
	for e, v := range next {
		if q.set[e] = v; len(v) == 0 {
			delete(q.set, e)
		}
	}
	return nil
}

// count says for how many there are quotas, and for how many there will be when some are changed.
func (q *quotas) count(next map[quotaEntity]map[string]float64) (before, after int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before, after = len(q.set), len(q.set)
	for e, v := range next {
		switch _, has := q.set[e]; {
		case has && len(v) == 0:
			after--
		case !has && len(v) > 0:
			after++
		}
	}
	return before, after
}

func (q *quotas) of(e quotaEntity) map[string]float64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.set[e]
}

// all gives a copy of what is set.
func (q *quotas) all() map[quotaEntity]map[string]float64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.set) // its values are replaced, never changed
}

// find gives the one quota that binds a client, in Kafka's order: the user's before the client's, a name before all others.
func (q *quotas) find(user, client, name string) (e quotaEntity, rate float64, ok bool) {
	u, c := quotaName{Name: user, Set: true}, quotaName{Name: client, Set: true}
	rest, none := quotaName{Rest: true}, quotaName{}
	for _, e := range [...]quotaEntity{{u, c}, {u, rest}, {u, none}, {rest, c}, {rest, rest}, {rest, none}, {none, c}, {none, rest}} {
		if rate, ok = q.set[e][name]; ok {
			return e, rate, true
		}
	}
	return e, 0, false
}

// charge counts bytes of a client and says how long it has to wait before its next request.
func (q *quotas) charge(r *request, name string, bytes int) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.set) == 0 || bytes == 0 {
		return 0
	}
	user := strings.TrimPrefix(r.proof.principal, userPrefix)
	e, rate, ok := q.find(user, r.clientID, name)
	if !ok {
		return 0
	}
	k := meterKey{of: e, quota: name}
	if e.User != (quotaName{}) {
		k.user = user
	}
	if e.Client != (quotaName{}) {
		k.client = r.clientID
	}
	now := q.now()
	m := q.meters[k]
	if m == nil {
		if !q.admit(k, now) {
			k.user, k.client = "", "" // clients that nobody knew before share one
			if m = q.meters[k]; m == nil {
				q.metered.add(k.cost()) // there are as few of these as there are quotas
			}
		}
		if m == nil {
			m = &meter{at: now}
			q.meters[k] = m
		}
	}
	m.level = min(max(0, m.level-rate*now.Sub(m.at).Seconds())+float64(bytes), rate*maxDebt.Seconds())
	m.at = now
	over := m.level - rate*quotaBurst.Seconds()
	if over <= 0 {
		return 0
	}
	return time.Duration(min(over/rate, maxThrottle.Seconds()) * float64(time.Second)) // bounded first: else it overflows
}

// admit takes the memory of one more meter, that of idle ones if there is no other.
func (q *quotas) admit(k meterKey, now time.Time) bool {
	if len(q.meters) < maxMeters && q.metered.take(k.cost()) {
		return true
	}
	q.makeRoom(now)
	return len(q.meters) < maxMeters && q.metered.take(k.cost())
}

// makeRoom forgets those who have sent and read nothing for a while.
func (q *quotas) makeRoom(now time.Time) {
	maps.DeleteFunc(q.meters, func(k meterKey, m *meter) bool {
		idle := now.Sub(m.at) > maxThrottle
		if idle {
			q.metered.add(-k.cost())
		}
		return idle
	})
}

// Names of the parts of an entity.
const (
	quotaUser   = "user"
	quotaClient = "client-id"
)

// part is one part of an entity as requests have it; a nil name is that of all others.
func (e *quotaEntity) part(kind string, name *string) error {
	at := &e.User
	switch kind {
	case quotaUser:
	case quotaClient:
		at = &e.Client
	default:
		return fmt.Errorf("quotas for %q are not known: want user or client-id", kind)
	}
	switch {
	case *at != quotaName{}:
		return fmt.Errorf("%s stands twice", kind)
	case name == nil:
		*at = quotaName{Rest: true}
	case len(*name) > maxQuotaText:
		return fmt.Errorf("%s is longer than %d bytes", kind, maxQuotaText)
	default:
		*at = quotaName{Name: *name, Set: true}
	}
	return nil
}

const maxQuotaText = 1 << 10

// checkQuota says whether a quota is one that is kept to.
func checkQuota(name string, rate float64) error {
	switch {
	case name != produceQuota && name != fetchQuota:
		return fmt.Errorf("quota %q is not kept to here: want %s or %s", name, produceQuota, fetchQuota)
	case !(rate >= 1) || math.IsInf(rate, 0):
		return fmt.Errorf("%s is %v: want at least 1 byte a second", name, rate)
	}
	return nil
}

var errNoEntity = errors.New("a quota is for a user, a client-id, or both")
