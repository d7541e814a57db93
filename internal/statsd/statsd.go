// Package statsd sends numbers to a statsd server, with DogStatsD's tags on request. Lines are collected and sent in few
// packets by Flush; what UDP loses is lost, and a server that is not there is no error of the sender's work.
//
// A Client is for one goroutine at a time. There is no goroutine of its own.
package statsd

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// packet is the most that goes into one datagram: what an ordinary network carries in one piece.
const packet = 1432

// Client collects lines for one server.
type Client struct {
	conn   net.Conn
	prefix string
	tags   string // "|#a:b,c:d" or empty
	buf    bytes.Buffer
}

// Dial names the server as host:port. Every name gets the prefix and a dot; tags, such as "env:prod", are DogStatsD's.
func Dial(addr, prefix string, tags ...string) (*Client, error) {
	conn, err := net.Dial("udp", addr)
	if err != nil {
		return nil, fmt.Errorf("statsd at %s: %w", addr, err)
	}
	c := &Client{conn: conn}
	if prefix != "" {
		c.prefix = clean(prefix) + "."
	}
	if len(tags) > 0 {
		for i := range tags {
			tags[i] = strings.NewReplacer(",", "_", "|", "_", "\n", "_").Replace(tags[i])
		}
		c.tags = "|#" + strings.Join(tags, ",")
	}
	return c, nil
}

// clean keeps a name from being taken for something else.
func clean(s string) string {
	return strings.NewReplacer(":", "_", "|", "_", "@", "_", "\n", "_").Replace(s)
}

// Count adds to a counter; nothing is sent for 0.
func (c *Client) Count(name string, n int64) error {
	if n == 0 {
		return nil
	}
	return c.line(name, strconv.FormatInt(n, 10), "c")
}

// Gauge sets a value. One below 0 would be taken as a change by statsd, so it is first set to 0.
func (c *Client) Gauge(name string, v int64) error {
	if v < 0 {
		if err := c.line(name, "0", "g"); err != nil {
			return err
		}
	}
	return c.line(name, strconv.FormatInt(v, 10), "g")
}

// Timing tells how long something took, in milliseconds.
func (c *Client) Timing(name string, d time.Duration) error {
	return c.line(name, strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64), "ms")
}

func (c *Client) line(name, value, kind string) error {
	line := c.prefix + clean(name) + ":" + value + "|" + kind + c.tags
	if c.buf.Len() > 0 && c.buf.Len()+1+len(line) > packet {
		if err := c.Flush(); err != nil {
			return err
		}
	}
	if c.buf.Len() > 0 {
		c.buf.WriteByte('\n')
	}
	c.buf.WriteString(line)
	return nil
}

// Flush sends what was collected.
func (c *Client) Flush() error {
	if c.buf.Len() == 0 {
		return nil
	}
	_, err := c.conn.Write(c.buf.Bytes())
	c.buf.Reset()
	return err
}

// Close sends the rest.
func (c *Client) Close() error {
	err := c.Flush()
	if e := c.conn.Close(); err == nil {
		err = e
	}
	return err
}
