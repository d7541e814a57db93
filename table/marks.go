package table

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
)

// Two things about the log are kept as table properties: which offsets were lost before they came into the table,
// and which topic it was filled from. Properties are in every snapshot, also after checkpoints and log cleanup,
// need no protocol feature, and are part of the commit that moves the positions (I3).

// maxLost bounds the lost ranges kept for a partition. Beyond it the two with the fewest offsets between them
// are joined: readers use them only to name offsets that have no row.
const maxLost = 1000

// LostProperty is the property with the lost offsets of a partition: [[from, to], ...] with to exclusive, sorted.
func LostProperty(app string, partition int32) string {
	return "ledgerlake.lost." + AppID(app, partition)
}

// Lost gives the offsets of a partition that retention took before they were tiered, sorted.
func Lost(snap *deltalog.Snapshot, app string, partition int32) ([]Range, error) {
	key := LostProperty(app, partition)
	text, ok := snap.Metadata().Configuration[key]
	if !ok {
		return nil, nil
	}
	var spans [][2]int64
	if err := json.Unmarshal([]byte(text), &spans); err != nil {
		return nil, fmt.Errorf("table property %s: %w", key, err)
	}
	out := make([]Range, len(spans))
	for i, s := range spans {
		if s[0] < 0 || s[1] <= s[0] {
			return nil, fmt.Errorf("table property %s: [%d, %d) is no range of offsets", key, s[0], s[1])
		}
		out[i] = Range{partition, record.Offset(s[0]), record.Offset(s[1])}
	}
	return normalize(out), nil
}

// AddLost gives the value of LostProperty with more offsets of the partition.
func AddLost(snap *deltalog.Snapshot, app string, partition int32, more []Range) (string, error) {
	have, err := Lost(snap, app, partition)
	if err != nil {
		return "", err
	}
	all := joinClosest(normalize(append(have, more...)), maxLost)
	spans := make([][2]int64, len(all))
	for i, r := range all {
		spans[i] = [2]int64{int64(r.From), int64(r.To)}
	}
	text, err := json.Marshal(spans)
	return string(text), err
}

// joinClosest joins neighbors of one partition until at most n are left.
func joinClosest(ranges []Range, n int) []Range {
	for len(ranges) > max(n, 1) {
		best := 1
		for i := 2; i < len(ranges); i++ {
			if ranges[i].From-ranges[i-1].To < ranges[best].From-ranges[best-1].To {
				best = i
			}
		}
		ranges[best-1].To = ranges[best].To
		ranges = slices.Delete(ranges, best, best+1)
	}
	return ranges
}

// TopicProperty is the property with the id of the topic that an application fills the table from.
func TopicProperty(app string) string { return "ledgerlake.topic-id." + app }

// TopicChangedError says that a topic is not the one that the table was filled from.
type TopicChangedError struct {
	Topic   string
	Was, Is [16]byte
}

func (e *TopicChangedError) Error() string {
	return fmt.Sprintf("topic %s was deleted and made again: the table was filled from the one with id %s, now it has id %s, and its offsets "+
		"mean other records; move the old table away or give the new topic's table another path. If the new topic holds the same records at the "+
		"same offsets (restored or mirrored), go on with ingest --accept-new-topic", e.Topic, uuid.UUID(e.Was), uuid.UUID(e.Is))
}

// CheckTopic compares a topic's id with the one that the table records; *TopicChangedError when they differ. It
// says whether the table records one. An id of zeros is unknown and agrees with all.
func CheckTopic(snap *deltalog.Snapshot, app, topic string, id [16]byte) (recorded bool, err error) {
	key := TopicProperty(app)
	text, ok := snap.Metadata().Configuration[key]
	if !ok {
		return false, nil
	}
	was, err := uuid.Parse(text)
	if err != nil {
		return false, fmt.Errorf("table property %s: %w", key, err)
	}
	if id != [16]byte{} && was != id {
		return true, &TopicChangedError{Topic: topic, Was: was, Is: id}
	}
	return true, nil
}

// OtherTopicError says that a table without a column that tells topics apart is filled under another name already. Each of its
// rows is told by partition and offset alone, so those of a second topic, or of the same one under a second name, would be there twice.
type OtherTopicError struct {
	App  string // that fills it
	Same bool   // from the topic that is about to
}

func (e *OtherTopicError) Error() string {
	if e.Same {
		return fmt.Sprintf("the table is filled from this topic already, under app %s: go on with --app %s, or name another table", e.App, e.App)
	}
	return fmt.Sprintf("the table is filled from another topic already (app %s), and its rows are told apart by partition and offset alone: "+
		"name another table; a new one that is made with --topic-column takes several topics", e.App)
}

// CheckAlone refuses an application that begins where another one fills a table with *OtherTopicError, by the topics that the table
// records. One that the table records goes on, as older builds let several begin: to send it to the other's position would bring
// records twice.
func CheckAlone(snap *deltalog.Snapshot, app string, id [16]byte) error {
	props := snap.Metadata().Configuration
	if _, known := props[TopicProperty(app)]; known {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(props)) {
		if other, ok := strings.CutPrefix(key, TopicProperty("")); ok && other != app {
			return &OtherTopicError{App: other, Same: id != [16]byte{} && props[key] == FormatTopicID(id)}
		}
	}
	return nil
}

// FormatTopicID gives the value of TopicProperty.
func FormatTopicID(id [16]byte) string { return uuid.UUID(id).String() }
