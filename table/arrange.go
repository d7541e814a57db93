package table

import (
	"slices"
)

// arrange puts units into groups so that the groups in turn, each merged by key, give every partition in offset
// order. Units whose offsets overlap in some partition are in one group. Groups are small where files were
// written one after the other; a table that somebody else rewrote may have large ones.
func arrange(units []*unit) [][]*unit {
	spans := spansOf(units)
	sets := newSets(len(units))
	links := clusters(spans, sets)
	nodes := make(map[int]*node, len(units))
	var order []*node
	for i := range units {
		root := sets.find(i)
		n := nodes[root]
		if n == nil {
			n = &node{}
			nodes[root] = n
			order = append(order, n)
		}
		n.units = append(n.units, i)
	}
	for _, l := range links {
		a, b := nodes[sets.find(l[0])], nodes[sets.find(l[1])]
		if a != b {
			a.after = append(a.after, b)
		}
	}
	groups := make([][]*unit, 0, len(order))
	for _, members := range components(order) {
		var g []*unit
		for _, i := range members {
			g = append(g, units[i])
		}
		slices.SortFunc(g, func(a, b *unit) int { return compareKey(a.first(), b.first()) })
		groups = append(groups, g)
	}
	return groups
}

// first is a key that no row of the unit is below.
func (u *unit) first() key {
	if len(u.hulls) == 0 {
		return key{-1 << 31, -1 << 63}
	}
	return key{u.hulls[0].Partition, int64(u.hulls[0].From)}
}

// last is a key that no row of the unit is above.
func (u *unit) last() key {
	if len(u.hulls) == 0 {
		return key{1<<31 - 1, 1<<63 - 1}
	}
	h := u.hulls[len(u.hulls)-1]
	return key{h.Partition, int64(h.To) - 1}
}

type spanOf struct {
	Range
	unit int
}

func spansOf(units []*unit) []spanOf {
	var spans []spanOf
	for i, u := range units {
		for _, h := range u.hulls {
			spans = append(spans, spanOf{h, i})
		}
	}
	slices.SortStableFunc(spans, func(a, b spanOf) int {
		return compareKey(key{a.Partition, int64(a.From)}, key{b.Partition, int64(b.From)})
	})
	return spans
}

// clusters joins the units that overlap and gives the pairs that follow each other in a partition.
func clusters(spans []spanOf, sets *sets) (links [][2]int) {
	for i := 0; i < len(spans); {
		p, end, j := spans[i].Partition, spans[i].To, i+1
		for j < len(spans) && spans[j].Partition == p && spans[j].From < end {
			sets.join(spans[i].unit, spans[j].unit)
			end = max(end, spans[j].To)
			j++
		}
		if j < len(spans) && spans[j].Partition == p {
			links = append(links, [2]int{spans[i].unit, spans[j].unit})
		}
		i = j
	}
	return links
}

// sets are disjoint sets of units.
type sets struct{ parent []int }

func newSets(n int) *sets {
	s := &sets{make([]int, n)}
	for i := range s.parent {
		s.parent[i] = i
	}
	return s
}

func (s *sets) find(i int) int {
	for s.parent[i] != i {
		s.parent[i] = s.parent[s.parent[i]]
		i = s.parent[i]
	}
	return i
}

func (s *sets) join(a, b int) {
	a, b = s.find(a), s.find(b)
	s.parent[max(a, b)] = min(a, b)
}

// node is a set of units in the graph of what follows what.
type node struct {
	units      []int
	after      []*node
	index, low int // of the search, from 1
	open       bool
	next       int // edge to look at
}

// components gives the units of each strongly connected component, so that a component comes before all that
// follow it. A component of several nodes is files that follow each other differently in two partitions. This
// is Tarjan's algorithm with a stack of its own: a table can have a chain of very many files.
func components(nodes []*node) [][]int {
	var out [][]int
	var stack, path []*node
	count := 0
	for i := len(nodes) - 1; i >= 0; i-- { // the result is turned round: begin with the newest
		if nodes[i].index != 0 {
			continue
		}
		path = append(path, nodes[i])
		for len(path) > 0 {
			n := path[len(path)-1]
			if n.index == 0 {
				count++
				n.index, n.low, n.open = count, count, true
				stack = append(stack, n)
			}
			if n.next < len(n.after) {
				m := n.after[n.next]
				if m.index == 0 {
					path = append(path, m)
					continue
				}
				if m.open {
					n.low = min(n.low, m.low)
				}
				n.next++
				continue
			}
			path = path[:len(path)-1]
			if n.low != n.index {
				continue
			}
			var members []int
			for {
				m := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				m.open = false
				members = append(members, m.units...)
				if m == n {
					break
				}
			}
			out = append(out, members)
		}
	}
	slices.Reverse(out)
	return out
}
