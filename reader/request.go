package reader

import (
	"errors"
	"fmt"
)

// Request is what somebody outside of the process asks for: a Config in words and numbers. Every face of the
// reader takes the same, so that a stream has one form everywhere.
type Request struct {
	From        string   `json:"from,omitempty"`  // see ParseBound; default earliest
	Until       string   `json:"until,omitempty"` // default now, or no end when Follow is set
	Partitions  []int32  `json:"partitions,omitempty"`
	Columns     []string `json:"columns,omitempty"`
	Where       string   `json:"where,omitempty"` // only rows for which it is true; see Config.Where
	Limit       int64    `json:"limit,omitempty"` // rows at most; 0: no limit
	Follow      bool     `json:"follow,omitempty"`
	SkipMissing bool     `json:"skipMissing,omitempty"`
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
	from := r.From
	if from == "" {
		from = "earliest"
	}
	var err error
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
