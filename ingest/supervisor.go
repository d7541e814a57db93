package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// Job is one stream to be run.
type Job struct {
	Name string
	Key  string // of its settings: a job that comes with another one is stopped and begun again
	// Run works until ctx ends, and tells how far it is.
	Run func(ctx context.Context, tell Teller) error
}

// Teller is what a job tells while it runs.
type Teller struct {
	Ready func()            // it is past what can be wrong at a start
	Waits func(what string) // it cannot begin before that has come
}

// State is what a job does now.
type State string

// The states.
const (
	Starting State = "starting" // not past what can be wrong at a start
	Running  State = "running"
	Waiting  State = "waiting" // failed, and will be tried again
	Ended    State = "ended"   // of a bounded run: all is done
	Failed   State = "failed"  // for good
)

// Status is the state of one job.
type Status struct {
	Name     string    `json:"name"`
	State    State     `json:"state"`
	Since    time.Time `json:"since"`
	Failures int       `json:"failures"`
	WaitsFor string    `json:"waitsFor,omitempty"` // while it is starting: what has to come first
	Error    string    `json:"error,omitempty"`    // of the last failure
}

// SupervisorConfig are the settings of a Supervisor.
type SupervisorConfig struct {
	Once      bool          // each job runs once: what fails is not tried again
	RetryBase time.Duration // pause after a first failure, doubling; default 1 s
	RetryMax  time.Duration // default 1 min
	Logger    *slog.Logger  // default: discarded
}

// Supervisor runs jobs side by side. One that fails is tried again with growing pauses and stops no other (I7).
type Supervisor struct {
	cfg    SupervisorConfig
	life   context.Context //nolint:containedctx // of all jobs
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu   sync.Mutex
	jobs map[string]*running
	errs []error // of jobs that failed for good
	idle chan struct{}
}

// running is a job with its goroutine, which is the only one of its name; guarded by Supervisor.mu.
type running struct {
	job    Job
	status Status
	stop   context.CancelFunc // of the run under way
	gone   bool               // no one wants it any more
	redo   bool               // it was changed: begin again
}

// NewSupervisor makes a Supervisor whose jobs end with ctx at the latest.
func NewSupervisor(ctx context.Context, cfg SupervisorConfig) *Supervisor {
	if cfg.RetryBase == 0 {
		cfg.RetryBase = time.Second
	}
	if cfg.RetryMax == 0 {
		cfg.RetryMax = time.Minute
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Supervisor{cfg: cfg, jobs: map[string]*running{}, idle: make(chan struct{})}
	s.life, s.cancel = context.WithCancel(ctx)
	return s
}

// Apply makes the running jobs those that are given: new ones begin, others end, those with another Key begin again
// once they have ended. It does not wait for any of that.
func (s *Supervisor) Apply(jobs []Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[string]bool{}
	for _, j := range jobs {
		wanted[j.Name] = true
		r := s.jobs[j.Name]
		switch {
		case s.life.Err() != nil:
		case r == nil:
			r = &running{job: j, status: Status{Name: j.Name, State: Starting, Since: time.Now()}}
			s.jobs[j.Name] = r
			s.cfg.Logger.Info("stream begins", "stream", j.Name)
			s.wg.Go(func() { s.keep(r) })
		case r.job.Key != j.Key || r.gone:
			s.cfg.Logger.Info("stream has changed and begins again", "stream", j.Name)
			r.job, r.redo, r.gone = j, true, false
			r.halt()
		}
	}
	for name, r := range s.jobs {
		if !wanted[name] && !r.gone {
			s.cfg.Logger.Info("stream is taken away", "stream", name)
			r.gone = true
			r.halt()
		}
	}
}

func (r *running) halt() {
	if r.stop != nil {
		r.stop()
	}
}

// keep runs a job until nobody wants it.
func (s *Supervisor) keep(r *running) {
	pause := s.cfg.RetryBase
	for {
		ctx, job, more := s.begin(r)
		if !more {
			return
		}
		err := job.Run(ctx, Teller{Ready: func() { s.set(r, Running) }, Waits: func(what string) { s.wait(r, what) }})
		switch again, wait := s.end(r, ctx, err); {
		case !again:
			return
		case !wait:
			pause = s.cfg.RetryBase
		default:
			s.cfg.Logger.Error("stream failed and will be tried again", "stream", job.Name, "pause", pause, "error", err)
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-ctx.Done(): // changed, taken away, or the end of all
			}
			timer.Stop()
			pause = min(2*pause, s.cfg.RetryMax)
		}
	}
}

