package pulsar

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/entry"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/envelope"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
	"github.com/ledgerlake/ledgerlake/record"
)

// decrypt gives an encrypted entry as its producer had it before. It gives the entry as it is where it is to be kept so: kept then
// says what is wrong with it, nil when nobody has tried. A key that is missing is an error and not a dead letter: the messages are
// good, and wait in Pulsar for who brings the key. What no key mends is bad data, and never stops the partition (I7).
func (st *stream) decrypt(d *wire.Delivery, e *entry.Entry) (_ *entry.Entry, kept, err error) {
	cfg := &st.p.s.cfg
	if cfg.Keys == nil {
		return e, nil, nil
	}
	st.clear, err = open(cfg.Keys, st.clear[:0], e)
	var lacks *envelope.KeyError
	switch {
	case err == nil:
		st.plain = *e
		st.plain.Payload, st.plain.Encrypted = st.clear, false
		return &st.plain, nil, nil
	case errors.As(err, &lacks) && !cfg.KeepUndecryptable:
		return nil, nil, fmt.Errorf("%w: message %d:%d of %s cannot be decrypted: %w; add the key, or keep such messages as they are with --pulsar-keep-undecryptable",
			broker.ErrGiveUp, d.ID.Ledger, d.ID.Entry, st.p.tp, err)
	}
	return e, err, nil
}

// open appends the payload to dst, decrypted chunk by chunk where it came so.
func open(keys *envelope.Keys, dst []byte, e *entry.Entry) ([]byte, error) {
	if cap(dst) > keepClear && len(e.Payload) <= keepClear {
		dst = nil
	}
	if e.Sealed == nil {
		return keys.Open(dst, e.RawMeta, e.Payload)
	}
	rest := e.Payload
	for i, c := range e.Sealed {
		part := rest[:c.Size]
		rest = rest[c.Size:]
		if c.RawMeta == nil {
			dst = append(dst, part...)
			continue
		}
		var err error
		if dst, err = keys.Open(dst, c.RawMeta, part); err != nil {
			return dst, fmt.Errorf("chunk %d of %d: %w", i, len(e.Sealed), err)
		}
	}
	return dst, nil
}

// keepClear is the largest buffer, in bytes, that is kept for the next payload.
const keepClear = 16 << 20

// keep adds the headers of an entry that stays encrypted: all that is needed to decrypt it later.
func (st *stream) keep(e *entry.Entry, wrong error) {
	if e.Sealed == nil {
		st.headers = append(st.headers, record.Header{Key: metadataKey, Value: e.RawMeta})
	} else {
		var sizes []byte
		for i, c := range e.Sealed {
			if i > 0 {
				sizes = append(sizes, ' ')
			}
			sizes = strconv.AppendInt(sizes, int64(c.Size), 10)
			st.headers = append(st.headers, record.Header{Key: metadataKey, Value: c.RawMeta})
		}
		st.headers = append(st.headers, record.Header{Key: sizesKey, Value: sizes})
	}
	if wrong != nil {
		st.headers = append(st.headers, record.Header{Key: errorKey, Value: []byte(wrong.Error())})
	}
}
