package offload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

// TestCredentialsThatRanOut: those that are renewed in a moment are waited for; else the run ends, and says what to mend.
func TestCredentialsThatRanOut(t *testing.T) {
	for name, c := range map[string]struct {
		fails int
		retry time.Duration
	}{"renewed": {3, time.Hour}, "not renewed": {1 << 30, 50 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			store := mem.New()
			put(t, store, 7, message("x", -1, nil))
			f := open(t, Config{Store: store})
			left := c.fails
			store.SetHook(func(_ context.Context, call mem.Call) (fault mem.Fault) {
				if call.Key == objectName(7) && left > 0 { // one is asked for at a time
					left--
					fault.Before = fmt.Errorf("%w for the test: mend it", objstore.ErrCredentials)
				}
				return fault
			})
			src := pulsar.OpenFeed(t.Context(), pulsar.Config{RetryTimeout: c.retry}, f)
			defer src.Close()
			tp := record.TopicPartition{Topic: "a/b/events"}
			for {
				got, err := src.Fetch(t.Context(), []broker.FetchRange{{TP: tp}}, broker.FetchOptions{MinBytes: 1, MaxWait: 10 * time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				if err := got[0].Err; err != nil {
					if c.fails < 10 || !errors.Is(err, broker.ErrGiveUp) || !errors.Is(err, objstore.ErrCredentials) || !strings.Contains(err.Error(), "mend it") {
						t.Errorf("the run ends with %v", err)
					}
					return
				}
				if len(got[0].Batches) > 0 {
					if left > 0 {
						t.Errorf("records came, and %d failures are left", left)
					}
					return
				}
			}
		})
	}
}
