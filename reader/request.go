package reader

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// Request is what somebody outside of the process asks for: a Config in words and numbers. Every face of the
// reader takes the same, so that a stream has one form everywhere.
type Request struct {
	From        string   `json:"from,omitempty"`  // see ParseBound; default earliest
	Until       string   `json:"until,omitempty"` // default now, or no end when Follow is set
	Partitions  []int32  `json:"partitions,omitempty"`
	Columns     []string `json:"columns,omitempty"`
	Where       string   `json:"where,omitempty"`   // only rows for which it is true; see Config.Where
	Order       string   `json:"order,omitempty"`   // time: see ByTime; default: each partition in the order of its offsets
	MaxRate     string   `json:"maxRate,omitempty"` // see ParseRate; default: no limit
	Limit       int64    `json:"limit,omitempty"`   // rows at most; 0: no limit
	Follow      bool     `json:"follow,omitempty"`
	SkipMissing bool     `json:"skipMissing,omitempty"`
	Gaps        bool     `json:"gaps,omitempty"` // for the face: all offsets without a row are told, not only those that are lost
}

// ErrBadRequest is wrapped by errors about a Request that makes no sense.
var ErrBadRequest = errors.New("bad request")

// Config gives the settings that the request stands for, of a topic whose name is also that of its app. What to read
// from is for the caller to add.
func (r Request) Config(topic string) (Config, error) {
	c := Config{Topic: topic, App: topic, Partitions: r.Partitions, Columns: r.Columns, MaxRows: r.Limit, Where: r.Where, Follow: r.Follow, SkipMissing: r.SkipMissing}
	if r.Limit < 0 {
		return c, fmt.Errorf("%w: limit %d is below 0", ErrBadRequest, r.Limit)
	}
	if r.Order != "" && r.Order != "time" {
		return c, fmt.Errorf("%w: order %q: want time, or nothing", ErrBadRequest, r.Order)
	}
	from := r.From
	if from == "" {
		from = "earliest"
	}
	var err error
	if r.MaxRate != "" {
		if c.Rate, err = ParseRate(r.MaxRate); err != nil {
			return c, fmt.Errorf("%w: %w", ErrBadRequest, err)
		}
	}
	if c.From, err = ParseBound(from, topic); err != nil {
		return c, fmt.Errorf("%w: from %w", ErrBadRequest, err)
	}
	if r.Until != "" {
		if c.Until, err = ParseBound(r.Until, topic); err != nil {
			return c, fmt.Errorf("%w: until %w", ErrBadRequest, err)
		}
	}
	if named := NamedPartitions(from); len(r.Partitions) == 0 {
		c.Partitions = named // who names offsets wants these partitions alone
	}
	return c, nil
}

// Read is what a Request opens: a Cursor, a Topics or a ByTime.
type Read interface {
	Schema() *arrow.Schema
	// Next gives the next rows, io.EOF at the end. The batch is valid until the next call.
	Next(ctx context.Context) (arrow.RecordBatch, error)
	// Token names the place behind the last batch.
	Token() string
	// InLake says whether the last batch came from a table.
	InLake() bool
	Close() error
}

// Open opens the streams of topics, one or several as one. source completes the Config of each with what to read from.
func (r Request) Open(ctx context.Context, topics []string, source func(topic string, c *Config)) (Read, error) {
	switch {
	case len(topics) == 0:
		return nil, fmt.Errorf("%w: no topic", ErrBadRequest)
	case len(topics) > 1:
		return r.openSeveral(ctx, topics, source)
	}
	c, err := r.Config(topics[0])
	if err != nil {
		return nil, err
	}
	source(topics[0], &c)
	if r.Order == "time" {
		b, err := OpenByTime(ctx, ByTimeConfig{Config: c})
		if err != nil {
			return nil, err
		}
		return b, nil
	}
	cur, err := Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return cur, nil
}

func (r Request) openSeveral(ctx context.Context, topics []string, source func(topic string, c *Config)) (Read, error) {
	all := TopicsConfig{Columns: r.Columns, MaxRows: r.Limit}
	one := r
	one.Columns, one.Limit = nil, 0
	if token, ok := strings.CutPrefix(r.From, "token:"); ok { // each stream finds its own place in it
		all.Token, one.From = token, ""
	}
	if err := one.ofSeveral(); err != nil {
		return nil, err
	}
	for _, topic := range topics {
		c, err := one.Config(topic)
		if err != nil {
			return nil, err
		}
		all.Rate = c.Rate
		source(topic, &c)
		all.Streams = append(all.Streams, Stream{Name: topic, Config: c})
	}
	if r.Order == "time" {
		b, err := OpenTopicsByTime(ctx, all, 0)
		if err != nil {
			return nil, err
		}
		return b, nil
	}
	t, err := OpenTopics(ctx, all)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// ofSeveral refuses places that are of one topic.
func (r Request) ofSeveral() error {
	switch {
	case len(NamedPartitions(r.From)) > 0, strings.HasPrefix(r.From, "version:"):
		return fmt.Errorf("%w: from PARTITION:OFFSET and version: name places in one topic: of several say earliest, latest, a time or a token", ErrBadRequest)
	case len(NamedPartitions(r.Until)) > 0, strings.HasPrefix(r.Until, "token:"), strings.HasPrefix(r.Until, "version:"):
		return fmt.Errorf("%w: until PARTITION:OFFSET, version: and token: name places in one topic: of several say now or a time", ErrBadRequest)
	}
	return nil
}
