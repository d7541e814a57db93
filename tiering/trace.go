package tiering

import (
	"time"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
)

// Step is one part of the work on a commit, by this machine's clock. Zero: there was none.
type Step struct {
	Start, End time.Time
	Busy       time.Duration // of all goroutines that did it
}

// add counts work that began at start and has ended.
func (s *Step) add(start time.Time) {
	end := time.Now()
	s.join(Step{Start: start, End: end, Busy: end.Sub(start)})
}

// join makes one step of two.
func (s *Step) join(o Step) {
	if s.Start.IsZero() || !o.Start.IsZero() && o.Start.Before(s.Start) {
		s.Start = o.Start
	}
	if o.End.After(s.End) {
		s.End = o.End
	}
	s.Busy += o.Busy
}

// steps are those that come before the files of a commit are whole. The next commit's go on meanwhile.
type steps struct{ fetch, decode, encode Step }

func (s *steps) join(o steps) {
	s.fetch.join(o.fetch)
	s.decode.join(o.decode)
	s.encode.join(o.encode)
}

// CommitTrace tells of one commit, or of one that failed, when it is over.
type CommitTrace struct {
	Topic, App, Table    string
	Version              deltalog.Version  // -1 when it failed
	Ranges               []committer.Range // offsets whose fate it decides
	Rows, Records, Bytes int64             // records: rows and dead letters; bytes of keys and values
	DeadLetters, Files   int
	FileBytes            int64

	// Fetch, Decode and Encode are spread over the time in which the rows were collected; Upload, Letters (dead letters) and
	// Commit follow one another.
	Fetch, Decode, Encode, Upload, Letters, Commit Step

	Err error // nil: it is in the table
}

// traced gives what is known of a commit before its upload.
func (s *session) traced(all *output) CommitTrace {
	c := s.t.cfg
	return CommitTrace{Topic: c.Topic, App: c.App, Table: c.Table.Store.URL(), Version: -1, Ranges: all.ranges, Rows: all.rows, Records: all.records,
		Bytes: all.bytes, DeadLetters: len(all.dead), Fetch: all.steps.fetch, Decode: all.steps.decode, Encode: all.steps.encode}
}
