package pulsar

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
)

// ask gets what the admin API has at a path, with its query, behind /admin/v2/. An empty answer leaves into as it is.
func (s *Source) ask(ctx context.Context, path string, into any) error {
	path, query, _ := strings.Cut(path, "?")
	at := strings.TrimSuffix(s.cfg.Admin, "/") + "/admin/v2/" + (&url.URL{Path: path}).EscapedPath()
	if query != "" {
		at += "?" + query
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	if s.cfg.Auth.Method == "token" && s.cfg.Auth.Data != nil {
		token, err := s.cfg.Auth.Data(ctx)
		if err != nil {
			return fmt.Errorf("get credentials: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+string(token))
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: s.cfg.TLS, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", wire.ErrLost, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return fmt.Errorf("%w: %w", wire.ErrLost, err)
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusNoContent:
	case http.StatusNotFound, http.StatusTemporaryRedirect: // it moves to another broker
		return fmt.Errorf("%w: %s: %.200s", wire.ErrLost, resp.Status, raw)
	default:
		err := fmt.Errorf("%s: %.200s", resp.Status, raw)
		if resp.StatusCode >= http.StatusInternalServerError {
			err = fmt.Errorf("%w: %w", wire.ErrLost, err)
		}
		return err
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	return json.Unmarshal(raw, into)
}

// Conflicts asks the admin API what of the policies of a topic may take messages before they are in a table, or stop
// producers while they are not: time to live, backlog quotas, and the end of subscriptions that nobody uses. Each is one
// sentence. The log-in needs the right to see policies.
func (s *Source) Conflicts(ctx context.Context, topic string) ([]string, error) {
	var out []string
	var ttl int64
	if err := s.ask(ctx, "persistent/"+topic+"/messageTTL?applied=true", &ttl); err != nil {
		return nil, fmt.Errorf("time to live of %s: %w", topic, err)
	}
	if ttl > 0 {
		out = append(out, fmt.Sprintf("a time to live (messageTTL) of %s takes messages away that are not in the table by then: no pause of ingest may be longer", time.Duration(ttl)*time.Second))
	}
	var quotas map[string]struct {
		Size   int64  `json:"limitSize"`
		Time   int64  `json:"limitTime"`
		Policy string `json:"policy"`
	}
	if err := s.ask(ctx, "persistent/"+topic+"/backlogQuotaMap?applied=true", &quotas); err != nil {
		return nil, fmt.Errorf("backlog quotas of %s: %w", topic, err)
	}
	for _, kind := range []string{"destination_storage", "message_age"} {
		q, set := quotas[kind]
		limit := fmt.Sprintf("%d bytes", q.Size)
		if kind == "message_age" {
			limit, set = (time.Duration(q.Time) * time.Second).String(), set && q.Time > 0
		} else {
			set = set && q.Size > 0
		}
		switch {
		case !set:
		case q.Policy == "consumer_backlog_eviction":
			out = append(out, fmt.Sprintf("a backlog quota of %s with consumer_backlog_eviction takes messages away that are not in the table", limit))
		default:
			out = append(out, fmt.Sprintf("a backlog quota of %s with %s stops producers when ingest stands still", limit, q.Policy))
		}
	}
	var minutes int64
	namespace := topic[:strings.LastIndexByte(topic, '/')]
	if err := s.ask(ctx, "namespaces/"+namespace+"/subscriptionExpirationTime", &minutes); err != nil {
		return nil, fmt.Errorf("expiration of subscriptions of %s: %w", namespace, err)
	}
	if minutes > 0 {
		out = append(out, fmt.Sprintf("subscriptionExpirationTimeMinutes of %d removes what holds messages back when ingest is down for longer", minutes))
	}
	return out, nil
}
