package wire

import (
	"sync/atomic"
	"time"
)

// seldom lets a fault be told in the log once a second, however often clients meet it.
type seldom struct{ last atomic.Int64 } // when it was told, in ns

func (s *seldom) now() bool {
	last, now := s.last.Load(), time.Now().UnixNano()
	return now-last > int64(time.Second) && s.last.CompareAndSwap(last, now)
}
