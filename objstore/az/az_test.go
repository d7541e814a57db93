package az_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/az"
)

func open(t *testing.T, endpoint string) *az.Store {
	t.Helper()
	s, err := az.Open(az.Config{Account: "account", Key: "a2V5", Container: "lake", Endpoint: endpoint})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPutIfAbsentFailures: what is not known is called so, and sent once. The suite of all stores runs in
// test/stores, on a server.
func TestPutIfAbsentFailures(t *testing.T) {
	refuse := func(status int, code string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("x-ms-error-code", code)
			w.WriteHeader(status)
		}
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		unknown bool
		want    error
	}{
		"answer lost":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true, objstore.ErrUnknownOutcome},
		"busy":            {refuse(http.StatusServiceUnavailable, "ServerBusy"), true, objstore.ErrUnknownOutcome},
		"exists":          {refuse(http.StatusConflict, "BlobAlreadyExists"), false, objstore.ErrExists},
		"condition":       {refuse(http.StatusPreconditionFailed, "ConditionNotMet"), false, objstore.ErrExists},
		"no right":        {refuse(http.StatusForbidden, "AuthorizationPermissionMismatch"), false, az.ErrDenied},
		"bad key":         {refuse(http.StatusForbidden, "AuthenticationFailed"), false, az.ErrCredentials},
		"no container":    {refuse(http.StatusNotFound, "ContainerNotFound"), false, az.ErrNoContainer},
		"another refusal": {refuse(http.StatusConflict, "LeaseIdMissing"), false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if r.Header.Get("If-None-Match") != "*" {
					t.Error("the upload is not conditional")
				}
				requests.Add(1)
				c.handler(w, r)
			}))
			defer srv.Close()
			err := open(t, srv.URL).PutIfAbsent(t.Context(), "0.json", []byte("x"))
			if err == nil || c.want != nil && !errors.Is(err, c.want) || errors.Is(err, objstore.ErrUnknownOutcome) != c.unknown {
				t.Errorf("PutIfAbsent = %v, want %v", err, c.want)
			}
			if refused := c.want == az.ErrDenied || c.want == az.ErrCredentials; objstore.Refused(err) != refused {
				t.Errorf("PutIfAbsent = %v: that a person has to mend rights is %v", err, !refused)
			}
			if c.want != objstore.ErrExists && errors.Is(err, objstore.ErrExists) {
				t.Errorf("it looks like a lost race: %v", err)
			}
			if requests.Load() != 1 {
				t.Errorf("%d requests, want 1", requests.Load())
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	for _, cfg := range []az.Config{
		{}, {Account: "a"}, {Container: "c"}, {Account: "a", Container: "c", Key: "not base64!"}, {Account: "a", Container: "c", Key: "a2V5", SAS: "sig=x"},
		{Account: "a", Container: "c", PartSize: 1}, {Account: "a", Container: "c", Prefix: "a/../b"},
	} {
		if _, err := az.Open(cfg); err == nil {
			t.Errorf("Open(%+v) is fine", cfg)
		}
	}
	if err := open(t, "http://127.0.0.1:1").PutIfAbsent(t.Context(), "k", nil); !errors.Is(err, az.ErrUnreachable) || errors.Is(err, objstore.ErrUnknownOutcome) {
		t.Errorf("nothing listens: %v", err)
	}
	for _, key := range []string{`a\b`, "a.", "a./b"} {
		if err := open(t, "http://127.0.0.1:1").Put(t.Context(), key, nil); !errors.Is(err, objstore.ErrInvalidKey) {
			t.Errorf("Put(%q) = %v, want ErrInvalidKey", key, err)
		}
	}
}
