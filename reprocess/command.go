package reprocess

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	// maxLine bounds one line of a command's output.
	maxLine = 64 << 20
	// answerTime is how long a command may take for the next line.
	answerTime = 5 * time.Minute
)

// Command is a Transform by a process of any language. It gets a JSON object a record on a line of its standard
// input: the fields of the value, and _partition, _offset, _timestamp, _key, _headers. For each it writes one line,
// in the same order: a JSON object, the new row; or null, no row. It flushes its output at least when it waits for
// input. What it writes to standard error is passed on; a line {"_error": "why"} makes the record a dead letter.
type Command struct {
	argv  []string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan []byte // closed at the end of the output
	bad   error       // why lines was closed, read after it
	done  sync.WaitGroup
}

// StartCommand starts the process.
func StartCommand(argv []string) (*Command, error) {
	c := &Command{argv: argv, lines: make(chan []byte, 1024)}
	c.cmd = exec.Command(argv[0], argv[1:]...)
	// Python would keep its lines back otherwise, and everybody would wait for ever.
	c.cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1")
	c.cmd.Stderr = os.Stderr
	in, err1 := c.cmd.StdinPipe()
	out, err2 := c.cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("command %s: %w", argv[0], err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start command: %w", err)
	}
	c.in = in
	c.done.Go(func() { c.read(out) })
	return c, nil
}

func (c *Command) read(out io.Reader) {
	defer close(c.lines)
	s := bufio.NewScanner(out)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		c.lines <- bytes.Clone(s.Bytes())
	}
	c.bad = s.Err()
}

// Apply implements Transform.
func (c *Command) Apply(ctx context.Context, in []Record) ([]Result, error) {
	wrote := make(chan error, 1)
	go func() { wrote <- c.write(in) }()
	out := make([]Result, len(in))
	timer := time.NewTimer(answerTime)
	defer timer.Stop()
	for i := range in {
		timer.Reset(answerTime)
		select {
		case raw, ok := <-c.lines:
			if !ok {
				return nil, c.ended(i, len(in))
			}
			out[i] = result(raw)
		case <-timer.C:
			return nil, fmt.Errorf("command %s: %d of %d lines came, and none for %s: it must write a line for each that it reads, and flush", c.argv[0], i, len(in), answerTime)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return out, <-wrote
}

func (c *Command) write(in []Record) error {
	w := bufio.NewWriterSize(c.in, 256<<10)
	var buf []byte
	for i := range in {
		var err error
		if buf, err = line(buf[:0], &in[i]); err != nil {
			return err
		}
		if _, err := w.Write(append(buf, '\n')); err != nil {
			return fmt.Errorf("command %s: %w", c.argv[0], err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("command %s: %w", c.argv[0], err)
	}
	return nil
}

func (c *Command) ended(got, want int) error {
	why := "it ended"
	if c.bad != nil {
		why = c.bad.Error()
	}
	return fmt.Errorf("command %s: %s after %d of %d lines", strings.Join(c.argv, " "), why, got, want)
}

// result reads one line of output.
func result(raw []byte) Result {
	raw = bytes.TrimSpace(raw)
	switch {
	case bytes.Equal(raw, []byte("null")):
		return Result{Drop: true}
	case len(raw) == 0 || raw[0] != '{':
		return Result{Err: fmt.Errorf("the command answered %.80q: want a JSON object, or null for no row", raw)}
	}
	if why, ok := failure(raw); ok {
		return Result{Err: errors.New(why)}
	}
	value, err := withoutSystem(raw)
	if err != nil {
		return Result{Err: fmt.Errorf("the command answered %.80q: %w", raw, err)}
	}
	return Result{Value: value}
}

// Close ends the process: by the end of its input, and if that does not do, by force.
func (c *Command) Close() error {
	_ = c.in.Close()
	stop := time.AfterFunc(10*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer stop.Stop()
	for range c.lines { // what is still written: nobody wants it, but it must not block the process
	}
	c.done.Wait()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("command %s: %w", c.argv[0], err)
	}
	return nil
}
