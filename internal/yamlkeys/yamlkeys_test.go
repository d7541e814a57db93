package yamlkeys

import (
	"strings"
	"testing"
)

type item struct {
	Value string `yaml:"value"`
}

type file struct {
	Name    string   `yaml:"name"`
	MaxRate string   `yaml:"maxRate,omitempty"`
	Columns []item   `yaml:"columns"`
	Keep    []string `yaml:"keep"`
	Open    []struct {
		Topic string         `yaml:"topic"`
		Rest  map[string]any `yaml:",inline"`
	} `yaml:"open"`
}

// The key, its line and what was meant; what the decoder refuses is left to it.
func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		"name: a\nmaxrate: 1\n": `line 2: there is no key "maxrate": did you mean "maxRate"?`,
		"nam: a\n":              `line 1: there is no key "nam": did you mean "name"?`,
		"name: a\ncolumns:\n- value: b\n- {vale: c}\n":    `line 4: there is no key "vale": did you mean "value"?`,
		"name: a\n\nfrobnicate: 1\n":                      `line 3: there is no key "frobnicate" here; the keys are columns, keep, maxRate, name, open`,
		"name: a\nmaxRate: 1\nopen: [{topic: b, any: 1}]": "",
		"[":       "",
		"":        "",
		"# a":     "",
		"a":       "line 1: want lines of KEY: VALUE; the keys are columns, keep, maxRate, name, open",
		"- a":     "line 1: want lines of KEY: VALUE",
		"keep: 1": "",
	} {
		err := Check([]byte(text), file{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
