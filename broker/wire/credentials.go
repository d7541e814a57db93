package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/ledgerlake/ledgerlake/internal/scram"
)

const (
	maxCredentials       = 10_000
	maxCredentialName    = 1 << 10
	maxAlteredIterations = 16384 // Kafka's limit too: each log-in by PLAIN hashes so often
)

var (
	errNoCredential  = errors.New("the user has no such credential")
	errFileUser      = errors.New("the user stands in the file of --kafka-users, which is changed there")
	errTwice         = errors.New("the user and mechanism stand twice in one request")
	errMechanism     = errors.New("unknown SCRAM mechanism: want SCRAM-SHA-256 (1) or SCRAM-SHA-512 (2)")
	errBadCredential = errors.New("unacceptable credential")
)

// credentialKey is whose credential, and for which mechanism.
type credentialKey struct {
	User      string          `json:"user"`
	Mechanism scram.Mechanism `json:"mechanism"`
}

// credentials are the SCRAM credentials that administrators made through the protocol. They are kept in the settings,
// salted. The file of users goes first: a name that stands in it cannot be changed here, and what was kept under that
// name does not count.
type credentials struct {
	settings *settings
	file     func() *scram.Users // nil: nobody logs in, and what is kept counts once somebody can
	kept     *held

	mu  sync.Mutex
	set map[credentialKey]scram.Credential
}

// newCredentials makes credentials without any; a gateway has no settings, and keeps none.
func newCredentials(st *settings, file func() *scram.Users, kept *held) *credentials {
	return &credentials{settings: st, file: file, kept: kept, set: map[credentialKey]scram.Credential{}}
}

// replay takes a record of the settings.
func (c *credentials) replay(what, value []byte) error {
	var k credentialKey
	if err := json.Unmarshal(what, &k); err != nil {
		return err
	}
	if value == nil {
		c.put(k, nil)
		return nil
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return err
	}
	cred, err := scram.ParseCredential(text)
	if err != nil {
		return fmt.Errorf("user %q: %w", k.User, err)
	}
	c.put(k, &cred)
	return nil
}

// put counts a credential, or forgets it where it is nil. The caller has c.mu, or nobody else has c.
func (c *credentials) put(k credentialKey, cred *scram.Credential) {
	_, had := c.set[k]
	switch {
	case cred == nil && had:
		delete(c.set, k)
		c.kept.add(-k.cost())
	case cred != nil:
		if c.set[k] = *cred; !had {
			c.kept.add(k.cost())
		}
	}
}

func (k credentialKey) cost() int64 { return int64(512 + len(k.User)) }

// credentialChange makes a credential, or removes it where it is nil.
type credentialChange struct {
	key  credentialKey
	cred *scram.Credential
}

// change makes the changes of each user durable, all of a request together, and then counts them. A user one of whose
// changes is refused keeps all credentials; users whose changes are good do not mind. The result is by user.
func (c *credentials) change(ctx context.Context, users map[string][]credentialChange) map[string]error {
	c.settings.mu.Lock()
	defer c.settings.mu.Unlock()
	out := make(map[string]error, len(users))
	var recs []stateRecord
	var good []credentialChange
	count := c.count()
	for _, name := range slices.Sorted(maps.Keys(users)) {
		more, err := c.check(name, users[name], count)
		if err == nil {
			var add []stateRecord
			if add, err = credentialRecords(users[name]); err == nil {
				recs, good, count = append(recs, add...), append(good, users[name]...), count+more
			}
		}
		out[name] = err
	}
	if len(recs) == 0 {
		return out
	}
	if err := c.settings.topic.append(ctx, recs); err != nil { // COMMIT POINT
		for name, was := range out {
			out[name] = cmp.Or(was, err)
		}
		return out
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range good {
		c.put(ch.key, ch.cred)
	}
	return out
}

// check says whether a user's changes can be made when count credentials are kept, and how many more there are then.
func (c *credentials) check(name string, changes []credentialChange, count int) (more int, err error) {
	if c.file != nil && c.file().Has(name) {
		return 0, errFileUser
	}
	seen := map[credentialKey]bool{}
	for _, ch := range changes {
		if seen[ch.key] {
			return 0, errTwice
		}
		seen[ch.key] = true
	}
	for _, ch := range changes {
		_, has := c.get(ch.key)
		switch {
		case ch.cred == nil && !has:
			return 0, fmt.Errorf("%w for %s", errNoCredential, ch.key.Mechanism)
		case ch.cred == nil:
			more--
		case !has:
			more++
		}
	}
	if more > 0 && !c.kept.room(int64(count-c.count()+more)*credentialKey{User: name}.cost()) {
		return 0, fmt.Errorf("%w: %w", errNoMemory, errTooMany)
	}
	if more > 0 && count+more > maxCredentials {
		return 0, fmt.Errorf("there can be %d credentials: %w", maxCredentials, errTooMany)
	}
	return more, nil
}

func credentialRecords(changes []credentialChange) (recs []stateRecord, err error) {
	for _, ch := range changes {
		var value any
		if ch.cred != nil {
			value = ch.cred.String()
		}
		rec, err := settingRecord(settingCredential, ch.key, value)
		if err != nil {
			return nil, err
		}
		recs = append(recs, rec)
	}
	return recs, nil
}

func (c *credentials) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.set)
}

func (c *credentials) get(k credentialKey) (scram.Credential, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cred, ok := c.set[k]
	return cred, ok
}

// users are all who may log in: those of the file, and those that were made here.
func (c *credentials) users() *scram.Users {
	return c.file().With(func(m scram.Mechanism, name string) (scram.Credential, bool) {
		return c.get(credentialKey{User: name, Mechanism: m})
	})
}

// all gives the iterations of every credential that there is, by user and mechanism.
func (c *credentials) all() map[string]map[scram.Mechanism]int {
	out := map[string]map[scram.Mechanism]int{}
	put := func(name string, m scram.Mechanism, iterations int) {
		if out[name] == nil {
			out[name] = map[scram.Mechanism]int{}
		}
		out[name][m] = iterations
	}
	c.mu.Lock()
	for k, cred := range c.set {
		put(k.User, k.Mechanism, cred.Iterations)
	}
	c.mu.Unlock()
	if c.file == nil {
		return out
	}
	file := c.file()
	maps.DeleteFunc(out, func(name string, _ map[scram.Mechanism]int) bool { return file.Has(name) })
	file.Each(func(name string, cred scram.Credential) { put(name, cred.Mechanism, cred.Iterations) })
	return out
}

// Mechanisms by the number that requests have for them.
var scramNumbers = map[int8]scram.Mechanism{1: scram.SHA256, 2: scram.SHA512}

func scramNumber(m scram.Mechanism) int8 {
	if m == scram.SHA256 {
		return 1
	}
	return 2
}

func credentialCode(err error) int16 {
	switch {
	case errors.Is(err, errNoCredential):
		return codeResourceNotFound
	case errors.Is(err, errTwice):
		return codeDuplicateResource
	case errors.Is(err, errMechanism):
		return codeUnsupportedSASL
	case errors.Is(err, errBadCredential), errors.Is(err, errFileUser):
		return codeUnacceptableCredential
	}
	return codeOf(err)
}
