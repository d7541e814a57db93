package wire

import (
	"io"
	"strings"
	"testing"
	"time"
)

// Every size gets a buffer that is large enough, with little to spare, that is found again, and that the requests' share has room
// for, whatever the budget (I8).
func TestFrameBufferSizes(t *testing.T) {
	sizes := []int{0, 1, leastReused - 1, leastReused, leastReused + 1, 20_000, 1<<20 - 1, 1 << 20, 1<<20 + 100, mostReused - 1, mostReused, mostReused + 1}
	for budget := int64(8 << 10); budget <= 4<<30; budget += budget / 4 {
		cfg := Config{MemoryBudget: budget}
		f := frameBuffers{most: cfg.idleMemory()}
		share := int(cfg.requestMemory())
		for _, n := range append(sizes, share-1, share) {
			size := f.size(n)
			if n <= mostReused/16 { // larger ones take the same way
				if b := f.get(n); len(b) != n || cap(b) != size {
					t.Errorf("budget %d: %d bytes: a buffer of %d, capacity %d, size %d", budget, n, len(b), cap(b), size)
				}
			}
			if size < n || size > n+n/reusedSteps+1 {
				t.Errorf("budget %d: a buffer for %d bytes has %d", budget, n, size)
			}
			if f.size(size) != size {
				t.Errorf("budget %d: a buffer for %d bytes has %d, and is not found again", budget, n, size)
			}
			if n <= share && size > share {
				t.Errorf("budget %d: %d bytes are weighed as %d, more than there ever is", budget, n, size)
			}
		}
	}
}

// Buffers are used again, and those that are idle take no more than their share, whatever sizes come (I8).
func TestFrameBuffersBound(t *testing.T) {
	f := frameBuffers{most: 8 << 20}
	b := f.get(100_000)
	f.put(b)
	if again := f.get(99_000); &again[0] != &b[0] {
		t.Error("a buffer is not used again")
	}
	for size := 1; size <= 5<<20; size += size/10 + 1 {
		var used [][]byte
		for len(used) < 100 && len(used)*size <= 2*int(f.most) {
			used = append(used, f.get(size))
		}
		for _, b := range used {
			f.put(b)
		}
		idle := int64(0)
		for _, b := range f.idle {
			idle += int64(cap(b))
		}
		if idle != f.bytes || idle > f.most || len(f.idle) > mostIdle {
			t.Fatalf("size %d: %d buffers of %d bytes are idle, counted as %d", size, len(f.idle), idle, f.bytes)
		}
	}
	f.put(f.get(1 << 20))
	if last := f.idle[len(f.idle)-1]; cap(last) != 1<<20 {
		t.Errorf("the last buffer that was used has %d bytes", cap(last))
	}
}

// A request that is as large as allowed is answered, and its memory is given back, though a buffer of its size is not in the share (I8).
func TestLargestProduce(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, func(c *Config) { c.MemoryBudget = 13 << 20 })
	if _, err := log.CreateTopic(t.Context(), "t", topicOf(1)); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{900_000, s.cfg.MaxRequestBytes - 200} {
		nc := dial(t, s)
		_ = nc.SetDeadline(time.Now().Add(patience))
		go func() { _, _ = nc.Write(frameOf(produceRequest(t, -1, "t", strings.Repeat("x", size)), 9, 1)) }()
		if _, err := io.ReadFull(nc, make([]byte, 8)); err != nil {
			t.Fatalf("%d bytes: no answer: %v", size, err)
		}
	}
	if err := s.budget.Acquire(within(t, patience), s.cfg.requestMemory()); err != nil {
		t.Fatal("memory of requests is not given back")
	}
	s.budget.Release(s.cfg.requestMemory())
}
