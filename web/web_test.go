package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/web"
)

// numbers gives column n of NDJSON rows, which is the offset in these tests.
func numbers(t *testing.T, ndjson string) []int {
	t.Helper()
	var out []int
	for line := range strings.Lines(ndjson) {
		var row struct {
			N      int `json:"n"`
			Offset int `json:"_offset"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("row %q: %v", line, err)
		}
		if row.N != row.Offset {
			t.Fatalf("record %d is at offset %d", row.N, row.Offset)
		}
		out = append(out, row.N)
	}
	return out
}

func upTo(from, to int) []int {
	var out []int
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

// A stream runs from the table into the log (I4), and its token goes on behind it.
func TestRecordsCrossTheSeam(t *testing.T) {
	r := newRig(t, web.Config{})
	r.append(0, 0, 20)
	r.tier()
	r.append(0, 20, 30)
	resp, body := r.get("/v1/topics/events/records?from=0:5")
	if got := numbers(t, body); resp.StatusCode != 200 || !slices.Equal(got, upTo(5, 30)) {
		t.Fatalf("status %d, records %v", resp.StatusCode, got)
	}
	token := resp.Trailer.Get("Ledgerlake-Token")
	if token == "" || resp.Trailer.Get("Ledgerlake-Error") != "" {
		t.Fatalf("trailers: %v", resp.Trailer)
	}
	r.append(0, 30, 33)
	_, body = r.get("/v1/topics/events/records?from=token:" + token)
	if got := numbers(t, body); !slices.Equal(got, upTo(30, 33)) {
		t.Errorf("behind the token: %v", got)
	}
	_, body = r.get("/v1/topics/events/records?partition=0&from=2023-11-14T22:13:20.007Z&until=0:9&columns=n,_offset")
	if got := numbers(t, body); !slices.Equal(got, upTo(7, 9)) {
		t.Errorf("from a time, until an offset: %v", got)
	}
}

// A filter, an order and a rate go over HTTP, and so do several topics as one stream, with a token of all of them (I4).
func TestRequestsOverHTTP(t *testing.T) {
	r := newRig(t, web.Config{})
	r.append(0, 0, 20)
	r.tier()
	r.append(0, 20, 30)
	_, body := r.get("/v1/topics/events/records?where=" + url.QueryEscape("n >= 18 AND n < 22") + "&columns=n,_offset&max-rate=1000000")
	if got := numbers(t, body); !slices.Equal(got, upTo(18, 22)) {
		t.Errorf("a filter: %v", got)
	}
	resp, body := r.get("/v1/topics/events/records?order=time&limit=7")
	first := numbers(t, body)
	_, body = r.get("/v1/topics/events/records?order=time&from=token:" + resp.Trailer.Get("Ledgerlake-Token"))
	if got := append(first, numbers(t, body)...); len(first) != 7 || !slices.Equal(got, upTo(0, 30)) {
		t.Errorf("in the order of time, in two pieces: %v", got)
	}
	if _, err := r.log.CreateTopic(t.Context(), "others", broker.TopicConfig{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	for _, order := range []string{"", "&order=time"} {
		resp, body = r.get("/v1/records?topics=events,others&columns=_topic,_offset&limit=9" + order)
		if resp.StatusCode != 200 || strings.Count(body, `"_topic":"events"`) != 9 {
			t.Errorf("several topics%s: status %d, %s", order, resp.StatusCode, body)
		}
		_, body = r.get("/v1/records?topics=events,others&columns=_topic,_offset&from=token:" + resp.Trailer.Get("Ledgerlake-Token") + order)
		if strings.Count(body, "\n") != 21 || !strings.HasPrefix(body, `{"_topic":"events","_offset":9}`) {
			t.Errorf("behind the token of several%s: %s", order, body)
		}
	}
	for _, query := range []string{"/v1/records", "/v1/records?topics=events,others&from=0:1", "/v1/topics/events/records?topics=others",
		"/v1/topics/events/records?order=size", "/v1/topics/events/records?where=n+~+1", "/v1/topics/events/records?max-rate=fast"} {
		if resp, body := r.get(query); resp.StatusCode != 400 {
			t.Errorf("%s: status %d, %s", query, resp.StatusCode, body)
		}
	}
}

// event is one server-sent event.
type event struct{ id, name, data string }

func readEvent(t *testing.T, in *bufio.Reader) (e event) {
	t.Helper()
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ended: %v", err)
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "":
			if e != (event{}) {
				return e
			}
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		}
	}
}

// An event stream says on which side it is, follows the log, and a client that comes back with the id of its
// last event gets what follows it (I4).
func TestEventsFollowAndResume(t *testing.T) {
	r := newRig(t, web.Config{})
	r.append(0, 0, 4)
	r.tier()
	listen := func(id string) (*bufio.Reader, context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/v1/topics/events/records?from=0:2&follow=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		if id != "" {
			req.Header.Set("Last-Event-ID", id)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return bufio.NewReader(resp.Body), cancel
	}
	in, leave := listen("")
	var last string
	want := func(in *bufio.Reader, name, data string) {
		t.Helper()
		e := readEvent(t, in)
		if e.name != name || !strings.Contains(e.data, data) {
			t.Fatalf("event %+v, want %s with %s", e, name, data)
		}
		last = e.id
	}
	want(in, "side", `"lake"`)
	want(in, "", `"n":2`)
	want(in, "", `"n":3`)
	r.append(0, 4, 5)
	want(in, "side", `"log"`)
	want(in, "", `"n":4`)
	leave()
	r.append(0, 5, 6)
	in, leave = listen(last)
	want(in, "side", `"log"`)
	want(in, "", `"n":5`)
	leave()
}

func TestRefusals(t *testing.T) {
	r := newRig(t, web.Config{})
	r.append(0, 0, 3)
	for _, c := range []struct {
		path string
		code int
		says string
	}{
		{"/v1/topics/events/records?form=0:1", 400, "no such parameter"},
		{"/v1/topics/events/records?from=yesterday", 400, "want earliest, latest"},
		{"/v1/topics/events/records?from=0:1&from=0:2", 400, "2 times"},
		{"/v1/topics/events/records?limit=0", 400, "above 0"},
		{"/v1/topics/events/records?partition=x", 400, "partition numbers"},
		{"/v1/topics/events/records?follow=perhaps", 400, "perhaps"},
		{"/v1/topics/events/records?from=token:abc", 400, "token"},
		{"/v1/topics/events/records?from=%zz", 400, "query"},
		{"/v1/topics/events/records?from=0:9", 416, "out of range"},
		{"/v1/topics/nothing/records", 404, "unknown topic"},
		{"/v1/topics/nothing", 404, "unknown topic"},
	} {
		resp, body := r.get(c.path)
		var f struct{ Error string }
		if err := json.Unmarshal([]byte(body), &f); err != nil || resp.StatusCode != c.code || !strings.Contains(f.Error, c.says) {
			t.Errorf("%s: status %d, %s; want %d with %q (%v)", c.path, resp.StatusCode, body, c.code, c.says, err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v1/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", resp.StatusCode)
	}
}

// A page of another site that points its own name at 127.0.0.1 gets nothing.
func TestLoopbackServerAnswersLoopbackNamesOnly(t *testing.T) {
	r := newRig(t, web.Config{})
	for host, code := range map[string]int{"evil.example": 421, "127.0.0.1.evil.example:80": 421, "localhost": 200, "127.0.0.9:1": 200, "[::1]:80": 200, "LOCALHOST:9": 200} {
		if resp, body := r.get("/v1/status", "Host", host); resp.StatusCode != code {
			t.Errorf("host %s: status %d, want %d: %s", host, resp.StatusCode, code, body)
		}
	}
}

func TestStreamsAreBounded(t *testing.T) {
	r := newRig(t, web.Config{MaxStreams: 1})
	r.append(0, 0, 1)
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/v1/topics/events/records?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp, body := r.get("/v1/topics/events/records"); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "limit") {
		t.Errorf("a second stream: status %d, %s", resp.StatusCode, body)
	}
	leave()
	for { // the place is free when the server has noticed
		if resp, _ := r.get("/v1/topics/events/records"); resp.StatusCode == http.StatusOK {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("the place of a client that left is never free")
		}
	}
}

func TestStatusAndMetrics(t *testing.T) {
	r := newRig(t, web.Config{Kafka: "127.0.0.1:9092", Lake: "mem"})
	r.append(0, 0, 10)
	r.append(1, 0, 3)
	r.tier()
	r.append(1, 3, 5)
	var s web.Status
	_, body := r.get("/v1/status")
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if len(s.Topics) != 1 || s.Version != "test" || s.Kafka != "127.0.0.1:9092" {
		t.Fatalf("status: %s", body)
	}
	topic := s.Topics[0]
	want := []web.Partition{{Partition: 0, LakeEnd: 10, Stable: 10, End: 10}, {Partition: 1, LakeEnd: 3, Stable: 5, End: 5, Lag: 2}}
	if !slices.Equal(topic.Partitions, want) {
		t.Errorf("partitions %+v, want %+v", topic.Partitions, want)
	}
	if topic.Table == nil || topic.Table.Rows == nil || *topic.Table.Rows != 13 || topic.Table.Version != 1 || topic.Tiering.Rows != 13 {
		t.Errorf("table %+v, tiering %+v", topic.Table, topic.Tiering)
	}
	var one web.Topic
	_, body = r.get("/v1/topics/events")
	if err := json.Unmarshal([]byte(body), &one); err != nil || len(one.Columns) != 7 || len(one.Commits) != 2 || one.Commits[0].Version != 1 {
		t.Errorf("topic: %s (%v)", body, err)
	}
	_, body = r.get("/metrics")
	for _, line := range []string{
		`ledgerlake_log_end_offset{partition="1",topic="events"} 5`,
		`ledgerlake_lake_end_offset{partition="1",topic="events"} 3`,
		`ledgerlake_table_files{topic="events"} 1`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("metrics lack %s", line)
		}
	}
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n"} {
		if resp, body := r.get(path); resp.StatusCode != 200 || body != want {
			t.Errorf("%s: status %d, %q", path, resp.StatusCode, body)
		}
	}
}

// Every file that the page names is there, and nothing in it needs what its own policy forbids.
func TestPageIsWhole(t *testing.T) {
	r := newRig(t, web.Config{})
	resp, body := r.get("/")
	if resp.StatusCode != 200 || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'self'") {
		t.Fatalf("status %d, headers %v", resp.StatusCode, resp.Header)
	}
	if inline := regexp.MustCompile(`(?i)<script>|<style|\son\w+=|\sstyle=|https?://`).FindString(body); inline != "" {
		t.Errorf("the page has %q, which its policy forbids or which leaves the machine", inline)
	}
	links := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(body, -1)
	if len(links) < 4 {
		t.Fatalf("only %d links in the page", len(links))
	}
	for _, l := range links {
		if _, err := url.Parse(l[1]); err != nil {
			t.Fatal(err)
		}
		if resp, _ := r.get("/" + l[1]); resp.StatusCode != 200 {
			t.Errorf("%s: status %d", l[1], resp.StatusCode)
		}
	}
}

// What a log keeps for itself, credentials of users among it, is shown to nobody who did not log in: not its records, alone or
// beside those of others, not its state, not even that it is there.
func TestInternalTopicsAreNotShown(t *testing.T) {
	r := newRig(t, web.Config{})
	r.append(0, 0, 3)
	const secret, key = "__ledgerlake_settings", "StoredKey"
	if _, err := r.log.CreateTopic(t.Context(), secret, broker.TopicConfig{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	b := record.NewBuilder(record.None)
	b.Append(1, nil, []byte(key), nil)
	raw, err := b.Build(0)
	if err == nil {
		_, err = r.log.Append(t.Context(), record.TopicPartition{Topic: secret}, raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/topics/" + secret, "/v1/topics/" + secret + "/records?from=earliest&until=now", "/v1/topics/%5F%5Fledgerlake_settings/records",
		"/v1/records?topics=" + secret, "/v1/records?topics=events," + secret, "/v1/records?topics=%5f_ledgerlake_settings,events&order=time", "/v1/topics/__not_there/records"} {
		for _, accept := range []string{"*/*", "text/event-stream"} {
			if resp, body := r.get(path, "Accept", accept); resp.StatusCode != http.StatusNotFound || strings.Contains(body, key) {
				t.Errorf("%s as %s: status %d, %s", path, accept, resp.StatusCode, body)
			}
		}
	}
	for _, path := range []string{"/v1/status", "/metrics"} {
		if resp, body := r.get(path); resp.StatusCode != http.StatusOK || strings.Contains(body, secret) || !strings.Contains(body, "events") {
			t.Errorf("%s: status %d, %s", path, resp.StatusCode, body)
		}
	}
}
