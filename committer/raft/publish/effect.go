package publish

import (
	"errors"
	"time"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
)

// Effect is something that the caller of a Machine is to do.
type Effect interface{ effect() }

// Propose asks the log to take a command. Proposals must reach it in their order. Comes back as Proposed.
type Propose struct{ Command fsm.Command }

// Put asks for put-if-absent of a version. Comes back as PutDone.
type Put struct {
	Version int64
	Data    []byte
}

// Get asks for a version's commit file. Comes back as GetDone.
type Get struct{ Version int64 }

// Load asks for the staged actions of a version. Comes back as LoadDone.
type Load struct {
	Version int64
	Staged  fsm.Staged
}

// Unstage says that no leader will ever need a staged object again: its version is known to be in the store by the
// log itself. It may be deleted.
type Unstage struct{ Key string }

// Reply answers a request. With Err the outcome is open: the same request is to be sent again.
type Reply struct {
	ID     string
	Answer fsm.Answer
	Err    error
}

// Stored says that a version of ours is in the store.
type Stored struct {
	Version  int64
	Data     []byte
	Requests int // that share it
}

// Reopen says that the base is not in the store any more: read the table anew and propose an fsm.Open that replaces
// it. Comes back as Reopened.
type Reopen struct {
	Version int64
	Hash    string
}

// Wake asks for a Tick at a time. A later Wake replaces an earlier one.
type Wake struct{ At time.Time }

func (Propose) effect() {}
func (Put) effect()     {}
func (Get) effect()     {}
func (Load) effect()    {}
func (Unstage) effect() {}
func (Reply) effect()   {}
func (Stored) effect()  {}
func (Reopen) effect()  {}
func (Wake) effect()    {}

var (
	// ErrBusy means that too many requests wait for the table.
	ErrBusy = errors.New("too many requests wait for the table; send it again later")
	// ErrNotDecided means that the log did not say whether it took the request.
	ErrNotDecided = errors.New("the group did not say whether it decided the request")
)

// View is the committed state of the table as this node has applied it.
type View interface {
	Check(r *fsm.Request) fsm.Answer
	Answer(id string) fsm.Answer
	Pending() []*fsm.Version
	Version() (int64, string)
}

// Plant is a fault that the simulation plants, to show that its checker finds it. Nothing else sets one.
type Plant uint8

// The faults.
const (
	NoPlant Plant = iota
	NoReadBack
	NoFinish
	PutOpen
	NoGatherWake
)

// Config are the settings of a Machine.
type Config struct {
	Engine string        // commitInfo.engineInfo
	NewID  func() string // unique ids of versions
	Wall   func() int64  // the time of day for commitInfo, ms; nothing else depends on it
	// Linger is how long the first request of a version waits for others, when there were others the last time. With a slow
	// store it waits longer, as long as they keep coming: see gathered. 0: not at all.
	Linger time.Duration
	// MaxPending is the number of closed versions that may be decided ahead of the store. Default 1: while one is on its way
	// all others wait for the next, so that versions are few and large; a second one would share the same requests.
	// Behind them one more may be open, for those who asked for early answers.
	MaxPending int
	MaxWaiting int           // requests that may wait
	Verify     time.Duration // after this long without a look at the base, it is read before the next put
	RetryBase  time.Duration // first pause after a failure of the store; doubles
	RetryMax   time.Duration
	Plant      Plant
}

// withDefaults gives the settings with nothing left open.
func (c Config) withDefaults() Config {
	if c.Wall == nil {
		c.Wall = func() int64 { return time.Now().UnixMilli() }
	}
	if c.MaxPending == 0 {
		c.MaxPending = 1
	}
	if c.MaxWaiting == 0 {
		c.MaxWaiting = 8192
	}
	if c.Verify == 0 {
		c.Verify = time.Second
	}
	if c.RetryBase == 0 {
		c.RetryBase = 10 * time.Millisecond
	}
	if c.RetryMax == 0 {
		c.RetryMax = max(time.Second, c.RetryBase)
	}
	return c
}
