package ingest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func states(s *Supervisor) string {
	var out []string
	for _, st := range s.Status() {
		out = append(out, st.Name+"="+string(st.State))
	}
	return strings.Join(out, " ")
}

// works is a job that runs until it is stopped, and says how often it ran.
func works(name, key string, runs *int) Job {
	return Job{Name: name, Key: key, Run: func(ctx context.Context, tell Teller) error {
		*runs++
		tell.Ready()
		<-ctx.Done()
		return ctx.Err()
	}}
}

// One stream that fails again and again is tried with growing pauses and stops no other (I7).
func TestOneBadStreamStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := NewSupervisor(ctx, SupervisorConfig{})
		good, tries := 0, 0
		bad := Job{Name: "bad", Run: func(context.Context, Teller) error { tries++; return errors.New("broken") }}
		s.Apply([]Job{works("good", "", &good), bad})
		synctest.Wait()
		if got := states(s); got != "bad=waiting good=running" || s.Ready() {
			t.Errorf("states %q", got)
		}
		time.Sleep(64 * time.Second) //house:allow no-sleep: the time of the bubble, in which pauses of 1, 2, 4 ... seconds end
		synctest.Wait()
		if tries != 7 || good != 1 {
			t.Errorf("%d tries of the bad one, %d of the good one", tries, good)
		}
		if st := s.Status()[0]; st.Error != "broken" || st.Failures != 7 {
			t.Errorf("status %+v", st)
		}
		cancel()
		if err := s.Wait(); err != nil {
			t.Errorf("Wait = %v", err)
		}
	})
}

// Streams come, change and go while the others run on.
func TestApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := NewSupervisor(ctx, SupervisorConfig{})
		var a, b, c int
		s.Apply([]Job{works("a", "1", &a), works("b", "1", &b)})
		synctest.Wait()
		s.Apply([]Job{works("a", "1", &a), works("b", "2", &b), works("c", "1", &c)})
		synctest.Wait()
		if a != 1 || b != 2 || c != 1 || states(s) != "a=running b=running c=running" || !s.Ready() {
			t.Errorf("a %d, b %d, c %d: %s", a, b, c, states(s))
		}
		s.Apply([]Job{works("c", "1", &c)})
		synctest.Wait()
		if states(s) != "c=running" || c != 1 {
			t.Errorf("c %d: %s", c, states(s))
		}
		s.Apply([]Job{works("a", "1", &a), works("c", "1", &c)})
		synctest.Wait()
		if states(s) != "a=running c=running" || a != 2 {
			t.Errorf("a %d: %s", a, states(s))
		}
		cancel()
		if err := s.Wait(); err != nil || len(s.Status()) != 0 {
			t.Errorf("Wait = %v, left %s", err, states(s))
		}
	})
}

// A job that is slow to end is begun again only then, with the newest settings: two runs of one name never overlap.
func TestChangesDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := NewSupervisor(ctx, SupervisorConfig{})
		at, saw := 0, ""
		slow := func(key string) Job {
			return Job{Name: "x", Key: key, Run: func(ctx context.Context, tell Teller) error {
				if at++; at != 1 {
					t.Error("two runs at a time")
				}
				saw += key
				tell.Ready()
				<-ctx.Done()
				time.Sleep(10 * time.Second) //house:allow no-sleep: the time of the bubble: a last commit that takes long
				at--
				return nil
			}}
		}
		s.Apply([]Job{slow("1")})
		synctest.Wait()
		s.Apply([]Job{slow("2")})
		s.Apply(nil) // taken away, and back before it has ended
		s.Apply([]Job{slow("3")})
		time.Sleep(time.Minute) //house:allow no-sleep: the time of the bubble
		synctest.Wait()
		if saw != "13" {
			t.Errorf("ran with the settings %q", saw)
		}
		cancel()
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// A bounded run ends when all streams have, and tells what failed; the others were not held up.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSupervisor(t.Context(), SupervisorConfig{Once: true})
		done := false
		s.Apply([]Job{
			{Name: "bad", Run: func(context.Context, Teller) error { return errors.New("broken") }},
			{Name: "good", Run: func(ctx context.Context, tell Teller) error {
				tell.Ready()
				time.Sleep(time.Hour) //house:allow no-sleep: the time of the bubble
				done = ctx.Err() == nil
				return nil
			}},
		})
		if err := s.Wait(); err == nil || err.Error() != "broken" || !done || states(s) != "bad=failed good=ended" {
			t.Errorf("Wait = %v, done %v, %s", err, done, states(s))
		}
	})
}

// What fails while it is stopped is not kept quiet: a last commit that was not made, for instance.
func TestFailureAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := NewSupervisor(ctx, SupervisorConfig{})
		s.Apply([]Job{{Name: "x", Run: func(ctx context.Context, tell Teller) error {
			<-ctx.Done()
			return errors.New("no last commit")
		}}})
		synctest.Wait()
		cancel()
		if err := s.Wait(); err == nil || err.Error() != "x: no last commit" {
			t.Errorf("Wait = %v", err)
		}
	})
}
