package lint

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
)

// code says whether a file is a source that a person writes: those are ASCII.
func code(s *source) bool {
	switch path.Ext(s.path) {
	case ".go", ".sh", ".py", ".mod", ".xml", ".yaml", ".yml", ".toml":
		return !strings.Contains("/"+s.path, "/testdata/")
	}
	return s.path == "Makefile" || s.path == ".ci/run"
}

func checkASCII(s *source) (found []finding) {
	for i, line := range s.lines() {
		for j := range len(line) {
			c := line[j]
			if (c >= 0x80 || c < 0x20 && c != '\t' || c == 0x7f) && !s.allowed("ascii", i+1) {
				found = append(found, finding{"ascii", fmt.Sprintf("%s:%d:%d", s.path, i+1, j+1), fmt.Sprintf("byte %#02x", c),
					`Write it in ASCII; inside a Go string use an escape such as "\u00e9"`})
				break
			}
		}
	}
	return found
}

var (
	// The names are put together from parts, so that this file does not break its own rule.
	localPlace = regexp.MustCompile(`(^|[^A-Za-z0-9_./-])/(` + strings.Join([]string{"work", "root"}, "|") + `)/`)
	registries = regexp.MustCompile(strings.Join([]string{
		"proxy" + `\.golang\.org`, "sum" + `\.golang\.org`, "py" + `pi\.org`, "python" + `hosted\.org`,
		"repo1?" + `\.maven`, "repo" + `\.maven\.apache`, "registry" + `\.npmjs`, "index" + `\.crates\.io`}, "|"))
)

func checkPlaces(s *source) (found []finding) {
	for i, line := range s.lines() {
		where := fmt.Sprintf("%s:%d", s.path, i+1)
		if m := localPlace.FindString(line); m != "" && !s.allowed("local-paths", i+1) {
			found = append(found, finding{"local-paths", where, "it names a path of one machine",
				"Use a path from the top of the repository, a flag, or a temporary directory"})
		}
		if m := registries.FindString(line); m != "" && !s.allowed("local-paths", i+1) {
			found = append(found, finding{"local-paths", where, "it names the package registry " + m,
				"Leave the registry to the settings of go, pip and mvn: a mirror must work as well"})
		}
	}
	return found
}

// checkExceptions keeps the exceptions honest: each has a rule that exists, and a reason.
func checkExceptions(s *source) (found []finding) {
	for i, line := range s.lines() {
		m := exception.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		where := fmt.Sprintf("%s:%d", s.path, i+1)
		if !ruleNames[m[1]] {
			found = append(found, finding{"exceptions", where, "there is no rule " + m[1], "The rules are listed in internal/lint/doc.go"})
		}
		if m[3] == "" {
			found = append(found, finding{"exceptions", where, "no reason is given", "Write //house:allow RULE: why it must be so here"})
		}
	}
	return found
}

var ruleNames = map[string]bool{"file-size": true, "func-size": true, "no-sleep": true, "ascii": true, "local-paths": true}

func TestSourcesAreASCII(t *testing.T) {
	for _, s := range load(t).sources {
		if code(s) {
			report(t, checkASCII(s))
		}
	}
}

func TestNoFileNamesAMachineOrARegistry(t *testing.T) {
	for _, s := range load(t).sources {
		report(t, checkPlaces(s))
	}
}

func TestExceptionsHaveReasons(t *testing.T) {
	for _, s := range load(t).sources {
		if s.isGo() && !strings.HasPrefix(s.path, "internal/lint/") {
			report(t, checkExceptions(s))
		}
	}
}

var (
	testName = regexp.MustCompile("`(Test[A-Z0-9][A-Za-z0-9]*)`")
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Z0-9][A-Za-z0-9]*)\(`)
)

// checkTestNames finds tests that a page names as proof and that are not there.
func checkTestNames(sources []*source) (found []finding) {
	have := map[string]bool{}
	for _, s := range sources {
		if s.isTest() {
			for _, m := range testFunc.FindAllStringSubmatch(s.text, -1) {
				have[m[1]] = true
			}
		}
	}
	for _, s := range sources {
		if path.Ext(s.path) != ".md" {
			continue
		}
		for i, line := range s.lines() {
			for _, m := range testName.FindAllStringSubmatch(line, -1) {
				if !have[m[1]] {
					found = append(found, finding{"test-names", fmt.Sprintf("%s:%d", s.path, i+1), "there is no test " + m[1],
						"Name the test that shows it now, or write one; without a proof say so"})
				}
			}
		}
	}
	return found
}

func TestPagesNameTestsThatExist(t *testing.T) { report(t, checkTestNames(load(t).sources)) }
