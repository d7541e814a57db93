package reader

import "sync"

// Gaps keeps what OnGap tells until somebody takes it, for faces that tell it to others. Streams of several topics tell
// from goroutines of their own: all methods are safe for concurrent use. The zero Gaps keeps lost offsets alone.
type Gaps struct {
	All bool // whatever the reason; set before the first Add

	mu   sync.Mutex
	told []TopicGap
}

// TopicGap is a Gap of a topic.
type TopicGap struct {
	Topic string `json:"topic"`
	Gap
}

// Add is for OnGap.
func (g *Gaps) Add(topic string, one Gap) {
	if !g.All && one.Reason != GapLost {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told = append(g.told, TopicGap{topic, one})
}

// Take gives those told since the last call.
func (g *Gaps) Take() []TopicGap {
	g.mu.Lock()
	defer g.mu.Unlock()
	told := g.told
	g.told = nil
	return told
}