// begin gives the context of the next run, whose stop is known from here on; false when there is to be none.
func (s *Supervisor) begin(r *running) (context.Context, Job, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.stop != nil {
		r.stop()
	}
	if r.gone || s.life.Err() != nil {
		s.drop(r)
		return nil, Job{}, false
	}
	ctx, stop := context.WithCancel(s.life)
	r.stop, r.redo = stop, false
	r.status.State, r.status.Since, r.status.WaitsFor = Starting, time.Now(), ""
	return ctx, r.job, true
}

// end judges how a run ended: whether there is another one, and whether to wait before.
func (s *Supervisor) end(r *running, ctx context.Context, err error) (again, wait bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		r.status.Failures++
		r.status.Error = err.Error()
	}
	stopped := ctx.Err() != nil
	switch {
	case r.redo && s.life.Err() == nil:
		if err != nil {
			s.cfg.Logger.Warn("stream ended with an error before it begins again", "stream", r.job.Name, "error", err)
		}
		return true, false
	case stopped: // taken away, or the end of all: what fails now is told
		if err != nil && !errors.Is(err, context.Canceled) {
			s.errs = append(s.errs, fmt.Errorf("%s: %w", r.job.Name, err))
		}
		s.drop(r)
		return false, false
	case s.cfg.Once:
		state := Ended
		if err != nil {
			state = Failed
			s.errs = append(s.errs, err)
		}
		r.status.State, r.status.Since, r.gone = state, time.Now(), false
		r.stop()
		s.checkIdle()
		return false, false
	}
	if err == nil {
		err = errors.New("it ended though it was to go on")
		r.status.Error = err.Error()
	}
	r.status.State, r.status.Since = Waiting, time.Now()
	return true, true
}

func (s *Supervisor) drop(r *running) {
	r.halt()
	if s.jobs[r.job.Name] == r {
		delete(s.jobs, r.job.Name)
	}
	s.checkIdle()
}

// checkIdle tells Wait when no job of a bounded run is under way.
func (s *Supervisor) checkIdle() {
	if !s.cfg.Once {
		return
	}
	for _, r := range s.jobs {
		if r.status.State != Ended && r.status.State != Failed {
			return
		}
	}
	select {
	case <-s.idle:
	default:
		close(s.idle)
	}
}

func (s *Supervisor) wait(r *running, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.status.WaitsFor = what
}

func (s *Supervisor) set(r *running, state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.status.WaitsFor = ""
	if r.status.State != state {
		r.status.State, r.status.Since = state, time.Now()
	}
}

// Stop tells all jobs to end; Wait waits for them.
func (s *Supervisor) Stop() { s.cancel() }

// Wait returns when ctx ends, or, with Once, when all jobs have ended; then all have been stopped and have ended. Its
// error is that of the jobs that failed for good, or while they were stopped.
func (s *Supervisor) Wait() error {
	select {
	case <-s.life.Done():
	case <-s.idle:
	}
	s.cancel()
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.errs...)
}

// Status gives the states of all jobs, by name.
func (s *Supervisor) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Status
	for _, name := range slices.Sorted(maps.Keys(s.jobs)) {
		out = append(out, s.jobs[name].status)
	}
	return out
}

// Ready says whether every job is at work, or done. One that waits after a failure makes it false.
func (s *Supervisor) Ready() bool {
	for _, st := range s.Status() {
		if st.State != Running && st.State != Ended {
			return false
		}
	}
	return true
}
