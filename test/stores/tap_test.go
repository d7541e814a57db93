package stores

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// tap stands before the servers of a log store and counts the requests to all of them, so that a writer can be
// stopped at each one.
type tap struct {
	counts func(*http.Request) bool // which requests are steps; nil: all

	mu    sync.Mutex
	steps int
	stop  int    // the step at which the writer stops; 0: never
	after bool   // that step still takes effect, and its answer is lost
	dead  func() // called once when it stops
}

// before puts the tap before a server and gives its new URL.
func (p *tap) before(t *testing.T, target string) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	// The Host header stays what the client signed.
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forward, answer := p.step(r)
		if forward && answer {
			proxy.ServeHTTP(w, r)
			return
		}
		if forward {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func (p *tap) step(r *http.Request) (forward, answer bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts == nil || p.counts(r) {
		p.steps++
	}
	if p.stop == 0 || p.steps < p.stop {
		return true, true
	}
	if p.dead != nil {
		p.dead()
		p.dead = nil
	}
	if p.after && p.steps == p.stop && (p.counts == nil || p.counts(r)) {
		return true, false
	}
	return false, false
}

// arm has the writer stop at the n-th step from now, 0 for never.
func (p *tap) arm(n int, after bool, dead func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps, p.stop, p.after, p.dead = 0, n, after, dead
}

// reached says whether the writer was stopped.
func (p *tap) reached() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stop > 0 && p.steps >= p.stop
}

// writes are the requests that change a store: to S3 by method, to DynamoDB by name.
func writes(r *http.Request) bool {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		return strings.HasSuffix(target, ".PutItem") || strings.HasSuffix(target, ".UpdateItem") || strings.HasSuffix(target, ".DeleteItem")
	}
	return r.Method != http.MethodGet && r.Method != http.MethodHead
}
