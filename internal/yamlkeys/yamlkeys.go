// Package yamlkeys refuses unknown keys of a YAML file in the words of who wrote it: the key, its line, and the one that was
// meant. Decoders name the Go type instead.
package yamlkeys

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Check gives an error for the first key that like, a struct with yaml tags, has no field for, and for a file without keys; nil also for what is no YAML, or has
// values of other types: the decoder says that. Structs in lists and fields are looked at too; one with an inline map takes any key.
// It is safe for concurrent use.
func Check(raw []byte, like any) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil || len(doc.Content) == 0 {
		return nil
	}
	root, t := doc.Content[0], reflect.TypeOf(like)
	if t.Kind() == reflect.Struct && root.Kind != yaml.MappingNode && root.Tag != "!!null" {
		known, _ := fieldsOf(t)
		return fmt.Errorf("line %d: want lines of KEY: VALUE; the keys are %s", root.Line, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return check(root, t)
}

func check(n *yaml.Node, t reflect.Type) error {
	switch {
	case t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			if err := check(item, t.Elem()); err != nil {
				return err
			}
		}
	case t.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		return checkFields(n, t)
	}
	return nil
}

func checkFields(n *yaml.Node, t reflect.Type) error {
	known, open := fieldsOf(t)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		of, ok := known[key.Value]
		switch {
		case ok:
			if err := check(value, of); err != nil {
				return err
			}
		case !open && key.Value != "<<":
			names := slices.Sorted(maps.Keys(known))
			if near := Nearest(key.Value, names); near != "" {
				return fmt.Errorf("line %d: there is no key %q: did you mean %q?", key.Line, key.Value, near)
			}
			return fmt.Errorf("line %d: there is no key %q here; the keys are %s", key.Line, key.Value, strings.Join(names, ", "))
		}
	}
	return nil
}

// fieldsOf gives the keys of a struct with their types. open says that it takes others too.
func fieldsOf(t reflect.Type) (known map[string]reflect.Type, open bool) {
	known = map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case strings.Contains(options, "inline"):
			open = true
		case name == "-" || !f.IsExported():
		case name == "":
			known[strings.ToLower(f.Name)] = f.Type
		default:
			known[name] = f.Type
		}
	}
	return known, open
}

// Nearest is the name that differs by the fewest letters; empty when all differ by many.
func Nearest(key string, names []string) (best string) {
	least := max(2, len(key)/3) + 1
	for _, name := range names {
		if d := distance(strings.ToLower(key), strings.ToLower(name)); d < least && d < len(name) {
			best, least = name, d
		}
	}
	return best
}

// distance counts the letters to add, take away or change (Levenshtein's).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
