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
//
// A process that failed, or that still owes lines when nobody waits for them any more, is ended, and the next call
// starts another: an answer that comes late must not be taken for that of another record.
type Command struct {
	argv []string
	run  *process // nil: none runs
}

// process is one run of a command.
type process struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan []byte // closed at the end of the output
	bad   error       // why lines was closed, read after it
	done  sync.WaitGroup
}

// StartCommand starts the process.
func StartCommand(argv []string) (*Command, error) {
	p, err := start(argv)
	if err != nil {
		return nil, err
	}
	return &Command{argv: argv, run: p}, nil
}

func start(argv []string) (*process, error) {
	p := &process{name: argv[0], cmd: exec.Command(argv[0], argv[1:]...), lines: make(chan []byte, 1024)}
	// Python would keep its lines back otherwise, and everybody would wait for ever.
	p.cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1")
	p.cmd.Stderr = os.Stderr
	in, err1 := p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("command %s: %w", p.name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start command: %w", err)
	}
	p.in = in
	p.done.Go(func() { p.read(out) })
	return p, nil
}

func (p *process) read(out io.Reader) {
	defer close(p.lines)
	s := bufio.NewScanner(out)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		p.lines <- bytes.Clone(s.Bytes())
	}
	p.bad = s.Err()
}

// Apply implements Transform.
func (c *Command) Apply(ctx context.Context, in []Record) ([]Result, error) {
	if c.run == nil {
		p, err := start(c.argv)
		if err != nil {
			return nil, err
		}
		c.run = p
	}
	out, err := c.run.apply(ctx, in)
	if err != nil {
		c.run.kill()
		c.run = nil
	}
	return out, err
}

func (p *process) apply(ctx context.Context, in []Record) ([]Result, error) {
	select {
	case raw, ok := <-p.lines:
		if !ok {
			return nil, p.ended(0, len(in))
		}
		return nil, fmt.Errorf("command %s wrote %.80q, and was asked nothing: it must write one line for each that it reads", p.name, raw)
	default:
	}
	wrote := make(chan error, 1)
	go func() { wrote <- p.write(in) }()
	out := make([]Result, len(in))
	timer := time.NewTimer(answerTime)
	defer timer.Stop()
	for i := range in {
		timer.Reset(answerTime)
		select {
		case raw, ok := <-p.lines:
			if !ok {
				return nil, p.ended(i, len(in))
			}
			out[i] = result(raw)
		case <-timer.C:
			return nil, fmt.Errorf("command %s: %d of %d lines came, and none for %s: it must write a line for each that it reads, and flush", p.name, i, len(in), answerTime)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return out, <-wrote
}

func (p *process) write(in []Record) error {
	w := bufio.NewWriterSize(p.in, 256<<10)
	var buf []byte
	for i := range in {
		var err error
		if buf, err = line(buf[:0], &in[i]); err != nil {
			return err
		}
		if _, err := w.Write(append(buf, '\n')); err != nil {
			return fmt.Errorf("command %s: %w", p.name, err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("command %s: %w", p.name, err)
	}
	return nil
}

func (p *process) ended(got, want int) error {
	why := "it ended"
	if p.bad != nil {
		why = p.bad.Error()
	}
	return fmt.Errorf("command %s: %s after %d of %d lines", p.name, why, got, want)
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
	if c.run == nil {
		return nil
	}
	p := c.run
	c.run = nil
	_ = p.in.Close()
	stop := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer stop.Stop()
	return p.wait()
}

// kill ends the process at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.in.Close()
	_ = p.wait() // killed, as it says
}

func (p *process) wait() error {
	for range p.lines { // what is still written: nobody wants it, but it must not block the process
	}
	p.done.Wait()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("command %s: %w", p.name, err)
	}
	return nil
}
