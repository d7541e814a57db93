package clients

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

type printed struct {
	Step      string
	Partition int32
	Offset    int64
	Value     string
}

// Clients that share no code with each other produce, commit and abort transactions, read in groups, go on where a group
// stood, and read from an offset, of a topic whose first records are in the lake alone (I2, I4, I6). What they print is
// compared with what a reader of its own sees.
func TestForeignClients(t *testing.T) {
	need(t)
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ language, name string }{
		{"python", "aiokafka"}, {"python", "kafka-python"}, {"node", "kafkajs"}, {"node", "platformatic"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const history, sent, late = 1000, 220, 10
			s := harness.Serve(t, t.TempDir(), "", "--flush-age", "200ms", "--format", "raw", "--topic", "t:2")
			var values []string
			for i := range history {
				values = append(values, fmt.Sprintf("history %d", i))
			}
			send(t, s.Addr, "t", values)
			onlyInTheLake(t, s, "t", history)

			file := filepath.Join(dir, map[string]string{"python": "foreign.py", "node": "foreign.js"}[c.language])
			steps := map[string]map[harness.Position]string{}
			var seek []printed
			for line := range strings.Lines(string(run(t, c.language, file, c.name, s.Addr, "t", fmt.Sprint(history)))) {
				var p printed
				if err := json.Unmarshal([]byte(line), &p); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				if p.Step == "seek" {
					seek = append(seek, p)
					continue
				}
				if steps[p.Step] == nil {
					steps[p.Step] = map[harness.Position]string{}
				}
				at := harness.Position{Partition: p.Partition, Offset: p.Offset}
				if was, twice := steps[p.Step][at]; twice {
					t.Fatalf("step %s: %s came twice, as %q and %q", p.Step, at, was, p.Value)
				}
				steps[p.Step][at] = p.Value
			}
			truth := map[harness.Position]string{}
			for _, r := range harness.Consume(t, s.Addr, "t") {
				truth[r.Position] = string(r.Value)
			}
			if len(truth) != history+sent+late {
				t.Errorf("the topic holds %d committed records, want %d", len(truth), history+sent+late)
			}
			for step, want := range map[string]int{"read": history + sent, "resumed": late} {
				if len(steps[step]) != want {
					t.Errorf("step %s: %d records, want %d", step, len(steps[step]), want)
				}
			}
			for step, recs := range steps {
				for at, v := range recs {
					if step == "aborted" {
						if _, there := truth[at]; there || !strings.Contains(v, "aborted") {
							t.Errorf("the aborted record %q at %s is read: %q", v, at, truth[at])
						}
					} else if truth[at] != v {
						t.Errorf("step %s: %s is %q, and %q for another reader", step, at, v, truth[at])
					}
				}
			}
			for at, v := range steps["resumed"] {
				if _, again := steps["read"][at]; again || !strings.HasPrefix(v, c.name+" late") {
					t.Errorf("the group went on with %q at %s", v, at)
				}
			}
			first := harness.Position{Partition: 1, Offset: 7}
			if len(seek) != 1 || seek[0].Partition != 1 || seek[0].Offset != 7 || seek[0].Value != truth[first] {
				t.Errorf("a read from %s began with %+v, want %q", first, seek, truth[first])
			}
		})
	}
}
