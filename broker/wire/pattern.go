package wire

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

const (
	maxPatternText = 4096
	maxPatternSize = 100_000 // instructions
)

// pattern is a regular expression of a client. It matches whole names.
type pattern struct {
	text string
	re   *regexp.Regexp
	size int64 // bytes in memory, about
}

// compilePattern refuses what would take much memory: a short text can make a large program (I8).
func compilePattern(text string) (*pattern, error) {
	if len(text) > maxPatternText {
		return nil, fmt.Errorf("pattern of %d bytes: want at most %d", len(text), maxPatternText)
	}
	whole := "^(?:" + text + ")$"
	tree, err := syntax.Parse(whole, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if len(prog.Inst) > maxPatternSize {
		return nil, fmt.Errorf("pattern of %d instructions: want at most %d", len(prog.Inst), maxPatternSize)
	}
	re, err := regexp.Compile(whole)
	if err != nil {
		return nil, err
	}
	return &pattern{text: text, re: re, size: int64(len(text) + 128*len(prog.Inst))}, nil
}

// matches is false for no pattern.
func (p *pattern) matches(name string) bool { return p != nil && p.re.MatchString(name) }

func (p *pattern) String() string {
	if p == nil {
		return ""
	}
	return p.text
}
