package tiering

import (
	"context"
	"fmt"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// A log that learns offsets by reading (broker.Counter) counts on from a record whose place the table knows, which must still
// be in the log. What a filter leaves out has an offset and no row. So such a log is held at the last row of a partition and not at the
// end of the lake (I2, I6); a dead letter goes when it is replayed, and holds nothing. When there is no row for long, the
// commit notes the place of its last record as a property of the table: as rarely as that, since it changes the metadata,
// which other writers take for a conflict.

// trail is what the records of a partition since the last cut say of where counting can begin again.
type trail struct {
	row    record.Offset // the last that became a row; -1: none
	other  record.Offset // the last that did not and says where it was; -1: none
	origin []byte        // its
}

func newTrail() trail { return trail{row: -1, other: -1} }

// note takes the record behind all others.
func (t *trail) note(rec *record.Record, row bool) {
	switch {
	case row:
		t.row = rec.Offset
	case len(rec.Headers) > 0 && string(rec.Headers[0].Key) == record.OriginHeader:
		t.other, t.origin = rec.Offset, append(t.origin[:0], rec.Headers[0].Value...)
	}
}

// anchor gives the last place of a partition that the session knows to be in the table for good; -1: none.
func (s *session) anchor(partition int32) record.Offset {
	s.anchorMu.Lock()
	defer s.anchorMu.Unlock()
	if at, ok := s.anchors[partition]; ok {
		return at
	}
	return -1
}

func (s *session) setAnchor(partition int32, at record.Offset) {
	s.anchorMu.Lock()
	defer s.anchorMu.Unlock()
	s.anchors[partition] = at
}

// places gives the properties that note places with a commit: of partitions that have too many records behind their last row.
func (s *session) places(all *output) (map[string]string, error) {
	props := map[string]string{}
	for p, t := range all.trails {
		if t.other-max(s.anchor(p), t.row) < s.t.cfg.MaxHeldBack {
			continue
		}
		at := table.NotedPlace{Offset: t.other}
		if err := at.Origin.Parse(t.origin); err != nil {
			return nil, fmt.Errorf("%s offset %d: %w", s.t.tp(p), t.other, err)
		}
		props[table.PlaceProperty(s.t.cfg.App, p)] = at.String()
		all.noted = append(all.noted, p)
	}
	return props, nil
}

// anchored takes what a commit has put into the table. ours says that it was this one: another may have brought the same records.
func (s *session) anchored(all *output, ours bool) {
	for p, t := range all.trails {
		if t.row >= 0 {
			s.setAnchor(p, t.row)
		}
	}
	for _, p := range all.noted {
		if ours {
			s.setAnchor(p, all.trails[p].other)
		}
	}
}

// hold tells the log what it may drop of a partition.
func (s *session) hold(ctx context.Context, partition int32, lakeEnd record.Offset) {
	if _, counts := s.t.cfg.Source.(broker.Counter); counts && s.origins {
		lakeEnd = s.anchor(partition) + 1
	}
	s.t.hold(ctx, partition, lakeEnd)
}
