package wire

import (
	"context"
	"fmt"
	"sync"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/entry"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/pbfield"
)

// Subscription says what to subscribe to and how.
type Subscription struct {
	Topic string // persistent://tenant/namespace/topic, of one partition
	Name  string
	// Durable subscriptions keep messages from retention. They get none here: they are made to acknowledge.
	// Others are readers of their own that begin at Start.
	Durable bool
	Start   MessageID // the entry to begin with; Earliest for the oldest that is left
	// OnActive hears whether this is the consumer, of those of a durable subscription, that is in charge. It is
	// called by the connection and must not wait.
	OnActive func(active bool)
	// OnNews is told that there is something to receive, or that the subscription has ended. It is called by the
	// connection and must not wait. May be nil.
	OnNews func()
}

// Delivery is an entry as the broker sent it. Corrupt says that its bytes are damaged; Entry is then zero.
type Delivery struct {
	ID      MessageID
	Raw     []byte
	Entry   entry.Entry
	Corrupt error
}

type delivery struct {
	id  MessageID
	raw []byte
}

// Consumer is a subscription that is open. Make it with Client.Subscribe.
type Consumer struct {
	c      *conn
	id     uint64
	sub    Subscription
	window int

	// Of the goroutine that receives:
	credit  int     // messages asked for and not yet received
	target  int     // credit to keep up
	average float64 // bytes of a message

	mu    sync.Mutex
	queue []delivery
	err   error
	wake  chan struct{} // has a token when queue or err changed
}

const (
	firstCredit = 16
	maxCredit   = 20_000
)

func (c *conn) subscribe(ctx context.Context, sub Subscription, window int) (*Consumer, error) {
	k := &Consumer{c: c, sub: sub, window: window, target: firstCredit, wake: make(chan struct{}, 1)}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, c.err
	}
	c.nextID++
	k.id = c.nextID
	c.consumers[k.id] = k
	c.mu.Unlock()
	_, err := c.call(ctx, cmdSubscribe, func(id uint64) []byte { return k.request(id) })
	if err == nil && !sub.Durable {
		k.credit = k.target
		err = k.flow(k.credit)
	}
	if err != nil {
		k.Close()
		return nil, fmt.Errorf("subscribe to %s: %w", sub.Topic, err)
	}
	return k, nil
}

func (k *Consumer) request(id uint64) []byte {
	const exclusive, failover, fromEarliest = 0, 2, 1
	kind := exclusive
	if k.sub.Durable {
		kind = failover
	}
	b := pbfield.AppendString(nil, 1, k.sub.Topic)
	b = pbfield.AppendString(b, 2, k.sub.Name)
	b = pbfield.AppendUint(b, 3, uint64(kind))
	b = pbfield.AppendUint(b, 4, k.id)
	b = pbfield.AppendUint(b, 5, id)
	b = pbfield.AppendBool(b, 8, k.sub.Durable)
	if !k.sub.Durable {
		at := k.sub.Start
		if at.Entry >= 0 {
			at.Batch = 0 // an id with a batch index is the one to begin with; without, the one before
		}
		b = appendID(b, 9, at)
	}
	b = pbfield.AppendUint(b, 13, fromEarliest)
	return pbfield.AppendBool(b, 15, false) // a topic that is not there is not made
}

func (k *Consumer) flow(n int) error {
	return k.c.send(cmdFlow, pbfield.AppendUint(pbfield.AppendUint(nil, 1, k.id), 2, uint64(n)))
}

func (k *Consumer) put(d delivery) {
	k.mu.Lock()
	k.queue = append(k.queue, d)
	k.mu.Unlock()
	k.poke()
}

// end makes Receive give err after what is in the queue.
func (k *Consumer) end(err error) {
	k.mu.Lock()
	if k.err == nil {
		k.err = err
	}
	k.mu.Unlock()
	k.poke()
}

func (k *Consumer) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
	if k.sub.OnNews != nil {
		k.sub.OnNews()
	}
}

// Queued is the number of entries that are here and not yet received.
func (k *Consumer) Queued() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.queue)
}

