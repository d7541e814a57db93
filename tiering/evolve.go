package tiering

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// A record that has a field for which there is no column ends the session under Config.Evolve. The columns are added
// in a version of their own, and a new session begins where the table stands, so that each row from this record on
// has them. If we stop in between, the table has columns that no row fills yet, and the records are read again.

// newsDecoder is a decoder that tells of fields that no column takes.
type newsDecoder interface {
	WatchUnknown()
	Unknown() []string
}

// newFieldsError ends a session since there are fields without columns.
type newFieldsError struct {
	paths    []string
	samples  [][]byte      // values from the first that has them on
	declared *arrow.Schema // instead: columns by the schema of a value
	columns  *arrow.Schema // instead: payload columns that are wanted
}

func (e *newFieldsError) Error() string {
	return fmt.Sprintf("the table has no columns for %s", strings.Join(e.paths, ", "))
}

const (
	maxSamples   = 1000    // values that are looked at for new columns
	maxSampled   = 4 << 20 // and their bytes
	maxEvolvedTo = 1000    // columns up to which a table grows: records must not make it unusable (I8)
)

// news ends the session when there are fields that can become columns.
func (w *worker) news(paths []string, rec *record.Record) error {
	if len(paths) == 0 {
		return nil
	}
	t := w.s.t
	t.mu.Lock()
	if t.full {
		paths = nil
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return t.declined[p] })
	t.mu.Unlock()
	if len(paths) == 0 {
		return nil
	}
	e := &newFieldsError{paths: paths, samples: [][]byte{slices.Clone(rec.Value)}}
	for size := len(rec.Value); size < maxSampled && len(e.samples) < maxSamples && w.it.Next(); {
		v := slices.Clone(w.it.Record().Value)
		size += len(v)
		e.samples = append(e.samples, v)
	}
	return e
}

// missingColumns asks for columns that transforms fill and the table lacks.
func (s *session) missingColumns() error {
	if !s.t.cfg.Evolve || s.t.cfg.Transform.Empty() {
		return nil
	}
	payload, err := s.t.cfg.Table.PayloadSchema()
	if err != nil {
		return err
	}
	want, err := s.t.cfg.Transform.Extend(payload)
	if err != nil {
		return err
	}
	all, err := deltalog.FromArrow(want)
	if err != nil {
		return err
	}
	s.t.keepOwn(all)
	m := newMerger(s.snap, maxEvolvedTo)
	if m.fields(s.snap.Schema(), all, ""); len(m.added) == 0 {
		return nil
	}
	return &newFieldsError{columns: want}
}

// evolve adds columns for new fields. Fields that cannot have one are not asked for again: what a record has in it may
// cost it a column, and never ends the run (I7).
func (t *Tierer) evolve(ctx context.Context, news *newFieldsError) error {
	snap, err := t.cfg.Table.Refresh(ctx)
	if err != nil {
		return fmt.Errorf("read table: %w", err)
	}
	m := newMerger(snap, maxEvolvedTo-countFields(snap.Schema()))
	schema, err := t.wider(snap, &m, news)
	if err != nil {
		return t.unless(news, fmt.Errorf("find the types of new fields: %w", err), news.paths)
	}
	t.decline(slices.DeleteFunc(append(m.refused, news.paths...), func(p string) bool { return slices.Contains(m.added, p) }),
		"its name is none for a column, or that of another but for the case of letters, or the table has too many columns")
	t.mu.Lock()
	t.full = t.full || m.full
	t.mu.Unlock()
	if len(m.added) == 0 {
		return nil
	}
	c, err := snap.Alter(deltalog.Change{Schema: schema})
	var v deltalog.Version
	if err == nil {
		c.Incarnation = snap.Metadata().ID
		v, err = t.cfg.Change.of(ctx, t.cfg.Table, c)
	}
	switch {
	case errors.Is(err, deltalog.ErrMetadataChanged) || errors.Is(err, deltalog.ErrProtocolChanged):
		return nil // somebody else was faster: the next session sees what is still missing
	case errors.Is(err, deltalog.ErrInvalidCommit):
		return t.unless(news, fmt.Errorf("add columns %s: %w", strings.Join(m.added, ", "), err), append(m.added, news.paths...))
	case err != nil:
		return fmt.Errorf("add columns %s: %w", strings.Join(m.added, ", "), err)
	}
	t.cfg.Logger.Info("columns were added for new fields", "topic", t.cfg.Topic, "columns", m.added, "version", v)
	return nil
}

// unless gives the error, unless it comes from what records have: their fields are declined then.
func (t *Tierer) unless(news *newFieldsError, err error, paths []string) error {
	if news.columns != nil {
		return err
	}
	t.decline(paths, err.Error())
	return nil
}

// decline notes that fields get no column.
func (t *Tierer) decline(paths []string, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.declined == nil {
		t.declined = map[string]bool{}
	}
	for _, p := range paths {
		if !t.declined[p] {
			t.declined[p] = true
			t.cfg.Logger.Warn("a field gets no column", "topic", t.cfg.Topic, "field", p, "why", why)
		}
	}
}

