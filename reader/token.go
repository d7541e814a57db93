package reader

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ledgerlake/ledgerlake/record"
)

// ErrBadToken is returned for a resume token that this package did not make.
var ErrBadToken = errors.New("not a resume token")

// token is the content of a resume token. Part of the format: never change a field; add.
type token struct {
	Version int             `json:"v"`
	Topic   string          `json:"topic,omitempty"`
	Next    map[int32]int64 `json:"next"` // partition -> next offset
}

// Token names the place behind the last batch that Next gave. It survives restarts and releases.
func (c *Cursor) Token() string {
	t := token{Version: 1, Topic: c.cfg.Topic, Next: make(map[int32]int64, len(c.parts))}
	for _, p := range c.parts {
		t.Next[p.id] = int64(p.next)
	}
	b, _ := json.Marshal(t) // ints and strings always marshal
	return base64.RawURLEncoding.EncodeToString(b)
}

// AtToken turns a resume token of the same topic into a Bound to start from.
func AtToken(s, topic string) (Bound, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return Bound{}, fmt.Errorf("%w: %v", ErrBadToken, err)
	}
	var t token
	if err := json.Unmarshal(raw, &t); err != nil {
		return Bound{}, fmt.Errorf("%w: %v", ErrBadToken, err)
	}
	if t.Version != 1 {
		return Bound{}, fmt.Errorf("%w: version %d, this release reads version 1", ErrBadToken, t.Version)
	}
	if t.Topic != topic {
		return Bound{}, fmt.Errorf("%w: it belongs to topic %q, not %q", ErrBadToken, t.Topic, topic)
	}
	offsets := make(map[int32]record.Offset, len(t.Next))
	for p, o := range t.Next {
		if p < 0 || o < 0 {
			return Bound{}, fmt.Errorf("%w: partition %d at offset %d", ErrBadToken, p, o)
		}
		offsets[p] = record.Offset(o)
	}
	return AtOffsets(offsets), nil
}
