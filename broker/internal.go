package broker

import (
	"fmt"
	"strings"
)

// Internal says whether a topic is one that the log or its clients keep for themselves, as Kafka names them: groups'
// offsets, credentials of users, positions of sinks. They get no table, and no face without log-in shows them.
func Internal(topic string) bool { return strings.HasPrefix(topic, "__") }

// Shown is an ErrUnknownTopic if one of topics is internal: a face without log-in asks it before it opens anything.
func Shown(topics ...string) error {
	for _, t := range topics {
		if Internal(t) {
			return fmt.Errorf("%w: %s is internal, and read through the Kafka port only, by those who may", ErrUnknownTopic, t)
		}
	}
	return nil
}
