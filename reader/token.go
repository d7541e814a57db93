package reader

import (
	"context"
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
	Next    map[int32]int64 `json:"next,omitempty"`    // partition -> next offset
	Streams []token         `json:"streams,omitempty"` // of tokenOfSeveral: one each, Topic is its name
	// Time is the watermark of a read in the order of time, in microseconds; such a token is good for other reads too.
	Time *int64 `json:"time,omitempty"`
}

const (
	tokenOfOne     = 1
	tokenOfSeveral = 2
)

func (t token) String() string {
	b, _ := json.Marshal(t) // ints and strings always marshal
	return base64.RawURLEncoding.EncodeToString(b)
}

// Token names the place behind the last batch that Next gave. It survives restarts and releases.
func (c *Cursor) Token() string {
	t := token{Version: tokenOfOne, Topic: c.cfg.Topic, Next: make(map[int32]int64, len(c.parts))}
	for _, p := range c.parts {
		t.Next[p.id] = int64(p.next)
	}
	return t.String()
}

// resumable refuses a table whose rows lie nowhere in a log: a token names no place in it, so what goes on from one would
// give all of them again.
func (c *Cursor) resumable(ctx context.Context) error {
	if c.snap == nil || !c.cfg.Resumable && c.cfg.From.kind != boundOffsets {
		return nil
	}
	if c.names().Ordered() {
		ends := c.rowEnds
		if len(c.parts) > 0 || c.snap.NumFiles() == 0 {
			return nil
		}
		if !c.byRows {
			var err error
			if ends, err = endsOfRows(ctx, c.cfg.Table, c.snap, nil); err != nil {
				return err
			}
		}
		if len(ends) > 0 {
			return nil
		}
	}
	if err := c.cfg.Table.Spoilt(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotReplayable, err)
	}
	return fmt.Errorf("%w: its rows have no place in a log that a token or an offset could name: read it whole, or name the columns of the places with --map", ErrNotReplayable)
}

// AtToken turns a resume token of the same topic into a Bound to start from.
func AtToken(s, topic string) (Bound, error) {
	t, err := parseToken(s)
	if err != nil {
		return Bound{}, err
	}
	switch {
	case t.Version == tokenOfSeveral:
		return Bound{}, fmt.Errorf("%w of one topic: it is of a read of several", ErrBadToken)
	case t.Topic != topic:
		return Bound{}, fmt.Errorf("%w: it belongs to topic %q, not %q", ErrBadToken, t.Topic, topic)
	}
	return t.bound()
}

// AtTokens turns the resume token of a read of several streams into the Bound of each, by name. An empty one gives none.
func AtTokens(s string) (map[string]Bound, error) {
	if s == "" {
		return nil, nil
	}
	t, err := parseToken(s)
	if err != nil {
		return nil, err
	}
	if t.Version != tokenOfSeveral {
		return nil, fmt.Errorf("%w of several topics: it is of topic %q alone", ErrBadToken, t.Topic)
	}
	out := map[string]Bound{}
	for _, one := range t.Streams {
		one.Time = t.Time
		if out[one.Topic], err = one.bound(); err != nil {
			return nil, err
		}
	}
	if len(out) != len(t.Streams) {
		return nil, fmt.Errorf("%w: it names a topic twice", ErrBadToken)
	}
	return out, nil
}

func parseToken(s string) (t token, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	if err != nil {
		return t, fmt.Errorf("token:%.40s: %w: read --token and the trailer Ledgerlake-Token give one", s, ErrBadToken)
	}
	if t.Version != tokenOfOne && t.Version != tokenOfSeveral {
		return t, fmt.Errorf("%w: version %d, this release reads versions %d and %d", ErrBadToken, t.Version, tokenOfOne, tokenOfSeveral)
	}
	return t, nil
}

// bound is the place of one stream.
func (t token) bound() (Bound, error) {
	at, err := t.place()
	if err == nil && t.Time != nil {
		at.watermark = *t.Time
	}
	return at, err
}

func (t token) place() (Bound, error) {
	offsets := make(map[int32]record.Offset, len(t.Next))
	for p, o := range t.Next {
		if p < 0 || o < 0 {
			return Bound{}, fmt.Errorf("%w: partition %d at offset %d", ErrBadToken, p, o)
		}
		offsets[p] = record.Offset(o)
	}
	return AtOffsets(offsets), nil
}
