package wire

import (
	"fmt"
	"net"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/sendfile"
)

// write sends in chunks, so that the deadline bounds a stalled reader and not a large answer.
func (c *conn) write(out []byte) error {
	for len(out) > 0 {
		c.writeDeadline()
		n, err := c.nc.Write(out[:min(ioChunk, len(out))])
		if err != nil {
			return fmt.Errorf("send answer: %w", err)
		}
		c.s.metrics.out.Add(int64(n))
		out = out[n:]
	}
	return nil
}

func (c *conn) writeDeadline() { _ = c.nc.SetWriteDeadline(time.Now().Add(c.s.cfg.IOTimeout)) }

// writeParts sends parts as write does: so much at once that the deadline bounds a stalled reader.
func (c *conn) writeParts(parts []part) error {
	for len(parts) > 0 {
		n, size := 0, 0
		for n < len(parts) && parts[n].file == nil {
			size += len(parts[n].bytes)
			n++
		}
		if err := c.writeBytes(parts[:n], n < len(parts)); err != nil {
			return fmt.Errorf("send answer: %w", err)
		}
		c.s.metrics.out.Add(int64(size))
		if parts = parts[n:]; len(parts) == 0 {
			break
		}
		if err := c.writeFile(parts[0]); err != nil {
			return fmt.Errorf("send answer from the log's file: %w", err)
		}
		parts = parts[1:]
	}
	return nil
}

// writeBytes sends parts that are in memory. more: a file follows.
func (c *conn) writeBytes(parts []part, more bool) error {
	for len(parts) > 0 {
		var chunk net.Buffers
		n := 0
		for n < ioChunk && len(parts) > 0 {
			p := &parts[0]
			take := min(len(p.bytes), ioChunk-n)
			chunk, n = append(chunk, p.bytes[:take]), n+take
			if p.bytes = p.bytes[take:]; len(p.bytes) == 0 {
				parts = parts[1:]
			}
		}
		c.writeDeadline()
		if more && len(parts) == 0 && len(chunk) == 1 {
			return sendfile.Head(c.nc, chunk[0])
		}
		if _, err := chunk.WriteTo(c.nc); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) writeFile(p part) error {
	for pos, left := p.file.Pos, p.file.Size; left > 0; {
		n := min(left, ioChunk)
		c.writeDeadline()
		if err := sendfile.Send(c.nc, p.file.File, pos, n); err != nil {
			return err
		}
		c.s.metrics.out.Add(int64(n))
		pos, left = pos+int64(n), left-n
	}
	return nil
}
