package pulsar

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/pulsartest"
)

// TestConflictsAreNamed: each policy that could take messages, or stop producers, is one sentence; those that do no harm are
// none (I6).
func TestConflictsAreNamed(t *testing.T) {
	answers := map[string]string{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, answers[strings.TrimPrefix(r.URL.RequestURI(), "/admin/v2/")])
	}))
	defer srv.Close()
	b := pulsartest.Start(t)
	s, err := Open(t.Context(), Config{Service: b.Addr(), Admin: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const ttl, quota, expiry = "persistent/a/b/c/messageTTL?applied=true", "persistent/a/b/c/backlogQuotaMap?applied=true", "namespaces/a/b/subscriptionExpirationTime"
	for _, c := range []struct {
		answers map[string]string
		want    []string
	}{
		{map[string]string{}, nil},
		{map[string]string{ttl: "0", quota: `{"destination_storage":{"limit":-1,"limitSize":-1,"limitTime":-1,"policy":"producer_request_hold"}}`, expiry: "0"}, nil},
		{map[string]string{ttl: "3600"}, []string{"1h0m0s"}},
		{map[string]string{quota: `{"destination_storage":{"limitSize":1024,"policy":"consumer_backlog_eviction"},"message_age":{"limitTime":60,"policy":"producer_exception"}}`},
			[]string{"1024 bytes with consumer_backlog_eviction takes messages", "1m0s with producer_exception stops producers"}},
		{map[string]string{expiry: "5"}, []string{"subscriptionExpirationTimeMinutes of 5"}},
	} {
		answers = c.answers
		got, err := s.Conflicts(t.Context(), "a/b/c")
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%v: %q, %v", c.answers, got, err)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%q, want %q", got[i], want)
			}
		}
	}
	answers = map[string]string{ttl: "no number"}
	if _, err := s.Conflicts(t.Context(), "a/b/c"); err == nil {
		t.Error("an answer that is none was taken")
	}
}
