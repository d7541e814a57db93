package wire

import (
	"sync/atomic"
	"time"
)

// seldom lets a fault be told in the log once a second, however often clients meet it.
type seldom struct{ last atomic.Pointer[time.Time] } // when it was told; with the monotonic clock, which nobody sets back

func (s *seldom) now() bool {
	last, now := s.last.Load(), time.Now()
	return (last == nil || now.Sub(*last) > time.Second) && s.last.CompareAndSwap(last, &now)
}
