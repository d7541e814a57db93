package pulsar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
)

// Token logs in with a token that does not change.
func Token(token string) wire.Auth {
	return wire.Auth{Method: "token", Data: func(context.Context) ([]byte, error) { return []byte(token), nil }}
}

// TokenFile logs in with the token that a file holds at the time.
func TokenFile(path string) wire.Auth {
	return wire.Auth{Method: "token", Data: func(context.Context) ([]byte, error) {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		return []byte(strings.TrimSpace(string(raw))), nil
	}}
}

// OAuth2 logs in with tokens that an issuer gives for the credentials in a key file, a JSON object with client_id,
// client_secret and perhaps issuer_url (the client credentials grant, RFC 6749 section 4.4).
type OAuth2 struct {
	KeyFile  string
	Issuer   string // default: that of the key file
	Audience string
	Scope    string
	Client   *http.Client // default: one with a time limit

	mu    sync.Mutex
	token []byte
	until time.Time
}

// Auth gives what a Config takes.
func (o *OAuth2) Auth() wire.Auth { return wire.Auth{Method: "token", Data: o.get} }

func (o *OAuth2) get(ctx context.Context) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Now().Before(o.until) {
		return o.token, nil
	}
	var key struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Issuer string `json:"issuer_url"`
	}
	raw, err := os.ReadFile(o.KeyFile)
	if err == nil {
		err = json.Unmarshal(raw, &key)
	}
	if err != nil {
		return nil, fmt.Errorf("read the key file: %w", err)
	}
	if o.Issuer != "" {
		key.Issuer = o.Issuer
	}
	if key.ID == "" || key.Secret == "" || key.Issuer == "" {
		return nil, errors.New("the key file lacks client_id, client_secret or issuer_url")
	}
	var found struct {
		Endpoint string `json:"token_endpoint"`
	}
	if err := o.do(ctx, strings.TrimSuffix(key.Issuer, "/")+"/.well-known/openid-configuration", nil, &found); err != nil {
		return nil, err
	}
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {key.ID}, "client_secret": {key.Secret}}
	if o.Audience != "" {
		form.Set("audience", o.Audience)
	}
	if o.Scope != "" {
		form.Set("scope", o.Scope)
	}
	var got struct {
		Token   string `json:"access_token"`
		Expires int64  `json:"expires_in"`
	}
	if err := o.do(ctx, found.Endpoint, form, &got); err != nil {
		return nil, err
	}
	if got.Token == "" {
		return nil, fmt.Errorf("%s gave no access_token", found.Endpoint)
	}
	const spare = 0.9 // of its life: it must still be good when it arrives
	o.token, o.until = []byte(got.Token), time.Now().Add(time.Duration(spare*float64(got.Expires)*float64(time.Second)))
	return o.token, nil
}

// do gets a JSON object; with a form it posts that.
func (o *OAuth2) do(ctx context.Context, at string, form url.Values, into any) error {
	method, body := http.MethodGet, io.Reader(nil)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, at, body)
	if err != nil {
		return err
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	client := o.Client
	if client == nil {
		client = &http.Client{Timeout: 30 * time.Second}
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("read %s: %w", at, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %.200s", at, resp.Status, raw)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read %s: %w", at, err)
	}
	return nil
}
