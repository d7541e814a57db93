package wire

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// The page for operators says which keys and versions are served, and which settings topics, groups and brokers have. A row that is missing
// or wrong is printed as it should be.
func TestDocumentedKeys(t *testing.T) {
	raw, err := os.ReadFile("../../docs/kafka.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	table := buildTable(&memLog{})
	for _, key := range slices.Sorted(maps.Keys(table)) {
		a := table[key]
		row := fmt.Sprintf("| %d | %s | %d-%d |", a.key, a.name, max(a.min, a.served), a.max)
		if !strings.Contains(page, row) {
			t.Errorf("docs/kafka.md lacks: %s", row)
		}
	}
	for line := range strings.Lines(page) {
		var key int16
		if n, _ := fmt.Sscanf(line, "| %d |", &key); n == 1 {
			if _, ok := table[key]; !ok {
				t.Errorf("docs/kafka.md names a key that is not served: %s", line)
			}
		}
	}
	for _, c := range topicConfigs() {
		if !strings.Contains(page, "`"+c.name+"`") {
			t.Errorf("docs/kafka.md lacks the topic setting %s", c.name)
		}
	}
	for _, c := range tunableConfigs() {
		if !strings.Contains(page, "`"+c.name+"`") {
			t.Errorf("docs/kafka.md lacks the broker setting %s", c.name)
		}
	}
	for _, c := range groupConfigs(Config{}.withDefaults()) {
		if !strings.Contains(page, "`"+c.name+"`") {
			t.Errorf("docs/kafka.md lacks the group setting %s", c.name)
		}
	}
}
