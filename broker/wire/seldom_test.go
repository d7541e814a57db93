package wire

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Appends that a full disk refuses, one after the other, do not fill what is left of it with lines of the log.
func TestFailingAppendsAreToldSeldom(t *testing.T) {
	var out bytes.Buffer
	s := &Server{lg: slog.New(slog.NewTextHandler(&out, nil))}
	p := kmsg.NewProduceResponseTopicPartition()
	p.ErrorCode = codeStorageError
	resp := &kmsg.ProduceResponse{Topics: []kmsg.ProduceResponseTopic{{Topic: "t", Partitions: []kmsg.ProduceResponseTopicPartition{p, p, p}}}}
	begin := time.Now()
	for range 100 {
		s.logAppends(resp)
	}
	if n, most := bytes.Count(out.Bytes(), []byte("\n")), 1+int(time.Since(begin)/time.Second); n < 1 || n > most {
		t.Errorf("%d lines, want 1 to %d:\n%.400s", n, most, out.Bytes())
	}
}

// TestSeldom: a fault is told once a second, by a clock that goes on when the machine's is set back.
func TestSeldom(t *testing.T) {
	var s seldom
	if !s.now() || s.now() {
		t.Error("want it told once")
	}
	if at := s.last.Load().String(); !strings.Contains(at, "m=") {
		t.Errorf("%s has no monotonic reading", at)
	}
	before := time.Now().Add(-2 * time.Second)
	s.last.Store(&before)
	if !s.now() {
		t.Error("a second is over")
	}
}
