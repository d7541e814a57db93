package wire

import (
	"bytes"
	"log/slog"
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
