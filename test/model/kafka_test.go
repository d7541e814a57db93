package model

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker/kafka"
	"github.com/ledgerlake/ledgerlake/broker/wire"
)

// The same over the Kafka protocol: tiering and readers have the log as an external Kafka, behind a network client that
// knows nothing of the log's files (I3, I4, I6).
func TestStreamOverKafka(t *testing.T) {
	seeds := 25
	if testing.Short() {
		seeds = 4
	}
	overSeeds(t, seeds, func(t *testing.T, seed uint64) *world {
		w := newWorld(t, rand.New(rand.NewPCG(seed, 0)))
		srv, err := wire.Open(t.Context(), wire.Config{Listen: "127.0.0.1:0", Log: w.log})
		if err != nil {
			t.Fatal(err)
		}
		src, err := kafka.Open(t.Context(), kafka.Config{Brokers: []string{srv.Addr().String()}})
		if err != nil {
			t.Fatal(errors.Join(err, srv.Close()))
		}
		w.source = src
		w.live([]func(){w.produce, w.produce, w.produce, w.tier, w.retire, w.read, w.read, w.optimize, w.vacuum, w.readAmid})
		if err := errors.Join(src.Close(), srv.Close(), w.log.Close()); err != nil {
			t.Fatal(err)
		}
		return w
	})
}
