package broker

import (
	"fmt"
	"strings"
)

// Topics that the Kafka port makes for itself, by the names that Kafka's clients know them by. No client appends to them.
const (
	OffsetsTopic      = "__consumer_offsets"    // committed offsets of groups
	TransactionsTopic = "__transaction_state"   // what the transaction coordinator knows
	SettingsTopic     = "__ledgerlake_settings" // access rules, quotas, credentials of users
	ShareTopic        = "__share_group_state"   // what share groups know of their partitions
)

// State says whether a topic is one of those. Other internal topics are their clients'.
func State(topic string) bool {
	return topic == OffsetsTopic || topic == TransactionsTopic || topic == SettingsTopic || topic == ShareTopic
}

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