// wider gives the schema with what the values have, or the columns that are wanted.
func (t *Tierer) wider(snap *deltalog.Snapshot, m *merger, news *newFieldsError) (*deltalog.StructType, error) {
	merge := func(want *arrow.Schema, err error) (*deltalog.StructType, error) {
		if err != nil {
			return nil, err
		}
		fields, err := deltalog.FromArrow(want)
		if err != nil {
			return nil, err
		}
		t.keepOwn(fields)
		return m.fields(snap.Schema(), fields, ""), nil
	}
	if news.columns != nil {
		m.left = maxEvolvedTo // the operator asked for them
		return merge(news.columns, nil)
	}
	if news.declared != nil {
		return merge(news.declared, nil)
	}
	schema, err := merge(decode.InferKnownJSON(news.samples))
	if err == nil && slices.ContainsFunc(news.paths, func(p string) bool { return slices.Contains(m.added, p) }) {
		return schema, nil
	}
	if err != nil && !errors.Is(err, decode.ErrNoSamples) {
		return nil, err
	}
	*m = newMerger(snap, m.left)
	return merge(decode.InferJSON(news.samples[:1])) // others contradict, or the types inside are not known
}

// merger adds to a schema the fields of another that it lacks, nullable and at every depth. What is there stays as it
// is. Names that differ in case alone are one name to Delta, so such a field is left out, as is one whose name no
// column can have: its value stays in the value of the record.
type merger struct {
	mapped  bool // the table maps columns, so nearly all names will do
	left    int  // fields that may still be added
	added   []string
	refused []string
	full    bool
}

func newMerger(snap *deltalog.Snapshot, left int) merger {
	return merger{mapped: snap.Metadata().MappingMode() != "none", left: left}
}

func (m *merger) fields(have, more *deltalog.StructType, path string) *deltalog.StructType {
	out := &deltalog.StructType{Fields: slices.Clone(have.Fields)}
	for _, f := range more.Fields {
		at := indexName(out.Fields, f.Name)
		if at >= 0 && out.Fields[at].Name == f.Name {
			out.Fields[at].Type = m.inner(out.Fields[at].Type, f.Type, path+f.Name+".")
			continue
		}
		typ, ok := f.Type, at < 0 && m.fit(f.Name, path == "")
		if ok {
			typ, ok = m.tidy(f.Type, path+f.Name+".")
		}
		n := 1 + countFields(typ)
		m.full = m.full || ok && n > m.left
		if !ok || n > m.left {
			m.refused = append(m.refused, path+f.Name)
			continue
		}
		m.left -= n
		f.Nullable, f.Type = true, typ
		out.Fields = append(out.Fields, f)
		m.added = append(m.added, path+f.Name)
	}
	return out
}

// fit says whether a column may have the name of a field. Names that a change feed has columns of, the one that
// would take what no other column takes, and those of system columns, also in a table that has none, are none for a column that a
// record asks for.
func (m *merger) fit(name string, top bool) bool {
	ours := table.DefaultNames()
	ours.Topic = table.TopicColumn
	if top && ours.HasFold(name) {
		return false
	}
	if top && slices.Contains([]string{"_change_type", "_commit_version", "_commit_timestamp", decode.RescuedColumn}, name) {
		return false
	}
	return deltalog.ValidName(name, m.mapped) && !strings.ContainsFunc(name, unicode.IsControl)
}

// tidy leaves the fields out of a new type that cannot be; false when nothing of it remains.
func (m *merger) tidy(t deltalog.DataType, path string) (deltalog.DataType, bool) {
	switch t := t.(type) {
	case *deltalog.StructType:
		out := &deltalog.StructType{}
		for _, f := range t.Fields {
			typ, ok := f.Type, indexName(out.Fields, f.Name) < 0 && m.fit(f.Name, false)
			if ok {
				typ, ok = m.tidy(f.Type, path+f.Name+".")
			}
			if !ok {
				m.refused = append(m.refused, path+f.Name)
				continue
			}
			f.Type = typ
			out.Fields = append(out.Fields, f)
		}
		return out, len(out.Fields) > 0
	case *deltalog.ArrayType:
		el, ok := m.tidy(t.Element, path)
		return &deltalog.ArrayType{Element: el, ContainsNull: t.ContainsNull}, ok
	}
	return t, true
}

// indexName finds the field whose name is the same to Delta, whichever of its readers folds the case; -1 for none.
func indexName(fields []deltalog.StructField, name string) int {
	low := strings.ToLower(name)
	return slices.IndexFunc(fields, func(f deltalog.StructField) bool {
		return f.Name == name || strings.EqualFold(f.Name, name) || strings.ToLower(f.Name) == low
	})
}

func (m *merger) inner(have, more deltalog.DataType, path string) deltalog.DataType {
	switch h := have.(type) {
	case *deltalog.StructType:
		if o, ok := more.(*deltalog.StructType); ok {
			return m.fields(h, o, path)
		}
	case *deltalog.ArrayType:
		if o, ok := more.(*deltalog.ArrayType); ok {
			return &deltalog.ArrayType{Element: m.inner(h.Element, o.Element, path), ContainsNull: h.ContainsNull}
		}
	}
	return have
}

func countFields(t deltalog.DataType) int {
	n := 0
	switch t := t.(type) {
	case *deltalog.StructType:
		for _, f := range t.Fields {
			n += 1 + countFields(f.Type)
		}
	case *deltalog.ArrayType:
		n = countFields(t.Element)
	case *deltalog.MapType:
		n = countFields(t.Value)
	}
	return n
}
