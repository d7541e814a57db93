package reprocess

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

const (
	// maxLine bounds one line of a command's output.
	maxLine = 64 << 20
	// answerTime is how long a command may take for the next line.
	answerTime = 5 * time.Minute
)

// Command is a Transform by a process of any language. It gets a JSON object a record on a line of its standard
// input: the fields of the value, and _partition, _offset, _timestamp, _key, _headers. For each it writes one line,
// in the same order: a JSON object, the new row, with the _offset of its record; or null, no row. It flushes its
// output at least when it waits for input. What it writes to standard error is passed on; {"_offset": n, "_error":
// "why"} makes the record a dead letter.
//
// The _offset shows that no line is out of step, such as one that a library prints at its start. A process that
// failed, or that still owes lines when nobody waits for them any more, is ended, and another one is started: an
// answer that comes late must not be taken for that of another record. Then records are tried one by one, and one that
// ends the process again becomes a dead letter; when several in a row do, the job ends.
type Command struct {
	argv []string
	run  *process // nil: none runs
}

// process is one run of a command.
type process struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.ReadCloser
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
	ownGroup(p.cmd)
	in, err1 := p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("command %s: %w", p.name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start command: %w", err)
	}
	p.in, p.out = in, out
	p.done.Go(p.read)
	return p, nil
}

func (p *process) read() {
	defer close(p.lines)
	s := bufio.NewScanner(p.out)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		p.lines <- bytes.Clone(s.Bytes())
	}
	p.bad = s.Err()
}

// giveUp is how many records in a row may end the process before nobody believes that the records are at fault.
const giveUp = 3

// Apply implements Transform.
func (c *Command) Apply(ctx context.Context, in []Record) ([]Result, error) {
	out, err := c.try(ctx, in)
	if err == nil || ctx.Err() != nil {
		return out, err
	}
	out = make([]Result, len(in))
	failed := 0
	for i := range in {
		one, err := c.try(ctx, in[i:i+1])
		if err != nil && ctx.Err() == nil { // the batch may have failed at another record: this one gets its second chance
			one, err = c.try(ctx, in[i:i+1])
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil:
			out[i], failed = one[0], 0
			continue
		}
		if failed++; failed == giveUp {
			return nil, fmt.Errorf("%w: it failed at %d records in a row: %w", broker.ErrGiveUp, giveUp, err)
		}
		out[i] = Result{Err: err}
	}
	return out, nil
}

// try hands the records to the process, a new one if there is none.
func (c *Command) try(ctx context.Context, in []Record) ([]Result, error) {
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
			var err error
			if out[i], err = result(raw, in[i].Offset); err != nil {
				return nil, fmt.Errorf("command %s: %w", p.name, err)
			}
		case <-timer.C:
			return nil, fmt.Errorf("command %s: %d of %d lines came, and none for %s: it must write a line for each that it reads, and flush", p.name, i, len(in), answerTime)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	select {
	case err := <-wrote:
		return out, err
	case raw := <-p.lines:
		return nil, fmt.Errorf("command %s wrote %.80q beyond one line a record", p.name, raw)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *process) write(in []Record) error {
	w := bufio.NewWriterSize(p.in, 256<<10)
	var buf []byte
	for i := range in {
		var err error
		if buf, err = line(buf[:0], &in[i], ""); err != nil {
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

// result reads one line of output. An error is for a line that is not of the record at this offset.
func result(raw []byte, offset record.Offset) (Result, error) {
	raw = bytes.TrimSpace(raw)
	if bytes.Equal(raw, []byte("null")) {
		return Result{Drop: true}, nil
	}
	var fields map[string]json.RawMessage // not a struct, which would take _Offset for _offset
	if err := json.Unmarshal(raw, &fields); err != nil {
		return Result{}, fmt.Errorf("it answered %.80q: want a JSON object, or null for no row: %w", raw, err)
	}
	var at *record.Offset
	var why *string
	for name, to := range map[string]any{"_offset": &at, "_error": &why} {
		if text, ok := fields[name]; ok {
			if err := json.Unmarshal(text, to); err != nil {
				return Result{}, fmt.Errorf("it answered %.80q: field %s: %w", raw, name, err)
			}
		}
	}
	switch {
	case at == nil:
		return Result{}, fmt.Errorf("it answered %.80q: want the _offset of the record in it, to know that it is of this record", raw)
	case *at != offset:
		return Result{}, fmt.Errorf("it answered with _offset %d where %d was due: it must write one line for each that it reads, in the same order", *at, offset)
	case why != nil:
		return Result{Err: errors.New(*why)}, nil
	}
	for _, name := range systemNames {
		delete(fields, name)
	}
	value, err := json.Marshal(fields)
	return Result{Value: value}, err
}

// Close ends the process: by the end of its input, and if that does not do, by force.
func (c *Command) Close() error {
	if c.run == nil {
		return nil
	}
	p := c.run
	c.run = nil
	_ = p.in.Close()
	stop := time.AfterFunc(10*time.Second, p.end)
	defer stop.Stop()
	return p.wait()
}

// kill ends the process at once.
func (p *process) kill() {
	p.end()
	_ = p.in.Close()
	_ = p.wait() // killed, as it says
}

// end kills the process and its children; a child that got away may hold the output open, so our side is closed.
func (p *process) end() {
	killGroup(p.cmd)
	_ = p.out.Close()
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
