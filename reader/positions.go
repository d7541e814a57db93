package reader

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/table"
)

// findPositions finds what says where the table ends in each partition: the positions that App has recorded, or the rows
// of a table that nobody has recorded any for. Other writers name their transactions as they like, also with a dash and
// a number at the end, so a table whose columns the caller names is read by its rows, unless an App is named too.
func (c *Cursor) findPositions(ctx context.Context) error {
	if c.snap == nil {
		return nil
	}
	if t := c.cfg.Table; t.Names.Topic != "" && t.Topic() == "" {
		return table.ErrSeveralTopics
	}
	c.cfg.App = committer.PositionsOf(c.snap, c.cfg.App)
	others := c.writers()
	if c.cfg.App == "" && !c.cfg.Table.Mapped() {
		switch len(others) {
		case 0: // nobody's positions
		case 1:
			c.cfg.App = others[0]
		default:
			return fmt.Errorf("table was filled by several writers (%s): name one with --app", strings.Join(others, ", "))
		}
	}
	if c.positioned = c.ownPositions(); c.positioned || !c.names().Ordered() {
		return nil
	}
	foreign := len(others) > 0 && !c.cfg.Table.Mapped()
	if !foreign && !c.placed() {
		return nil
	}
	if err := c.lookAtRows(ctx); err != nil {
		return err
	}
	if foreign && len(c.rowEnds) > 0 {
		return fmt.Errorf("table has no positions of %q, and its rows are of %s: name who filled it with --app, or if these are no positions, the columns with --map", c.cfg.App, strings.Join(others, ", "))
	}
	return nil
}

// ownPositions says whether the table has positions of App. Under a mapping the topic's own name is no name given: it
// may well be what somebody else's transactions begin with, and the rows are right for all.
func (c *Cursor) ownPositions() bool {
	if c.cfg.App == "" || c.cfg.Table.Mapped() && c.cfg.App == c.cfg.Topic {
		return false
	}
	return len(table.Partitions(c.snap, c.cfg.App)) > 0
}

// writers are those whose transactions look like positions.
func (c *Cursor) writers() []string {
	apps := map[string]bool{}
	for id := range c.snap.Txns() {
		if app, _, ok := table.SplitAppID(id); ok {
			apps[app] = true
		}
	}
	return slices.Sorted(maps.Keys(apps))
}
