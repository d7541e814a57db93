package reader

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
)

// A read has the columns of the snapshot that it began with. Once a column of the table gets a wider type, the log side
// would refuse values that are rows of the table, and the lake side would give batches of another schema: the read ends,
// and says how to go on (I4).

// retyped gives a *WidenedError when a column that is read has another type in a newer snapshot. The log side decodes all
// columns, whichever are asked for: any of them decides whether a record is a row.
func (c *Cursor) retyped(newer *deltalog.Snapshot) error {
	if c.full == nil || c.snap == nil || newer.Version() <= c.snap.Version() || newer.Metadata().ID != c.snap.Metadata().ID {
		return nil
	}
	schema, err := c.cfg.Table.Schema(newer)
	if err != nil {
		return err
	}
	mine := c.schema
	if c.cfg.Source != nil {
		mine = c.full
	}
	if e := otherType("", mine.Fields(), schema.Fields()); e != nil {
		return e
	}
	return nil
}

// otherType finds the first column, at any depth, whose type is not what it was. Columns that one side alone has do not
// matter: a decoder leaves out what it has no column for.
func otherType(prefix string, was, is []arrow.Field) *WidenedError {
	for _, f := range was {
		i := slices.IndexFunc(is, func(g arrow.Field) bool { return g.Name == f.Name })
		if i < 0 || arrow.TypeEqual(f.Type, is[i].Type) {
			continue
		}
		from, nested := f.Type.(arrow.NestedType)
		to, too := is[i].Type.(arrow.NestedType)
		if !nested || !too || f.Type.ID() != is[i].Type.ID() {
			return &WidenedError{Column: prefix + f.Name, From: f.Type, To: is[i].Type}
		}
		if e := otherType(prefix+f.Name+".", from.Fields(), to.Fields()); e != nil {
			return e
		}
	}
	return nil
}

// look finds out, once for each batch, whether a value that cannot be decoded is one for a wider column: it then is no
// gap. A follower ahead of the table cannot know.
func (l *logSide) look(ctx context.Context) error {
	if l.looked || l.c.snap == nil {
		return nil
	}
	snap, err := l.c.cfg.Table.Log.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read the table's log: %w", err)
	}
	l.looked = true
	return l.c.retyped(snap)
}
