package offload

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Listed is a ledger as the admin API lists it.
type Listed struct {
	ID      int64  `json:"ledgerId"`
	Entries int64  `json:"entries"` // 0 while it is open
	UUID    string `json:"offloadedContextUuid"`
}

type listing struct {
	Ledgers []Listed `json:"ledgers"`
}

// ParseLists reads what GET .../TOPIC/internal-info or internalStats answers, or partitioned-internalStats, or
// internal-info of a partitioned topic: the ledgers of each partition, by the partition's topic
// (tenant/namespace/topic-partition-N). Of a topic alone the answer does not say the name: it is then topic.
func ParseLists(topic string, raw []byte) (map[string][]Listed, error) {
	var doc struct {
		listing
		Partitions map[string]listing `json:"partitions"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("list of ledgers: %w: want what the admin API answers to internal-info", err)
	}
	out := map[string][]Listed{}
	for name, l := range doc.Partitions {
		out[strings.TrimPrefix(name, "persistent://")] = l.Ledgers
	}
	if len(out) == 0 {
		if doc.Ledgers == nil {
			return nil, errors.New("list of ledgers: there is neither \"ledgers\" nor \"partitions\" in it: want what the admin API answers to internal-info")
		}
		out[topic] = doc.Ledgers
	}
	for _, all := range out { // internal-info comes in no order
		slices.SortFunc(all, func(a, b Listed) int { return cmp.Compare(a.ID, b.ID) })
	}
	return out, nil
}
