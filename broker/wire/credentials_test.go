package wire

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/scram"
	"github.com/ledgerlake/ledgerlake/record"
)

// alterUsers makes and removes credentials, and gives the error of each user.
func alterUsers(t *testing.T, adm *kadm.Client, del []kadm.DeleteSCRAM, up []kadm.UpsertSCRAM) map[string]error {
	t.Helper()
	got, err := adm.AlterUserSCRAMs(within(t, 10*time.Second), del, up)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]error{}
	for _, u := range got {
		out[u.User] = u.Err
	}
	return out
}

// Users that an administrator makes through the protocol log in, also after a restart, until they are removed.
func TestUsersByProtocol(t *testing.T) {
	log := newMemLog(t)
	config := func(c *Config) { c.Users = userList(t, "admin:secret") }
	s := start(t, log, config)
	as := func(s *Server) *kadm.Client {
		return kadm.NewClient(client(t, s, kgo.SASL(mechanisms("admin", "secret")["SCRAM-SHA-512"])))
	}
	both := []kadm.UpsertSCRAM{
		{User: "ann", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "pw-of-ann"},
		{User: "ann", Mechanism: kadm.ScramSha512, Iterations: 8192, Password: "pw-of-ann"},
		{User: "bob", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "pw-of-bob"},
	}
	for user, err := range alterUsers(t, as(s), nil, both) {
		if err != nil {
			t.Fatalf("%s: %v", user, err)
		}
	}
	logsIn := func(s *Server, user, password string, want map[string]bool) {
		t.Helper()
		for name, m := range mechanisms(user, password) {
			if err := ping(t, s, kgo.SASL(m)); (err == nil) != want[name] || err != nil && !errors.Is(err, kerr.SaslAuthenticationFailed) {
				t.Errorf("%s with %q by %s: %v, want success %v", user, password, name, err, want[name])
			}
		}
	}
	all := map[string]bool{"PLAIN": true, "SCRAM-SHA-256": true, "SCRAM-SHA-512": true}
	one := map[string]bool{"PLAIN": true, "SCRAM-SHA-256": true}
	again := start(t, log, config)
	for _, s := range []*Server{s, again} {
		logsIn(s, "ann", "pw-of-ann", all)
		logsIn(s, "ann", "pw-of-bob", nil)
		logsIn(s, "bob", "pw-of-bob", one)
		logsIn(s, "admin", "secret", all)
	}

	got, err := as(again).DescribeUserSCRAMs(within(t, 10*time.Second))
	if err != nil || len(got) != 3 || len(got["ann"].CredInfos) != 2 || got["ann"].CredInfos[1].Iterations != 8192 || len(got["bob"].CredInfos) != 1 || len(got["admin"].CredInfos) != 2 {
		t.Errorf("described as %+v, %v", got, err)
	}
	one["SCRAM-SHA-256"] = true
	for user, err := range alterUsers(t, as(again), []kadm.DeleteSCRAM{{User: "ann", Mechanism: kadm.ScramSha512}, {User: "bob", Mechanism: kadm.ScramSha256}}, nil) {
		if err != nil {
			t.Errorf("remove %s: %v", user, err)
		}
	}
	logsIn(again, "ann", "pw-of-ann", one)
	logsIn(again, "bob", "pw-of-bob", nil)
	if got, err := as(again).DescribeUserSCRAMs(within(t, 10*time.Second), "bob"); err != nil || !errors.Is(got["bob"].Err, kerr.ResourceNotFound) {
		t.Errorf("who is removed is described as %+v, %v", got, err)
	}
}

// A user with one bad change keeps what they have; others of the same request are changed.
func TestCredentialRefusals(t *testing.T) {
	s := start(t, newMemLog(t), func(c *Config) { c.Users = userList(t, "admin:secret") })
	adm := kadm.NewClient(client(t, s, kgo.SASL(mechanisms("admin", "secret")["PLAIN"])))
	up := func(user string, iterations int32) kadm.UpsertSCRAM {
		return kadm.UpsertSCRAM{User: user, Mechanism: kadm.ScramSha256, Iterations: iterations, SaltedPassword: make([]byte, 32), Salt: make([]byte, 16)}
	}
	short := up("short", 4096)
	short.SaltedPassword = make([]byte, 31)
	half := up("half", 4096)
	half.Mechanism = kadm.ScramSha512 // 32 bytes are not its size
	got := alterUsers(t, adm, []kadm.DeleteSCRAM{{User: "gone", Mechanism: kadm.ScramSha256}, {User: "twice", Mechanism: kadm.ScramSha256}},
		[]kadm.UpsertSCRAM{up("admin", 4096), up("weak", 4095), up("slow", 16385), up("twice", 4096), up("", 4096), short, up("half", 4096), half, up("good", 16384)})
	for user, want := range map[string]error{
		"gone": kerr.ResourceNotFound, "twice": kerr.DuplicateResource, "admin": kerr.UnacceptableCredential,
		"weak": kerr.UnacceptableCredential, "slow": kerr.UnacceptableCredential, "": kerr.UnacceptableCredential, "short": kerr.UnacceptableCredential,
		"half": kerr.UnacceptableCredential, "good": nil,
	} {
		if !errors.Is(got[user], want) {
			t.Errorf("%q: %v, want %v", user, got[user], want)
		}
	}
	if all := s.credentials.all(); len(all) != 2 || all["good"][scram.SHA256] != 16384 {
		t.Errorf("kept are %v, want admin and good", all)
	}
	if len(got) != 9 {
		t.Errorf("answers for %d users, want 9", len(got))
	}
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest() // kadm asks for no mechanism that it does not know
	req.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "admin", Mechanism: 3}}
	if resp, err := req.RequestWith(within(t, 10*time.Second), client(t, s, kgo.SASL(mechanisms("admin", "secret")["PLAIN"]))); err != nil || resp.Results[0].ErrorCode != codeUnsupportedSASL {
		t.Errorf("an unknown mechanism: %+v, %v", resp, err)
	}
}

// Nobody reads the topic that holds credentials, with rules or without.
func TestCredentialsAreNotRead(t *testing.T) {
	s := start(t, newMemLog(t), nil)
	adm := admin(t, s)
	for user, err := range alterUsers(t, adm, nil, []kadm.UpsertSCRAM{{User: "ann", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "pw"}}) {
		if err != nil {
			t.Fatalf("%s: %v", user, err)
		}
	}
	if b, err := s.log.Bounds(within(t, 10*time.Second), record.TopicPartition{Topic: SettingsTopic}); err != nil || b.End == 0 {
		t.Fatalf("the settings have bounds %+v, %v", b, err)
	}
	cl := client(t, s, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{SettingsTopic: {0: kgo.NewOffset().At(0)}}))
	f := cl.PollFetches(within(t, 10*time.Second))
	if err := f.Err(); !errors.Is(err, kerr.TopicAuthorizationFailed) || f.NumRecords() != 0 {
		t.Errorf("a reader of the settings got %d records and %v", f.NumRecords(), err)
	}
}
