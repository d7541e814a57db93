package lint

import (
	"strings"
	"testing"
)

// TestRulesFindTheirFaults shows each rule the fault that it exists for, and a neighbour that is fine:
// a rule that never fires would pass for ever.
func TestRulesFindTheirFaults(t *testing.T) {
	inFile := func(check func(*source) []finding, path, text string) []finding { return check(newSource(path, text)) }
	long := strings.Repeat("\n", maxFileLines)
	longFunc := "package p\n\nfunc f() {" + strings.Repeat("\n", maxFuncLines) + "}\n"
	sleeps := "package p\n\nimport \"time\"\n\nfunc f() {\n\ttime.Sleep(1)%s\n}\n"
	place := "/" + "work" + "/x"

	for _, c := range []struct {
		name string
		got  []finding
		want int
	}{
		{"up", checkDirection([]pkg{{path: "./segment", imports: []string{"./table"}}}), 1},
		{"sideways", checkDirection([]pkg{{path: "./tiering", imports: []string{"./reader"}}}), 1},
		{"sideways inside broker", checkDirection([]pkg{{path: "./broker/local", imports: []string{"./broker/kafka"}}}), 1},
		{"contract imports an implementation", checkDirection([]pkg{{path: "./broker", imports: []string{"./broker/local"}}}), 1},
		{"down", checkDirection([]pkg{{path: "./broker/local", imports: []string{"./broker", "./segment", "./internal/vfs", "fmt"}}}), 0},
		{"inside a unit", checkDirection([]pkg{{path: "./objstore/s3", imports: []string{"./objstore"}}}), 0},
		{"in no layer", checkDirection([]pkg{{path: "./stuff"}}), 1},

		{"sdk outside", checkSDKs([]pkg{{path: "./tiering", imports: []string{"github.com/twmb/franz-go/pkg/kgo"}}}), 1},
		{"sdk subfolder outside", checkSDKs([]pkg{{path: "./deltalog", imports: []string{"github.com/aws/aws-sdk-go-v2/service/s3"}}}), 1},
		{"sdk at home", checkSDKs([]pkg{{path: "./broker/kafka", imports: []string{"github.com/twmb/franz-go/pkg/kgo"}}}), 0},

		{"testing shipped", checkTestImports([]pkg{{path: "./table", imports: []string{"testing"}}}), 1},
		{"suite shipped", checkTestImports([]pkg{{path: "./table", imports: []string{"./objstore/objstoretest"}}}), 1},
		{"testing in a suite", checkTestImports([]pkg{{path: "./objstore/objstoretest", imports: []string{"testing"}}}), 0},

		{"empty name", checkNames([]pkg{{path: "./internal/util", name: "util"}}), 1},
		{"good name", checkNames([]pkg{{path: "./record", name: "record"}}), 0},

		{"no doc", checkDocs([]*source{newSource("a/a.go", "package a\n")}), 1},
		{"detached doc", checkDocs([]*source{newSource("a/a.go", "// Package a is.\n\npackage a\n")}), 1},
		{"doc of another name", checkDocs([]*source{newSource("a/a.go", "// Package b is.\npackage a\n")}), 1},
		{"two docs", checkDocs([]*source{newSource("a/a.go", "// Package a is.\npackage a\n"), newSource("a/b.go", "// Package a does.\npackage a\n")}), 1},
		{"doc", checkDocs([]*source{newSource("a/a.go", "// Package a is.\npackage a\n"), newSource("a/a_test.go", "package a_test\n")}), 0},
		{"command doc", checkDocs([]*source{newSource("cmd/x/main.go", "// Command x does.\npackage main\n")}), 0},

		{"long file", inFile(checkFileSize, "a.go", "package a\n"+long), 1},
		{"longest file", inFile(checkFileSize, "a.go", "package a"+long), 0},
		{"excused long file", inFile(checkFileSize, "a.go", "package a\n//house:allow file-size: a table of constants\n"+long), 0},
		{"long function", inFile(checkFuncSize, "a.go", longFunc), 1},
		{"excused long function", inFile(checkFuncSize, "a.go", strings.Replace(longFunc, "func", "//house:allow func-size: one switch\nfunc", 1)), 0},

		{"sleep", inFile(checkSleep, "a_test.go", strings.Replace(sleeps, "%s", "", 1)), 1},
		{"sleep excused without a reason", inFile(checkSleep, "a_test.go", strings.Replace(sleeps, "%s", " //house:allow no-sleep", 1)), 1},
		{"sleep excused", inFile(checkSleep, "a_test.go", strings.Replace(sleeps, "%s", " //house:allow no-sleep: the clock is tested", 1)), 0},

		{"no invariant", checkInvariants([]*source{newSource("a_test.go", "package a\n")}), 8},
		{"invariants in code do not count", checkInvariants([]*source{newSource("a_test.go", "package a\n\nvar I1, I2 int\n")}), 8},
		{"two invariants", checkInvariants([]*source{newSource("a_test.go", "package a\n\n// I1 and I8 hold, I9 and XI2 are none\n")}), 6},

		{"accent", inFile(checkASCII, "a.go", "package a // caf\u00e9\n"), 1},
		{"control byte", inFile(checkASCII, "a.sh", "echo \x01\n"), 1},
		{"ascii", inFile(checkASCII, "a.go", "package a\n\tvar x = `~`\n"), 0},

		{"machine path", inFile(checkPlaces, "a.md", "see `"+place+"`\n"), 1},
		{"machine path at the start", inFile(checkPlaces, "a.sh", place+"\n"), 1},
		{"part of another path", inFile(checkPlaces, "a.go", "src"+place+"\n"), 0},
		{"registry", inFile(checkPlaces, "Makefile", "GOPROXY=https://proxy"+".golang.org\n"), 1},
		{"no registry", inFile(checkPlaces, "go.mod", "require golang.org/x/sync v0.25.0\n"), 0},

		{"a test that is not there", checkTestNames([]*source{newSource("docs/a.md", "see `TestGone` and `TestHere`, `Testing`\n"), newSource("a_test.go", "package a\nfunc TestHere(t *testing.T) {}\n")}), 1},
		{"a helper is no test", checkTestNames([]*source{newSource("docs/a.md", "`TestX`\n"), newSource("a.go", "package a\nfunc TestX() {}\n")}), 1},

		{"exception of no rule", inFile(checkExceptions, "a.go", "//house:allow sloth: tired\n"), 1},
		{"exception of no reason", inFile(checkExceptions, "a.go", "//house:allow ascii\n"), 1},
		{"good exception", inFile(checkExceptions, "a.go", "//house:allow ascii: the test is about it\n"), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if len(c.got) != c.want {
				t.Errorf("%d findings, want %d: %v", len(c.got), c.want, c.got)
			}
			for _, f := range c.got {
				if f.rule == "" || f.where == "" || f.what == "" || f.remedy == "" {
					t.Errorf("a finding must name rule, place, fault and remedy: %+v", f)
				}
			}
		})
	}
}
