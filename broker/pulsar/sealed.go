package pulsar

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
)

// Ledger is one of the ledgers that a partition lies in.
type Ledger struct {
	ID      int64 `json:"ledgerId"`
	Entries int64 `json:"entries"` // 0 while it is open
	Size    int64 `json:"size"`
}

// ledgers gives the ledgers of a partition's topic that are left, and the last entry that is confirmed. A ledger is
// sealed when it is not the last one; then its numbers are final.
func (s *Source) ledgers(ctx context.Context, topic string) ([]Ledger, MessageID, error) {
	name := strings.TrimPrefix(topic, "persistent://")
	var stats struct {
		Last    string   `json:"lastConfirmedEntry"`
		Ledgers []Ledger `json:"ledgers"`
	}
	if err := s.ask(ctx, "persistent/"+name+"/internalStats", &stats); err != nil {
		return nil, MessageID{}, fmt.Errorf("ask for the ledgers of %s: %w", name, err)
	}
	last := wire.Earliest
	if _, err := fmt.Sscanf(stats.Last, "%d:%d", &last.Ledger, &last.Entry); err != nil {
		return nil, MessageID{}, fmt.Errorf("ledgers of %s: last confirmed entry %q", name, stats.Last)
	}
	return stats.Ledgers, last, nil
}

// isSealed says whether a ledger is closed: it is not the last one, and something is confirmed in a later one, so
// that no broker that fails over could still add to it. The broker is asked once a second at most.
func (p *partition) isSealed(ctx context.Context, ledger int64) (bool, error) {
	p.mu.Lock()
	known, soon := p.sealed >= ledger, time.Since(p.asked) < time.Second
	if !known && !soon {
		p.asked = time.Now()
	}
	p.mu.Unlock()
	if known || soon {
		return known, nil
	}
	all, last, err := p.s.ledgers(ctx, p.topic)
	if err != nil {
		return false, err
	}
	sealed := int64(-1)
	for i, l := range all {
		if i < len(all)-1 && l.Entries > 0 && l.ID < last.Ledger {
			sealed = max(sealed, l.ID)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sealed = max(p.sealed, sealed)
	return p.sealed >= ledger, nil
}
