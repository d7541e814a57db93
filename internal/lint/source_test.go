package lint

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

const (
	maxFileLines = 800
	maxFuncLines = 120
)

// checkDocs wants one doc comment a package, on the package clause of one shipped file. A package of
// tests only needs one too. A comment with a blank line below it is not attached and does not count.
func checkDocs(sources []*source) (found []finding) {
	type docs struct {
		name  string
		files []string
	}
	byDir := map[string]*docs{}
	var order []string
	for _, s := range sources {
		if s.ast == nil || strings.Contains("/"+s.path, "/testdata/") {
			continue
		}
		dir := path.Dir(s.path)
		d := byDir[dir]
		if d == nil {
			d = &docs{}
			byDir[dir], order = d, append(order, dir)
		}
		d.name = strings.TrimSuffix(s.ast.Name.Name, "_test")
		if s.ast.Doc == nil {
			continue
		}
		if !s.isTest() || strings.HasPrefix(s.ast.Doc.Text(), "Package ") {
			d.files = append(d.files, s.path)
		}
		if first := s.ast.Doc.Text(); !s.isTest() && !regexp.MustCompile(`^(Package `+d.name+`|Command `+path.Base(dir)+`) `).MatchString(first) {
			found = append(found, finding{"package-doc", s.path, "its package comment does not begin with the package's name",
				fmt.Sprintf("Begin with 'Package %s ...' and what it guarantees, or put a blank line below if it is no package comment", d.name)})
		}
	}
	for _, dir := range order {
		switch n := len(byDir[dir].files); {
		case n == 0:
			found = append(found, finding{"package-doc", dir, "no file has a doc comment on its package clause",
				"Say in doc.go what the package guarantees, with no blank line above 'package'"})
		case n > 1:
			found = append(found, finding{"package-doc", dir, fmt.Sprintf("the package comment is in several files: %v", byDir[dir].files),
				"Keep it in one; put a blank line between the others and 'package'"})
		}
	}
	return found
}

func checkFileSize(s *source) (found []finding) {
	if n := len(s.lines()); n > maxFileLines && !s.allowedAnywhere("file-size") {
		found = append(found, finding{"file-size", s.path, fmt.Sprintf("%d lines, the limit is %d", n, maxFileLines),
			"It holds more than one concept: give each a file"})
	}
	return found
}

func checkFuncSize(s *source) (found []finding) {
	for _, d := range s.ast.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		from := s.line(f.Pos())
		if n := s.line(f.End()) - from + 1; n > maxFuncLines && !s.allowed("func-size", from) {
			found = append(found, finding{"func-size", fmt.Sprintf("%s:%d", s.path, from),
				fmt.Sprintf("%s has %d lines, the limit is %d", f.Name.Name, n, maxFuncLines),
				"Name its steps and make them functions"})
		}
	}
	return found
}

func checkSleep(s *source) (found []finding) {
	ast.Inspect(s.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Sleep" {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && id.Name == "time" && !s.allowed("no-sleep", s.line(sel.Pos())) {
			found = append(found, finding{"no-sleep", fmt.Sprintf("%s:%d", s.path, s.line(sel.Pos())), "the test sleeps",
				"Wait for the event: a channel, a context, or testing/synctest where time itself is tested"})
		}
		return true
	})
	return found
}

var invariant = regexp.MustCompile(`\bI[1-8]\b`)

// cited gives the invariants that a test's comments name.
func cited(s *source) (names []string) {
	for _, g := range s.ast.Comments {
		for _, c := range g.List {
			names = append(names, invariant.FindAllString(c.Text, -1)...)
		}
	}
	return names
}

func checkInvariants(sources []*source) (found []finding) {
	seen := map[string]bool{}
	for _, s := range sources {
		// The rules' own tests talk about invariants without proving one.
		if s.ast == nil || !s.isTest() || strings.HasPrefix(s.path, "internal/lint/") {
			continue
		}
		for _, name := range cited(s) {
			seen[name] = true
		}
	}
	for i := 1; i <= 8; i++ {
		if name := fmt.Sprintf("I%d", i); !seen[name] {
			found = append(found, finding{"invariants", name, "no test cites it",
				"Write the test that proves it and name the invariant in its comment; DESIGN.md says what it promises"})
		}
	}
	return found
}

func TestEveryPackageIsDocumented(t *testing.T) { report(t, checkDocs(load(t).sources)) }

func TestFilesAndFunctionsAreShort(t *testing.T) {
	for _, s := range load(t).sources {
		if s.ast != nil && !s.isTest() && !ast.IsGenerated(s.ast) {
			report(t, checkFileSize(s))
			report(t, checkFuncSize(s))
		}
	}
}

func TestNoTestSleeps(t *testing.T) {
	for _, s := range load(t).sources {
		if s.ast != nil && s.isTest() && !strings.HasPrefix(s.path, "test/") {
			report(t, checkSleep(s))
		}
	}
}

func TestEveryInvariantIsCited(t *testing.T) { report(t, checkInvariants(load(t).sources)) }
