package s3_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// TestRefusals: what a person has to mend is told from what may pass, whatever the store calls it and whether it says so or only
// gives a status.
func TestRefusals(t *testing.T) {
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	for _, c := range []struct {
		status int
		code   string
		want   error // nil: it may pass
	}{
		{http.StatusBadRequest, "ExpiredToken", objstore.ErrCredentials},
		{http.StatusBadRequest, "TokenRefreshRequired", objstore.ErrCredentials},
		{http.StatusForbidden, "InvalidAccessKeyId", objstore.ErrCredentials},
		{http.StatusForbidden, "SignatureDoesNotMatch", objstore.ErrCredentials},
		{http.StatusForbidden, "AccessDenied", objstore.ErrDenied},
		{http.StatusForbidden, "AllAccessDisabled", objstore.ErrDenied},
		{http.StatusForbidden, "", objstore.ErrDenied},
		{http.StatusUnauthorized, "", objstore.ErrCredentials},
		{http.StatusServiceUnavailable, "SlowDown", nil},
		{http.StatusInternalServerError, "", nil},
	} {
		s := open(t, fake(t, func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(c.status)
				if c.code != "" && r.Method != http.MethodHead {
					fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>no</Message></Error>`, c.code)
				}
			})
		}))
		_, err := s.GetRange(t.Context(), "k", 0, 1)
		if err == nil || objstore.Refused(err) != (c.want != nil) || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("status %d %q: %v, want %v", c.status, c.code, err, c.want)
		}
	}
}
