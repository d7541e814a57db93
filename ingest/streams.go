package ingest

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/yamlkeys"
)

// Route is one entry of a file of streams: topics and the table that they fill. What it leaves out is as the flags of the
// command say. {topic} in Table, App and Group is replaced by the topic.
type Route struct {
	Topics      []string      `yaml:"topics"`  // names, and
	Pattern     string        `yaml:"pattern"` // a regular expression over whole names, also of topics made later
	Table       string        `yaml:"table"`
	DeadLetters string        `yaml:"dead-letters"`
	App         string        `yaml:"app"`   // default: the topic
	Group       string        `yaml:"group"` // default: none, this process reads all partitions
	Format      string        `yaml:"format"`
	Schema      string        `yaml:"schema"` // file
	Start       string        `yaml:"start"`
	OnGap       string        `yaml:"on-gap"`
	AsIs        *bool         `yaml:"as-is"`
	FlushAge    time.Duration `yaml:"flush-age"`
	FlushRows   int           `yaml:"flush-rows"`
	FlushBytes  int64         `yaml:"flush-bytes"`
	Memory      int64         `yaml:"memory"` // bytes, of each topic of the route

	// Flags are all other keys: flags of the command that say what values are and what rows look like. Who runs the
	// stream knows them.
	Flags map[string]any `yaml:",inline"`

	pattern *regexp.Regexp
}

// Stream is one topic of a route, with nothing left to replace.
type Stream struct {
	Topic  string
	Route  Route
	Shared bool // other topics fill the same table
}

// Name identifies a stream: no two of a file have the same.
func (s *Stream) Name() string { return s.Topic + " -> " + s.Route.Table }

// Key changes with every setting.
func (s *Stream) Key() string {
	r := s.Route
	asIs := "default"
	if r.AsIs != nil {
		asIs = fmt.Sprint(*r.AsIs)
	}
	r.AsIs, r.pattern, r.Topics = nil, nil, nil
	return fmt.Sprintf("%s %+v as-is %s shared %v", s.Topic, r, asIs, s.Shared)
}

// LoadRoutes reads a file of streams.
func LoadRoutes(path string) ([]Route, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read streams: %w", err)
	}
	var doc struct {
		Streams []Route `yaml:"streams"`
	}
	if err := yamlkeys.Check(raw, doc); err != nil {
		return nil, fmt.Errorf("read streams %s: %w", path, err)
	}
	if err := yaml.Load(raw, &doc, yaml.WithKnownFields()); err != nil {
		return nil, fmt.Errorf("read streams %s: %w", path, err)
	}
	for i := range doc.Streams {
		if err := doc.Streams[i].check(); err != nil {
			return nil, fmt.Errorf("read streams %s: stream %d: %w", path, i+1, err)
		}
	}
	return doc.Streams, nil
}

func (r *Route) check() (err error) {
	switch {
	case len(r.Topics) == 0 && r.Pattern == "":
		return errors.New("topics or a pattern is needed")
	case r.Table == "":
		return errors.New("a table is needed")
	case r.FlushAge < 0 || r.FlushRows < 0 || r.FlushBytes < 0 || r.Memory < 0:
		return errors.New("a limit is negative")
	}
	if r.Pattern != "" {
		if r.pattern, err = regexp.Compile("^(?:" + r.Pattern + ")$"); err != nil {
			return fmt.Errorf("pattern %q: %w", r.Pattern, err)
		}
	}
	return nil
}

// NeedTopics says whether a route has a pattern, so that Expand has to know the topics that there are.
func NeedTopics(routes []Route) bool {
	return slices.ContainsFunc(routes, func(r Route) bool { return r.pattern != nil })
}

// Expand gives the streams of routes. Kafka's own topics, whose names begin with __, match no pattern. Two streams that
// would write the same position of one table are an error: each would take the other's records for its own. So are two of
// one topic and table: each record would be there twice (I3).
func Expand(routes []Route, topics []string) ([]Stream, error) {
	var out []Stream
	for i := range routes {
		r := &routes[i]
		names := slices.Clone(r.Topics)
		for _, t := range topics {
			if r.pattern != nil && !broker.Internal(t) && r.pattern.MatchString(t) {
				names = append(names, t)
			}
		}
		slices.Sort(names)
		for _, t := range slices.Compact(names) {
			s := Stream{Topic: t, Route: *r}
			for _, field := range []*string{&s.Route.Table, &s.Route.App, &s.Route.Group, &s.Route.DeadLetters} {
				*field = strings.ReplaceAll(*field, "{topic}", t)
			}
			if s.Route.App == "" {
				s.Route.App = t
			}
			out = append(out, s)
		}
	}
	byPosition, byName, byTable := map[[2]string]*Stream{}, map[string]*Stream{}, map[string]int{}
	for i := range out {
		s := &out[i]
		if other := byName[s.Name()]; other != nil {
			return nil, fmt.Errorf("topic %s fills table %s twice, as app %s and as app %s: each record would be there twice", s.Topic, s.Route.Table, other.Route.App, s.Route.App)
		}
		byName[s.Name()] = s
		at := [2]string{s.Route.Table, s.Route.App}
		if other := byPosition[at]; other != nil {
			return nil, fmt.Errorf("topics %s and %s both fill table %s as app %s: give each an app of its own", other.Topic, s.Topic, s.Route.Table, s.Route.App)
		}
		byPosition[at] = s
		byTable[s.Route.Table]++
	}
	for i := range out {
		out[i].Shared = byTable[out[i].Route.Table] > 1
	}
	return out, nil
}
