package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

const (
	// seamAge is how long it is believed that the lake has an offset and the log does not. That stays so, unless the topic
	// is deleted and made again, which shows after this time.
	seamAge  = 5 * time.Second
	maxSeams = 100_000
)

// seam is what is known of a partition of the cluster: where its log begins, and what the lake has before that.
type seam struct {
	topic   string
	bounds  broker.Bounds // Stable is not known
	lake    record.Offset // first offset of the lake
	lakeEnd record.Offset
	tiers   bool  // there is a lake of this topic
	code    int16 // of the cluster, instead of all this
	at      time.Time
}

// start is the log start that clients see. Where offsets between lake and log are lost, it is that of the log: who
// begins at the start must not come to the hole, be told to begin at the start, and so on for ever.
func (j *seam) start() record.Offset {
	if j.tiers && j.lakeEnd >= j.bounds.Start {
		return min(j.lake, j.bounds.Start)
	}
	return j.bounds.Start
}

// holds says whether an offset below the log is the lake's to answer.
func (j *seam) holds(o record.Offset) bool {
	return j.tiers && o < j.bounds.Start && o >= j.lake && o < j.lakeEnd
}

// seams remembers them, for partitions that somebody asked the history of.
type seams struct {
	mu sync.Mutex
	m  map[sessionKey]*seam // by topic or id, as they are asked for
}

func newSeams() seams { return seams{m: map[sessionKey]*seam{}} }

// known gives what is remembered, however old.
func (s *seams) known(k sessionKey) *seam {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[k]
}

func (s *seams) put(k sessionKey, j *seam) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for old := range s.m {
		if len(s.m) < maxSeams {
			break
		}
		delete(s.m, old)
	}
	s.m[k] = j
}

// seam gives what is known of a partition, as it was at some moment not before the given one. The log's start is asked for
// first and the lake's end then, so that what moves from one to the other meanwhile is not missed in both. The node of the connection is asked, which
// should be the partition's leader: where it is not, seam.code is the one to answer with.
func (u *upstreamConn) seam(ctx context.Context, k sessionKey, notBefore time.Time) (*seam, error) {
	if j := u.g.seams.known(k); j != nil && !j.at.Before(notBefore) {
		return j, nil
	}
	j := &seam{at: time.Now()}
	id, code, err := u.lookUp(ctx, k, j)
	if err == nil && code == codeNone {
		code, err = u.logBounds(ctx, j, k.partition)
	}
	if err != nil {
		return nil, err
	}
	if j.code = code; code != codeNone {
		return j, nil // not remembered: it passes
	}
	tp := record.TopicPartition{Topic: j.topic, Partition: k.partition}
	lake := u.g.up.Lake
	end, ok, err := lake.End(ctx, tp, id, j.bounds.Start)
	var other *table.TopicChangedError
	switch {
	case errors.As(err, &other):
		u.g.s.lg.Warn("the history of a topic is not given: it is another one's of that name", "topic", j.topic, "err", err)
	case err != nil:
		return nil, errors.Join(errHistory, err)
	case ok:
		j.lakeEnd = end
		if j.lake, j.tiers = lake.Start(ctx, tp); !j.tiers {
			return nil, fmt.Errorf("%w: where that of %s begins is not known", errHistory, tp)
		}
	}
	j.bounds.End = max(j.bounds.End, j.lakeEnd)
	u.g.seams.put(k, j)
	return j, nil
}

// lookUp finds a topic's name and id, one by the other.
func (u *upstreamConn) lookUp(ctx context.Context, k sessionKey, j *seam) (id [16]byte, code int16, err error) {
	req, resp := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrMetadataResponse()
	var ok bool
	if req.Version, ok = u.speaks(req.Key(), req.MaxVersion()); !ok {
		return id, codeUnsupportedVersion, nil
	}
	t := kmsg.NewMetadataRequestTopic()
	if t.TopicID = k.id; k.topic != "" {
		t.Topic = &k.topic
	}
	req.Topics, req.AllowAutoTopicCreation = append(req.Topics, t), false
	mem, err := u.ask(ctx, req, resp, gatewayClient)
	if err != nil {
		return id, 0, err
	}
	defer mem.release()
	if len(resp.Topics) != 1 {
		return id, 0, fmt.Errorf("%w: it describes %d topics, asked for one", errUpstream, len(resp.Topics))
	}
	if j.topic = k.topic; resp.Topics[0].Topic != nil {
		j.topic = *resp.Topics[0].Topic
	}
	return resp.Topics[0].TopicID, resp.Topics[0].ErrorCode, nil
}

// logBounds asks where the log of a partition begins and ends.
func (u *upstreamConn) logBounds(ctx context.Context, j *seam, partition int32) (code int16, err error) {
	for _, ask := range []struct {
		time int64
		to   *record.Offset
	}{{offsetEarliest, &j.bounds.Start}, {offsetLatest, &j.bounds.End}} {
		req, resp := kmsg.NewPtrListOffsetsRequest(), kmsg.NewPtrListOffsetsResponse()
		var ok bool
		if req.Version, ok = u.speaks(req.Key(), req.MaxVersion()); !ok {
			return codeUnsupportedVersion, nil
		}
		t, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = partition, ask.time
		t.Topic, t.Partitions = j.topic, append(t.Partitions, p)
		req.ReplicaID, req.Topics = -1, append(req.Topics, t)
		mem, err := u.ask(ctx, req, resp, gatewayClient)
		if err != nil {
			return 0, err
		}
		mem.release()
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return 0, fmt.Errorf("%w: it does not tell the offsets of one partition", errUpstream)
		}
		got := &resp.Topics[0].Partitions[0]
		if got.ErrorCode != codeNone {
			return got.ErrorCode, nil
		}
		*ask.to = record.Offset(got.Offset)
	}
	return codeNone, nil
}
