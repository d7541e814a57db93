package s3_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore/s3"
)

// TestAssumedRole: with the environment of a pod or a profile the store works by a role's credentials, session token and
// all, and takes new ones when they run out.
func TestAssumedRole(t *testing.T) {
	for _, how := range []string{"web identity", "profile"} {
		t.Run(how, func(t *testing.T) {
			var given atomic.Int64
			sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := r.ParseForm(); err != nil {
					t.Error(err)
				}
				action := map[string]string{"web identity": "AssumeRoleWithWebIdentity", "profile": "AssumeRole"}[how]
				if r.Form.Get("Action") != action || r.Form.Get("RoleArn") != "arn:aws:iam::123456789012:role/lake" ||
					how == "profile" && !strings.Contains(r.Header.Get("Authorization"), "Credential=BASEKEY/") ||
					how == "web identity" && r.Form.Get("WebIdentityToken") != "the pod's token" {
					t.Errorf("asked for %v", r.Form)
				}
				n := given.Add(1)
				fmt.Fprintf(w, `<%sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%sResult><Credentials><AccessKeyId>ROLE%d</AccessKeyId>
					<SecretAccessKey>secret</SecretAccessKey><SessionToken>session%d</SessionToken><Expiration>%s</Expiration></Credentials></%sResult></%sResponse>`,
					action, action, n, n, time.Now().Add(-time.Minute).UTC().Format(time.RFC3339), action, action) // run out at once
			}))
			defer sts.Close()
			cfg := fake(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					n := given.Load()
					if !strings.Contains(r.Header.Get("Authorization"), fmt.Sprintf("Credential=ROLE%d/", n)) || r.Header.Get("X-Amz-Security-Token") != fmt.Sprintf("session%d", n) {
						t.Errorf("%s %s is signed by %q", r.Method, r.URL, r.Header.Get("Authorization"))
					}
					h.ServeHTTP(w, r)
				})
			})
			cfg.AccessKey, cfg.SecretKey = "", ""
			asRole(t, how, sts.URL)
			store, err := s3.Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				if err := store.Put(t.Context(), "x", []byte("y")); err != nil {
					t.Fatal(err)
				}
				if n := given.Load(); n < int64(i+1) {
					t.Errorf("%d times credentials after %d requests", n, i+1)
				}
			}
		})
	}
}

// asRole makes the environment one in which a role is to be assumed.
func asRole(t *testing.T, how, sts string) {
	t.Helper()
	dir := t.TempDir()
	config, token := filepath.Join(dir, "config"), filepath.Join(dir, "token")
	text := "[profile lake]\nrole_arn = arn:aws:iam::123456789012:role/lake\nsource_profile = base\nregion = us-east-1\n[profile base]\naws_access_key_id = BASEKEY\naws_secret_access_key = s\n"
	for name, content := range map[string]string{config: text, token: "the pod's token"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_ROLE_ARN": "",
		"AWS_WEB_IDENTITY_TOKEN_FILE": "", "AWS_CONFIG_FILE": filepath.Join(dir, "none"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(dir, "none"),
		"AWS_ENDPOINT_URL_STS": sts, "AWS_REGION": "us-east-1"} {
		t.Setenv(name, value)
	}
	if how == "profile" {
		t.Setenv("AWS_CONFIG_FILE", config)
		t.Setenv("AWS_PROFILE", "lake")
		return
	}
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/lake")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", token)
}
