package table

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/ledgerlake/ledgerlake/deltalog"
)

// Rows of several topics may be in one table when a column says which topic a row is of. It is a partition column, so
// each file is of one topic, the log says of which, and no engine that rewrites files mixes them. All that goes by offset is about one
// topic then: a Table that was opened for one (Config.Topic) sees the files of it alone, and one that was opened for none reads
// rows as those of a table without offsets, file by file.

// TopicColumn is the usual name of the column that tells topics apart.
const TopicColumn = "_topic"

// ErrSeveralTopics says that offsets mean nothing where it is not said which topic they are of.
var ErrSeveralTopics = errors.New("the table has rows of several topics, each with offsets of its own: say which one (--topic)")

// Topic is the one of several topics of the table whose rows it gives and takes; empty for all.
func (t *Table) Topic() string {
	if t.Names.Topic == "" {
		return ""
	}
	return t.cfg.Topic
}

// Ordered says whether the rows that are read have one place each in a log.
func (t *Table) Ordered() bool {
	return t.Names.Ordered() && (t.Names.Topic == "" || t.cfg.Topic != "")
}

// Topics gives the topics that a snapshot has rows of, of a table with a column that tells them apart. It looks at all files.
func (t *Table) Topics(snap *deltalog.Snapshot) ([]string, error) {
	byTopic, err := t.filesByTopic(snap)
	return slices.Sorted(maps.Keys(byTopic)), err
}

func (t *Table) filesByTopic(snap *deltalog.Snapshot) (map[string][]*deltalog.Add, error) {
	files, err := filesOf(snap)
	if err != nil {
		return nil, err
	}
	column := t.namesIn(snap).Topic
	out := map[string][]*deltalog.Add{}
	for a := range files {
		topic := topicOf(a, column)
		out[topic] = append(out[topic], a)
	}
	return out, nil
}

// namesIn gives the system columns as the files and statistics of a snapshot call them.
func (t *Table) namesIn(snap *deltalog.Snapshot) Names {
	if m, err := mappingOf(snap); err == nil {
		return m.names(t.Names)
	}
	return t.Names
}

func topicOf(a *deltalog.Add, column string) string {
	if v := a.PartitionValues[column]; v != nil {
		return *v
	}
	return ""
}

// oneTopic says whether files are all of the same topic.
func oneTopic(files []*deltalog.Add, column string) bool {
	return !slices.ContainsFunc(files, func(a *deltalog.Add) bool { return topicOf(a, column) != topicOf(files[0], column) })
}

// ofTopic says whether a file can have rows that the table gives. n are the system columns as files call them.
func (t *Table) ofTopic(a *deltalog.Add, n Names) bool {
	topic := t.Topic()
	return topic == "" || topicOf(a, n.Topic) == topic
}

// topicColumn gives the column of a table that tells topics apart; empty for none.
func topicColumn(meta *deltalog.Metadata) string {
	var n Names
	if raw, ok := meta.Configuration[namesProperty]; !ok || json.Unmarshal([]byte(raw), &n) != nil {
		return ""
	}
	return n.Topic
}
