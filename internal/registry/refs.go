package registry

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/twmb/franz-go/pkg/sr"
)

// maxRefs bounds the schemas that one may refer to.
const maxRefs = 1000

var errTooManyRefs = fmt.Errorf("%w: it has more than %d references", ErrUnfit, maxRefs)

// whole fetches what a schema refers to.
func (c *Client) whole(ctx context.Context, id int, raw sr.Schema) (*Schema, error) {
	out := &Schema{ID: id, Text: raw.Schema}
	switch raw.Type {
	case sr.TypeAvro:
		out.Kind = Avro
	case sr.TypeProtobuf:
		out.Kind = Protobuf
	case sr.TypeJSON:
		out.Kind = JSON
	default:
		return nil, fmt.Errorf("%w: its type %s is not known", ErrUnfit, raw.Type)
	}
	l := refLoader{client: c, seen: map[string]bool{}, out: out}
	if err := l.follow(ctx, raw.References); err != nil {
		return nil, err
	}
	return out, nil
}

type refLoader struct {
	client *Client
	seen   map[string]bool
	out    *Schema
}

// follow adds the references behind those that they have themselves. A name that was seen is not followed again,
// so circles end.
func (l *refLoader) follow(ctx context.Context, refs []sr.SchemaReference) error {
	if len(refs) > maxRefs { // before any is asked for
		return errTooManyRefs
	}
	for _, r := range refs {
		if l.seen[r.Name] {
			continue
		}
		if l.seen[r.Name] = true; len(l.seen) > maxRefs {
			return errTooManyRefs
		}
		got, err := l.client.sr.SchemaByVersion(ctx, r.Subject, r.Version)
		if err = judge(err); errors.Is(err, ErrUnfit) {
			return fmt.Errorf("reference %s: %w", r.Name, err)
		}
		if err != nil {
			// The schema that refers is there: what it needs was there too, and may be again.
			return fmt.Errorf("reference %s (subject %s, version %d): %s", r.Name, r.Subject, r.Version, err.Error())
		}
		if err := l.follow(ctx, got.References); err != nil {
			return err
		}
		l.out.Refs = append(l.out.Refs, Ref{Name: r.Name, Text: got.Schema.Schema})
	}
	return nil
}

// credentials takes user and password out of the URLs.
func credentials(cfg Config) (urls []string, user, password string, err error) {
	user, password = cfg.User, cfg.Password
	for _, s := range cfg.URLs {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, "", "", errors.New("open registry: the address is not http://HOST:PORT or https://HOST:PORT")
		}
		if u.User != nil {
			if user == "" {
				user = u.User.Username()
				password, _ = u.User.Password()
			}
			u.User = nil
		}
		urls = append(urls, u.String())
	}
	return urls, user, password, nil
}
