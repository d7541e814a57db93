package deltalog

import (
	"encoding/json"
	"slices"
	"sort"
	"strings"
)

// RowRule is what a table asks of each of its rows: an expression of SQL that is true for it; of a generated column, that it
// is the value of its expression. A rule without an expression is one that nobody can check by looking at rows.
type RowRule struct {
	Name       string // what it is, for people: "check constraint positive", "invariant of column a.b"
	Expression string
}

// RowRules gives the rules of the table, sorted by name: check constraints, invariants, generated and identity columns.
// NOT NULL is not among them: the schema says it.
func (s *Snapshot) RowRules() []RowRule { return rowRules(s.protocol, s.metadata, s.schema) }

func rowRules(p *Protocol, m *Metadata, s *StructType) []RowRule {
	var out []RowRule
	for k, v := range m.Configuration {
		if name, ok := strings.CutPrefix(k, constraintPrefix); ok && p.MinWriterVersion >= 3 {
			out = append(out, RowRule{"check constraint " + name, v})
		}
	}
	walkFields(s, "", func(path string, f *StructField) { out = append(out, columnRules(path, f)...) })
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return slices.Compact(out)
}

const constraintPrefix = "delta.constraints."

// columnRules gives what a column demands of every row.
func columnRules(path string, f *StructField) []RowRule {
	if len(f.Metadata) == 0 {
		return nil
	}
	var meta map[string]json.RawMessage
	if json.Unmarshal(f.Metadata, &meta) != nil {
		return []RowRule{{Name: "metadata of column " + path}}
	}
	var out []RowRule
	for key, raw := range meta {
		switch {
		case key == "delta.invariants":
			out = append(out, RowRule{"invariant of column " + path, invariant(raw)})
		case key == "delta.generationExpression":
			out = append(out, RowRule{Name: "generated column " + path, Expression: generated(path, f, raw)})
		case strings.HasPrefix(key, "delta.identity."):
			out = append(out, RowRule{Name: "identity column " + path})
		}
	}
	return out
}

// generated gives the condition of a generated column; "" where it stands in a struct, which the protocol does not have.
func generated(path string, f *StructField, raw json.RawMessage) string {
	var of string
	if path != f.Name || json.Unmarshal(raw, &of) != nil {
		return ""
	}
	return quoteName(f.Name) + " <=> (" + of + ")"
}

func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// GeneratedColumn is a column whose value follows from others of the row: a writer computes it for rows that come without it.
type GeneratedColumn struct {
	Name       string
	Expression string // SQL
}

// GeneratedColumns gives those of the table.
func (s *Snapshot) GeneratedColumns() (out []GeneratedColumn) {
	for i := range s.schema.Fields {
		var meta map[string]json.RawMessage
		var of string
		f := &s.schema.Fields[i]
		if len(f.Metadata) > 0 && json.Unmarshal(f.Metadata, &meta) == nil && json.Unmarshal(meta["delta.generationExpression"], &of) == nil {
			out = append(out, GeneratedColumn{f.Name, of})
		}
	}
	return out
}

// invariant takes the expression out of {"expression":{"expression":"a > 3"}}, which is itself a text of JSON; "" when
// it is written otherwise.
func invariant(raw json.RawMessage) string {
	var text string
	var of struct {
		Expression struct {
			Expression string `json:"expression"`
		} `json:"expression"`
	}
	if json.Unmarshal(raw, &text) != nil || json.Unmarshal([]byte(text), &of) != nil {
		return ""
	}
	return of.Expression.Expression
}
