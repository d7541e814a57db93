package fsm

import (
	"fmt"
	"maps"
	"slices"
)

// Plant is a fault that the simulation plants, to show that its checker finds it. Nothing else sets one.
type Plant uint8

// The faults.
const (
	NoPlant Plant = iota
	NoEpochCheck
	NoRangeCheck
	NoPlanCheck
)

// State is the whole state machine.
type State struct {
	tables map[string]*Table
	plant  Plant
}

// New makes an empty state.
func New() *State { return &State{tables: map[string]*Table{}} }

// Planted makes a state with a fault, for tests of the simulation.
func Planted(p Plant) *State {
	s := New()
	s.plant = p
	return s
}

// Result is what a command did.
type Result struct {
	Applied bool     // false: the command came too late or too early, and changed nothing
	Answers []Answer // of a Batch, one a request
	Done    bool     // of a Batch: its Done was applied
	Epoch   int64    // of a Lease
	Text    string   // why it was not applied
}

// Table gives a table, nil when it is not open.
func (s *State) Table(name string) *Table { return s.tables[name] }

// Tables gives the names of all tables, sorted.
func (s *State) Tables() []string { return slices.Sorted(maps.Keys(s.tables)) }

// Apply changes the state by one command.
func (s *State) Apply(c Command) Result {
	t := s.tables[c.TableName()]
	if o, ok := c.(*Open); ok {
		return s.open(o, t)
	}
	if t == nil {
		return Result{Text: "the table is not open"}
	}
	switch c := c.(type) {
	case *Lease:
		return t.lease(c)
	case *Batch:
		done := c.Done != nil && t.published(c.Done)
		return Result{Applied: true, Done: done, Answers: t.batch(c, s.plant)}
	case *PublishedAt:
		return Result{Applied: t.published(c)}
	case *Foreign:
		return Result{Applied: t.foreign(c, s.plant)}
	}
	return Result{Text: "unknown command"}
}

func (s *State) open(c *Open, t *Table) Result {
	fresh := &Table{name: c.Table, version: c.Version, hash: c.Hash, shape: c.Shape, stamp: c.Stamp, since: c.Version,
		rewritten: c.Version, positions: maps.Clone(c.Positions), moved: map[string]int64{}, fences: map[string]int64{}, answers: map[string]Answer{}}
	if fresh.positions == nil {
		fresh.positions = map[string]int64{}
	}
	switch {
	case t == nil && len(s.tables) >= MaxTables:
		return Result{Text: fmt.Sprintf("the group has %d tables, which is the limit: use a second group", MaxTables)}
	case t == nil:
	case c.Replace != t.version || c.ReplaceHash != t.hash:
		return Result{Text: "the table is open"} // someone was faster
	default:
		fresh.answers, fresh.order, fresh.epoch = t.answers, t.order, t.epoch
		for _, v := range t.pending {
			for i := range v.Requests {
				fresh.remember(v.Requests[i].ID, Answer{Code: Lost})
			}
		}
	}
	s.tables[c.Table] = fresh
	return Result{Applied: true}
}

func (t *Table) lease(c *Lease) Result {
	for _, p := range c.Partitions {
		t.epoch = max(t.epoch, t.fences[AppID(c.App, p)])
	}
	t.epoch++
	return Result{Applied: true, Epoch: t.epoch}
}
