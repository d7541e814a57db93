// Package registry looks schemas up in a registry that speaks Confluent's HTTP API, and remembers them.
//
// An id names one schema for ever, so an answer is kept as long as the client lives. Errors are of three kinds, since so
// much depends on it: ErrUnknown, when the registry answers that there is no such schema, ErrUnfit, when there is one
// that will never be of use here, and everything else (no connection, a time-out, an answer that is none), which says nothing of the schema and may be over the next time.
//
// A Client is safe for concurrent use. It talks to the registry only for what it does not have, once for all who wait.
package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"golang.org/x/sync/singleflight"
)

// ErrUnknown means that the registry has no such schema.
var ErrUnknown = errors.New("the registry has no such schema")

// ErrUnfit means that the registry has the schema, but of a type that is not known here, or with too many references.
// It is remembered like ErrUnknown.
var ErrUnfit = errors.New("the schema is of no use")

// Kind is the language of a schema.
type Kind string

// The kinds.
const (
	Avro     Kind = "AVRO"
	Protobuf Kind = "PROTOBUF"
	JSON     Kind = "JSON"
)

// Schema is one schema with all that it refers to.
type Schema struct {
	ID   int // 0 when it was asked for by subject and the registry told none
	Kind Kind
	Text string
	Refs []Ref // what it needs, at any depth, each behind what it needs itself
}

// Ref is a schema that another one refers to by name.
type Ref struct {
	Name string
	Text string
}

// Config of a Client.
type Config struct {
	URLs     []string // of the registry; tried in turn. Credentials in them are used like User and Password.
	User     string   // basic authentication; none when empty
	Password string
	// Timeout of one request; default 10 s.
	Timeout time.Duration
	// HTTP is the client to use; default: one that takes proxies from the environment (HTTPS_PROXY, NO_PROXY).
	HTTP *http.Client
}

// forget is how long an id that the registry does not know is not asked for again.
const forget = 10 * time.Second

// maxUnknown bounds the unknown ids that are remembered: they come from messages.
const maxUnknown = 10_000

// refusal is why an id has no schema, ErrUnknown or ErrUnfit, and when it was asked for.
type refusal struct {
	err error
	at  time.Time
}

// Client is a registry with a memory.
type Client struct {
	sr       *sr.Client
	timeout  time.Duration
	patience time.Duration   // 0: without end
	ctx      context.Context // of all requests: decoders have none; ended by Close
	cancel   context.CancelFunc
	once     singleflight.Group

	mu      sync.Mutex
	known   map[int]*Schema
	unknown map[int]refusal
}

// Open makes a client. It does not talk to the registry yet.
func Open(cfg Config) (*Client, error) {
	if len(cfg.URLs) == 0 {
		return nil, errors.New("open registry: a URL is needed")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	urls, user, password, err := credentials(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{Transport: http.DefaultTransport} // which looks at the proxy variables
	}
	opts := []sr.ClientOpt{sr.URLs(urls...), sr.UserAgent("ledgerlake"), sr.HTTPClient(cfg.HTTP)}
	if user != "" {
		opts = append(opts, sr.BasicAuth(user, password))
	}
	cl, err := sr.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("open registry: %w", err)
	}
	c := &Client{sr: cl, timeout: cfg.Timeout, known: map[int]*Schema{}, unknown: map[int]refusal{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// SetPatience says how long ByID waits for an answer: one that takes longer is waited for in the background, and there for a later
// call. At first it waits as long as the request may take. It is called before the client is shared.
func (c *Client) SetPatience(d time.Duration) { c.patience = d }

// Close ends what is under way.
func (c *Client) Close() error {
	c.cancel()
	return nil
}

// errSlow says that the registry did not answer within the client's patience.
var errSlow = errors.New("the registry has not answered yet")

// ByID is the schema of an id, from memory if it was there before.
func (c *Client) ByID(id int) (*Schema, error) {
	c.mu.Lock()
	s, asked := c.known[id], c.unknown[id]
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	if asked.err != nil && time.Since(asked.at) < forget {
		return nil, fmt.Errorf("schema id %d: %w", id, asked.err)
	}
	var late <-chan time.Time // nil: never
	if c.patience > 0 {
		timer := time.NewTimer(c.patience)
		defer timer.Stop()
		late = timer.C
	}
	got := c.once.DoChan(strconv.Itoa(id), func() (any, error) { return c.load(id) })
	select {
	case r := <-got:
		if r.Err != nil {
			return nil, fmt.Errorf("schema id %d: %w", id, r.Err)
		}
		return r.Val.(*Schema), nil
	case <-late:
		return nil, fmt.Errorf("schema id %d: %w, after %v", id, errSlow, c.patience)
	}
}

func (c *Client) load(id int) (*Schema, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.timeout)
	defer cancel()
	raw, err := c.sr.SchemaByID(ctx, id)
	var s *Schema
	if err == nil {
		s, err = c.whole(ctx, id, raw)
	}
	err = judge(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.known[id] = s
		delete(c.unknown, id)
	case errors.Is(err, ErrUnknown), errors.Is(err, ErrUnfit):
		if len(c.unknown) >= maxUnknown {
			clear(c.unknown)
		}
		c.unknown[id] = refusal{err, time.Now()}
	}
	return s, err
}

// Latest is the newest schema of a subject.
func (c *Client) Latest(ctx context.Context, subject string) (*Schema, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	raw, err := c.sr.SchemaByVersion(ctx, subject, -1)
	var s *Schema
	if err == nil {
		s, err = c.whole(ctx, raw.ID, raw.Schema)
	}
	if err = judge(err); err != nil {
		return nil, fmt.Errorf("subject %s: %w", subject, err)
	}
	return s, nil
}

// judge tells "there is none" from "no answer". A 404 without the registry's own code comes from something else that
// stands at the address.
func judge(err error) error {
	var no *sr.ResponseError
	if !errors.As(err, &no) {
		if err != nil { // the client library has no value for this one
			if _, typ, ok := strings.Cut(err.Error(), "unknown schema type"); ok {
				return fmt.Errorf("%w: its type%s is not known", ErrUnfit, typ)
			}
		}
		return err
	}
	switch no.ErrorCode {
	case sr.ErrSubjectNotFound.Code, sr.ErrVersionNotFound.Code, sr.ErrSchemaNotFound.Code:
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}
