package raft

import (
	"time"
)

// An election costs its candidate and each voter three writes to disk, one after the other, before the last vote is in. On a
// disk that is slower than the time that an election has, none would ever come to an end, and the group would stand still for
// as long as the disk is slow. So each election that comes to nothing doubles the time for the next one. A node that cannot
// reach the others begins no election (it asks first whether it would be voted for), so its time stays short.

const (
	maxElection   = 32               // times the heartbeat: the most that an election gets
	calmElections = 10 * time.Second // under a leader, after which the next election is a fast one again
)

// electionTime gives the time for the next election, from the one before and the elections since a node led.
func electionTime(heartbeat, last time.Duration, failed uint64) time.Duration {
	return max(last, heartbeat*time.Duration(min(uint64(1)<<min(failed, 10), maxElection)))
}

// pace lets elections take the time that they need.
func (n *Node) pace() {
	tick := time.NewTicker(n.cfg.Heartbeat / 2)
	defer tick.Stop()
	current := n.cfg.Heartbeat
	var led uint64      // term in which a leader was known last
	var since time.Time // a leader is known
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-n.broken:
			return
		case <-tick.C:
		}
		term, want := n.raft.CurrentTerm(), current
		switch leader, _ := n.raft.LeaderWithID(); {
		case leader == "":
			since = time.Time{}
			if led == 0 || term < led {
				led = term
			}
			if term > led { // the last one may be under way
				want = electionTime(n.cfg.Heartbeat, current, term-led-1)
			}
		case since.IsZero():
			led, since = term, time.Now()
		case time.Since(since) > calmElections:
			led, want = term, n.cfg.Heartbeat
		}
		if want == current {
			continue
		}
		c := n.raft.ReloadableConfig()
		c.ElectionTimeout = want
		if err := n.raft.ReloadConfig(c); err != nil {
			n.cfg.Logger.Warn("set the time of elections", "node", n.cfg.ID, "error", err)
			continue
		}
		if want > current {
			n.cfg.Logger.Warn("elections come to nothing; is the disk slow? the next one has more time", "node", n.cfg.ID, "term", term, "time", want)
		}
		current = want
	}
}
