package seam

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// weather is a proxy before an S3 server. Of what passes it refuses some, loses the answer to some although they took
// effect, and cuts some answers short; now and then it refuses everything for a while.
type weather struct {
	URL string

	mu      sync.Mutex
	rng     *rand.Rand
	calm    bool
	outage  int // requests that are still refused
	refused int
	lost    int
	cut     int
	passed  int
}

type fault int

const (
	fine   fault = iota
	refuse       // before it took effect
	lose         // after it took effect
	cutOff       // in the middle of the answer
)

type faultKey struct{}

var errWeather = errors.New("bad weather")

// newWeather stands before an S3 server until the test ends.
func newWeather(t testing.TB, endpoint string, seed uint64) *weather {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	w := &weather{rng: rand.New(rand.NewPCG(seed, 77))}
	silent := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is signed
		},
		Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
		ErrorLog:  silent,
		ModifyResponse: func(resp *http.Response) error {
			switch resp.Request.Context().Value(faultKey{}) {
			case lose:
				_ = resp.Body.Close()
				return errWeather
			case cutOff:
				resp.Body = &short{ReadCloser: resp.Body, left: resp.ContentLength / 2}
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		f := w.next(r.Method)
		if f == refuse {
			_, _ = io.Copy(io.Discard, r.Body)
			http.Error(rw, "<Error><Code>SlowDown</Code><Message>bad weather</Message></Error>", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), faultKey{}, f)))
	}))
	srv.Config.ErrorLog = silent
	srv.Start()
	t.Cleanup(srv.Close)
	w.URL = srv.URL
	return w
}

// next says what becomes of a request.
func (w *weather) next(method string) fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm {
		w.passed++
		return fine
	}
	if w.outage == 0 && w.rng.IntN(4000) == 0 {
		w.outage = 5 + w.rng.IntN(40)
	}
	if w.outage > 0 {
		w.outage--
		w.refused++
		return refuse
	}
	switch w.rng.IntN(600) {
	case 0:
		w.refused++
		return refuse
	case 1:
		w.lost++
		return lose
	case 2:
		if method == http.MethodGet {
			w.cut++
			return cutOff
		}
	}
	w.passed++
	return fine
}

// clear ends the bad weather, and says what there was of it.
func (w *weather) clear() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calm = true
	return fmt.Sprintf("of the store's requests %d were refused, %d lost their answer, %d were cut short, %d passed", w.refused, w.lost, w.cut, w.passed)
}

// short is a body that breaks off.
type short struct {
	io.ReadCloser
	left int64
}

func (s *short) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, errWeather
	}
	n, err := s.ReadCloser.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	return n, err
}
