package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// finding is one breach of a rule: where, what, and what to do about it.
type finding struct {
	rule, where, what, remedy string
}

func (f finding) String() string {
	return fmt.Sprintf("%s: %s: %s. %s", f.where, f.rule, f.what, f.remedy)
}

// source is one tracked text file. Go files are parsed.
type source struct {
	path string // from the top of the repository, with slashes
	text string
	ast  *ast.File // nil when it is not Go or does not parse (the compiler says so better)
	fset *token.FileSet
}

func newSource(path, text string) *source {
	s := &source{path: path, text: text}
	if s.isGo() {
		s.fset = token.NewFileSet()
		s.ast, _ = parser.ParseFile(s.fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	}
	return s
}

func (s *source) isGo() bool   { return strings.HasSuffix(s.path, ".go") }
func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }
func (s *source) line(p token.Pos) int {
	return s.fset.Position(p).Line
}

// lines gives the lines without their ends; a last line without an end counts.
func (s *source) lines() []string {
	return strings.Split(strings.TrimSuffix(s.text, "\n"), "\n")
}

var exception = regexp.MustCompile(`//house:allow ([a-z-]+)(: *(\S.*))?`)

// allowed says whether line n (from 1) or the one above holds a reasoned exception from the rule.
func (s *source) allowed(rule string, n int) bool {
	all := s.lines()
	for _, i := range []int{n - 1, n - 2} {
		if i < 0 || i >= len(all) {
			continue
		}
		if m := exception.FindStringSubmatch(all[i]); m != nil && m[1] == rule && m[3] != "" {
			return true
		}
	}
	return false
}

// allowedAnywhere is for rules about a whole file.
func (s *source) allowedAnywhere(rule string) bool {
	for _, m := range exception.FindAllStringSubmatch(s.text, -1) {
		if m[1] == rule && m[3] != "" {
			return true
		}
	}
	return false
}

// pkg is what the rules about imports need of one package.
type pkg struct {
	path    string // from the top of the module: "broker/local"
	name    string
	imports []string // of shipped files; ours also from the top of the module
}

// repository loads the tree once for all tests.
var repository = sync.OnceValues(func() (*tree, error) {
	mod, err := command("go", "list", "-m", "-f", "{{.Path}}\t{{.Dir}}")
	if err != nil {
		return nil, err
	}
	module, top, ok := strings.Cut(strings.TrimSpace(string(mod)), "\t")
	if !ok {
		return nil, fmt.Errorf("go list -m gave %q", mod)
	}
	t := &tree{}
	if err := t.readSources(top); err != nil {
		return nil, err
	}
	return t, t.readPackages(top, module)
})

type tree struct {
	sources  []*source
	packages []pkg
}

func load(t *testing.T) *tree {
	t.Helper()
	tr, err := repository()
	if err != nil {
		t.Fatalf("read the work tree: %v", err)
	}
	return tr
}

// readSources takes what git tracks or would track, so that a new file is judged before it is added.
func (t *tree) readSources(top string) error {
	out, err := command("git", "-C", top, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		b, err := os.ReadFile(filepath.Join(top, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // removed and not yet committed
		}
		if err != nil {
			return fmt.Errorf("read source: %w", err)
		}
		if bytes.IndexByte(b, 0) < 0 { // a file with a zero byte is not text
			t.sources = append(t.sources, newSource(filepath.ToSlash(name), string(b)))
		}
	}
	return nil
}

// readPackages asks the go command. -e: a package that does not compile still has imports to judge.
func (t *tree) readPackages(top, module string) error {
	out, err := command("go", "list", "-C", top, "-e", "-json=ImportPath,Name,Imports", "./...")
	if err != nil {
		return err
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Name string
			Imports          []string
		}
		if err := dec.Decode(&p); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("decode go list: %w", err)
		}
		for i, imp := range p.Imports {
			p.Imports[i] = localPath(module, imp)
		}
		t.packages = append(t.packages, pkg{path: localPath(module, p.ImportPath), name: p.Name, imports: p.Imports})
	}
}

// localPath gives ours as "./record", to tell them from the standard library's.
func localPath(module, path string) string {
	if rest, ok := strings.CutPrefix(path, module); ok && (rest == "" || rest[0] == '/') {
		return "." + rest
	}
	return path
}

func command(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("%s: %w: %s", cmd, err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	return out, nil
}

// testSupport says whether a package exists only for tests, so that it may import what they do.
func testSupport(p string) bool {
	return strings.HasSuffix(path.Base(p), "test") || path.Base(p) == "testkit" || p == "./test" || strings.HasPrefix(p, "./test/")
}

func report(t *testing.T, found []finding) {
	t.Helper()
	for _, f := range found {
		t.Error(f)
	}
}
