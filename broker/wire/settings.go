package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// settings are what administrators set at this server and not at a topic: access rules, quotas, the credentials of
// users and the settings of groups and brokers. Each is a record of SettingsTopic, its key the kind and the JSON of what is set, its value the JSON of what it is set to. A request
// is one batch, so after a crash all of its changes are there or none.
type settings struct {
	topic *stateTopic
	mu    sync.Mutex // held over an append: changes are published in the order of the topic
}

// errTooMany refuses settings that there is no place for.
var errTooMany = errors.New("remove some that nobody needs first")

// Kinds of settings. Part of the format: never change, add.
const (
	settingACL        = "acl"
	settingQuota      = "quota"
	settingCredential = "scram"
	settingGroup      = "group"
	settingBroker     = "broker"
)

func newSettings(log broker.Log) *settings {
	t := newStateTopic(log, SettingsTopic)
	t.whole = true
	return &settings{topic: t}
}

// settingRecord is one setting as it stands in the topic; a nil value removes it.
func settingRecord(kind string, what, value any) (stateRecord, error) {
	key, err := json.Marshal(what)
	if err != nil {
		return stateRecord{}, err
	}
	r := stateRecord{key: append([]byte(kind+" "), key...)}
	if value != nil {
		r.value, err = json.Marshal(value)
	}
	return r, err
}

// load gives each record to the function of its kind; a kind that nobody knows is of a newer server, and an error.
func (s *settings) load(ctx context.Context, kinds map[string]func(what, value []byte) error) error {
	return s.topic.load(ctx, func(rec *record.Record) error {
		kind, what, _ := bytes.Cut(rec.Key, []byte(" "))
		take, ok := kinds[string(kind)]
		if !ok {
			return fmt.Errorf("offset %d: settings of kind %q are not known: were they written by a newer ledgerlake?", rec.Offset, kind)
		}
		if err := take(what, rec.Value); err != nil {
			return fmt.Errorf("offset %d: %s: %w", rec.Offset, kind, err)
		}
		return nil
	})
}

// loadSettings reads the settings, and makes what they are for.
func (s *Server) loadSettings(ctx context.Context, kept *held) error {
	st := newSettings(s.log)
	rules := newAccess(s.cfg.Access, st, kept)
	take, done := rules.replay()
	s.quotas = newQuotas(st, kept, &held{limit: s.cfg.stateMemory() / 16})
	s.tuned = newTunedGroups(st, kept)
	s.brokers = newTunedBrokers(st, s.log, s.cfg.NodeID)
	s.credentials = newCredentials(st, s.cfg.Users, kept)
	kinds := map[string]func(what, value []byte) error{settingACL: take, settingQuota: s.quotas.replay, settingCredential: s.credentials.replay,
		settingGroup: s.tuned.replay, settingBroker: s.brokers.replay}
	if err := st.load(ctx, kinds); err != nil {
		return err
	}
	if err := s.brokers.use(ctx); err != nil {
		return err
	}
	for _, r := range done() {
		s.lg.Warn("access rule binds nobody: its host is no address; remove it and make it anew", "rule", fmt.Sprintf("%+v", r))
	}
	if s.cfg.Access.Enforce {
		s.access = rules
	} else if n := rules.set.Load().Len(); n > 0 {
		s.lg.Warn("access rules are kept and not enforced", "rules", n)
	}
	return nil
}
