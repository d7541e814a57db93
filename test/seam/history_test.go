package seam

import (
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// The judge that all tests here rest on finds each kind of fault, and none where there is none.
func TestJudge(t *testing.T) {
	at := func(o int64) harness.Position { return harness.Position{Offset: o} }
	known := truth{at(0): 10, at(1): 11, at(3): 13, at(4): 14} // 2 is a marker
	rows := func(offsets ...int64) (out []row) {
		for _, o := range offsets {
			out = append(out, row{at(o), uint64(10 + o)})
		}
		return out
	}
	marker := []hole{{0, 2, 3, "marker"}}
	for name, c := range map[string]struct {
		rows     []row
		holes    []hole
		from, to int64
		end      int64
		silent   bool
		good     bool
	}{
		"all":                       {rows(0, 1, 3, 4), marker, 0, 5, 5, false, true},
		"a part":                    {rows(1), nil, 1, 2, 0, false, true},
		"nothing":                   {nil, nil, 5, 5, 5, false, true},
		"a hole at the end":         {rows(1), marker, 1, 3, 0, false, true},
		"a record twice":            {rows(0, 1, 1), nil, 0, 2, 0, false, false},
		"a record left out":         {rows(0, 3, 4), marker, 0, 5, 0, false, false},
		"one left out at the end":   {rows(0), nil, 0, 2, 0, false, false},
		"one before the start":      {rows(0, 1), nil, 1, 2, 0, false, false},
		"two out of order":          {rows(1, 0), nil, 0, 2, 0, false, false},
		"a hole that is not told":   {rows(1, 3), nil, 1, 4, 0, false, false},
		"a hole over a record":      {rows(0, 3), []hole{{0, 1, 3, "no"}}, 0, 4, 0, false, false},
		"a hole that is told twice": {rows(1, 3), append(marker, marker...), 1, 4, 0, false, false},
		"another value":             {[]row{{at(0), 99}}, nil, 0, 1, 0, false, false},
		"a record of nobody":        {[]row{{at(2), 12}}, nil, 2, 3, 0, false, false},
		"another partition":         {[]row{{harness.Position{Partition: 7}, 1}}, nil, 0, 1, 0, false, false},
		"too short":                 {rows(0), nil, 0, 1, 5, false, false},
		"silent":                    {rows(0, 1, 3), nil, 0, 4, 0, true, true},
		"silent and left out":       {rows(0, 3), nil, 0, 4, 0, true, false},
		"silent, left out at last":  {rows(0), nil, 0, 4, 0, true, false},
	} {
		h := history{who: "a read", rows: c.rows, holes: c.holes, silent: c.silent, from: map[int32]int64{0: c.from}, to: map[int32]int64{0: c.to}, end: map[int32]int64{0: c.end}}
		if err := h.judge(known); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
