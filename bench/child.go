package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// child is a program that is measured from outside.
type child struct {
	cmd  *exec.Cmd
	log  string
	peak *atomic.Int64 // most resident memory, kB
	stop func()        // of the sampling; may be called again
	done chan struct{}
	err  error // how it ended, after done
}

// startChild starts a program whose output goes to a file.
func startChild(ctx context.Context, logFile string, env []string, name string, args ...string) (*child, error) {
	f, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := &child{cmd: exec.CommandContext(ctx, name, args...), log: logFile, done: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = f, f
	c.cmd.Env = append(os.Environ(), env...)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	peak, stop := watchProcess(c.cmd.Process.Pid)
	c.peak, c.stop = peak, sync.OnceFunc(stop)
	go func() {
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

// ended says how the program has ended; nil while it runs.
func (c *child) ended() error {
	select {
	case <-c.done:
		b, _ := os.ReadFile(c.log)
		return fmt.Errorf("%s ended early (%v): %s", c.cmd.Path, c.err, b[max(0, len(b)-1500):])
	default:
		return nil
	}
}

// wait waits for the program's end by itself.
func (c *child) wait(ctx context.Context) error {
	select {
	case <-c.done:
		if c.err != nil {
			return c.ended()
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// cpu is the processor time of the program so far, of all its threads.
func (c *child) cpu() time.Duration {
	select {
	case <-c.done:
		return c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()
	default:
		return processCPU(c.cmd.Process.Pid)
	}
}

// processCPU is the processor time of a process so far; 0 when there is no such process.
func processCPU(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest) // from field 3 of proc(5) on
	if len(f) < 13 {
		return 0
	}
	var ticks int64
	for _, s := range f[11:13] { // utime and stime
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / 100) // USER_HZ is 100 on Linux
}

// end asks the program to stop, and kills it when it does not. It may be called again.
func (c *child) end() {
	c.stop()
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(15 * time.Second):
		_ = c.cmd.Process.Kill()
		<-c.done
	}
}