func (k *Consumer) setActive(active bool) {
	if k.sub.OnActive != nil {
		k.sub.OnActive(active)
	}
}

// Receive gives the next entry, and waits for it. Its bytes are the caller's.
func (k *Consumer) Receive(ctx context.Context) (Delivery, error) {
	for {
		d, ok, err := k.TryReceive()
		if ok || err != nil {
			return d, err
		}
		select {
		case <-k.wake:
		case <-ctx.Done():
			return Delivery{}, ctx.Err()
		}
	}
}

// TryReceive gives the next entry if one is there.
func (k *Consumer) TryReceive() (Delivery, bool, error) {
	k.mu.Lock()
	if len(k.queue) == 0 {
		err := k.err
		k.mu.Unlock()
		return Delivery{}, false, err
	}
	d := k.queue[0]
	k.queue[0] = delivery{}
	if k.queue = k.queue[1:]; len(k.queue) == 0 {
		k.queue = nil
	}
	k.mu.Unlock()
	out := Delivery{ID: d.id, Raw: d.raw}
	out.Entry, out.Corrupt = entry.Parse(d.raw)
	count := 1
	if out.Corrupt == nil {
		count = max(out.Entry.Count, 1)
	}
	return out, true, k.took(count, len(d.raw))
}

// took asks for more when so many messages came that half of what was asked for is here. The memory that waits is
// kept near the window by the size of what came so far.
func (k *Consumer) took(count, size int) error {
	k.credit -= count
	const weight = 16
	each := float64(size) / float64(count)
	if k.average == 0 {
		k.average = each
	}
	k.average += (each - k.average) / weight
	if k.credit > k.target/2 {
		return nil
	}
	k.target = max(1, min(2*k.target, maxCredit, int(float64(k.window)/max(k.average, 1))))
	n := k.target - k.credit
	if n <= 0 {
		return nil
	}
	k.credit += n
	return k.flow(n)
}

// AckCumulative acknowledges all up to an entry, and returns when the broker says so.
func (k *Consumer) AckCumulative(ctx context.Context, id MessageID) error {
	const cumulative = 1
	id.Batch = -1
	a, err := k.c.call(ctx, cmdAck, func(request uint64) []byte {
		b := pbfield.AppendUint(pbfield.AppendUint(nil, 1, k.id), 2, cumulative)
		return pbfield.AppendUint(appendID(b, 3, id), 8, request)
	})
	if err == nil {
		err = refusal(a.body, 4, 5)
	}
	return err
}

// Acked gives the entry up to which a durable subscription has acknowledged all; false when the broker does not say.
func (k *Consumer) Acked(ctx context.Context) (MessageID, bool, error) { return k.position(ctx, 3) }

// Last gives the last message that may be read now, and whether there is one.
func (k *Consumer) Last(ctx context.Context) (MessageID, bool, error) {
	id, ok, err := k.position(ctx, 1)
	return id, ok && id.Ledger >= 0 && id.Entry >= 0, err
}

// position reads one of the ids in the answer to where a subscription is.
func (k *Consumer) position(ctx context.Context, field int) (MessageID, bool, error) {
	a, err := k.c.call(ctx, cmdLastMessage, func(request uint64) []byte {
		return pbfield.AppendUint(pbfield.AppendUint(nil, 1, k.id), 2, request)
	})
	if err != nil {
		return MessageID{}, false, err
	}
	r := pbfield.Read(a.body)
	for r.Next() {
		if f := r.Field(); f.Num == field {
			id, err := parseID(f.Bytes)
			return id, err == nil, err
		}
	}
	return MessageID{}, false, r.Err()
}

// Close gives the subscription up. It does not wait for the broker.
func (k *Consumer) Close() {
	k.c.mu.Lock()
	_, open := k.c.consumers[k.id]
	delete(k.c.consumers, k.id)
	k.c.nextID++
	id := k.c.nextID
	k.c.mu.Unlock()
	k.end(fmt.Errorf("%w: closed here", ErrLost))
	if open {
		_ = k.c.send(cmdCloseConsumer, pbfield.AppendUint(pbfield.AppendUint(nil, 1, k.id), 2, id)) // a lost connection has closed it too
	}
}
