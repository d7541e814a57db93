package web_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/web"
)

// A client that takes nothing is cut off and does not keep its place (I8).
func TestReaderThatDoesNotRead(t *testing.T) {
	r := newRig(t, web.Config{MaxStreams: 1, WriteTimeout: 300 * time.Millisecond})
	big := fmt.Appendf(nil, `{"n":1,"p":"%s"}`, bytes.Repeat([]byte("x"), 500<<10))
	for range 40 { // more than a connection's buffers hold
		b := record.NewBuilder(record.None)
		b.Append(1, nil, big, nil)
		raw, err := b.Build(0)
		if err == nil {
			_, err = r.log.Append(t.Context(), record.TopicPartition{Topic: "events"}, raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, accept := range []string{"*/*", "text/event-stream"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET /v1/topics/events/records?follow=true HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\n\r\n", accept)
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
			t.Fatalf("%q %v", line, err)
		}
		for end := time.Now().Add(5 * time.Minute); !r.free(); { // when the server has lost its patience
			if time.Now().After(end) {
				t.Fatal("the place of a client that does not read is never free")
			}
		}
	}
}

// free says whether there is a place for a stream. This client may be the one that reads too slowly, on a busy machine.
func (r *rig) free() bool {
	r.t.Helper()
	resp, err := http.Get(r.url + "/v1/topics/events/records?limit=1")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == http.StatusOK
}

// A stream that was quiet for longer than a write may take goes on, and so does its connection.
func TestQuietStreamGoesOn(t *testing.T) {
	const timeout = time.Second // which no write of a few bytes takes, on any machine
	r := newRig(t, web.Config{WriteTimeout: timeout})
	r.append(0, 0, 1)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/v1/topics/events/records?follow=true&limit=2", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	if !in.Scan() {
		t.Fatal(in.Err())
	}
	<-time.After(2 * timeout)
	r.append(0, 1, 2)
	if !in.Scan() || !strings.Contains(in.Text(), `"n":1`) {
		t.Fatalf("the second record: %q %v", in.Text(), in.Err())
	}
	if in.Scan() || in.Err() != nil || resp.Trailer.Get("Ledgerlake-Token") == "" {
		t.Errorf("the end: %q %v %v", in.Text(), in.Err(), resp.Trailer)
	}
}
