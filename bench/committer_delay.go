package bench

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

// slowPut is what the slow store adds to each put of a version: about what a bucket in another region costs.
const slowPut = 30 * time.Millisecond

// delayedStore puts a proxy before an S3 server which holds every put of a version back, whoever makes it. So delta-rs, our
// direct committer and the group meet the same store.
func delayedStore(s *commitStore) (*commitStore, func(), error) {
	target, err := url.Parse(s.opts.S3Endpoint)
	if err != nil {
		return nil, nil, fmt.Errorf("address of the store: %w", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("listen before the store: %w", err)
	}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is signed
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true},
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && isVersion(r.URL.Path) {
			select {
			case <-time.After(slowPut):
			case <-r.Context().Done():
				return
			}
		}
		forward.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(ln) }()
	d := *s
	d.opts.S3Endpoint = "http://" + ln.Addr().String()
	d.env = nil
	for _, e := range s.env {
		if strings.HasPrefix(e, "AWS_ENDPOINT_URL=") {
			e = "AWS_ENDPOINT_URL=" + d.opts.S3Endpoint
		}
		d.env = append(d.env, e)
	}
	return &d, func() { _ = server.Close() }, nil
}

// isVersion says whether an object is the commit file of a version.
func isVersion(path string) bool {
	_, name, ok := strings.Cut(path, "/_delta_log/")
	number, json := strings.CutSuffix(name, ".json")
	return ok && json && len(number) == 20 && strings.Trim(number, "0123456789") == ""
}
