package wire

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/internal/scram"
)

// AlterUserScramCredentials, key 51, version 0.
//
// Makes, changes and removes the credentials that users log in with, durably; the client has salted the password, so
// it never comes here. A user's changes are made together or not at all, and each user has an answer. Users of the
// file of users are refused. Who is logged in stays so. Without Config.Users the credentials are kept, and nobody
// needs them. Needs Alter on the cluster.
func apiAlterUserSCRAMCredentials() api {
	return api{key: 51, name: "AlterUserScramCredentials", min: 0, max: 0, handle: (*Server).alterUserSCRAMCredentials}
}

func (s *Server) alterUserSCRAMCredentials(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.AlterUserSCRAMCredentialsRequest)
	resp := req.ResponseKind().(*kmsg.AlterUserSCRAMCredentialsResponse)
	denied := s.allowedCluster(r, acl.Alter)
	errs := map[string]error{}
	users := map[string][]credentialChange{}
	add := func(name string, mechanism int8, cred func(scram.Mechanism) (*scram.Credential, error)) {
		ch := credentialChange{key: credentialKey{User: name, Mechanism: scramNumbers[mechanism]}}
		err := denied
		if err == nil {
			err = checkCredentialName(name, ch.key.Mechanism)
		}
		if err == nil {
			ch.cred, err = cred(ch.key.Mechanism)
		}
		errs[name] = cmp.Or(errs[name], err)
		users[name] = append(users[name], ch)
	}
	for i := range req.Deletions {
		d := &req.Deletions[i]
		add(d.Name, d.Mechanism, func(scram.Mechanism) (*scram.Credential, error) { return nil, nil })
	}
	for i := range req.Upsertions {
		u := &req.Upsertions[i]
		add(u.Name, u.Mechanism, func(m scram.Mechanism) (*scram.Credential, error) { return readCredential(m, u) })
	}
	maps.DeleteFunc(users, func(name string, _ []credentialChange) bool { return errs[name] != nil })
	changed := 0
	for name, err := range s.credentials.change(s.hardCtx, users) {
		if errs[name] = err; err == nil {
			changed++
		}
	}
	if changed > 0 {
		s.lg.Info("SCRAM credentials changed", "users", changed, "by", r.proof.principal, "counting", s.cfg.Users != nil)
	}
	for _, name := range slices.Sorted(maps.Keys(errs)) {
		if err := s.charge(r, 256+len(name)); err != nil {
			return nil, err
		}
		o := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		o.User, o.ErrorCode, o.ErrorMessage = name, credentialCode(errs[name]), msgOf(errs[name])
		resp.Results = append(resp.Results, o)
	}
	return resp, nil
}

func checkCredentialName(name string, m scram.Mechanism) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: a user has a name", errBadCredential)
	case len(name) > maxCredentialName:
		return fmt.Errorf("%w: the name is longer than %d bytes", errBadCredential, maxCredentialName)
	case m == "":
		return errMechanism
	}
	return nil
}

func readCredential(m scram.Mechanism, u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) (*scram.Credential, error) {
	if u.Iterations > maxAlteredIterations {
		return nil, fmt.Errorf("%w: %d iterations, want %d to %d", errBadCredential, u.Iterations, scram.Iterations, maxAlteredIterations)
	}
	c, err := scram.FromSalted(m, u.SaltedPassword, slices.Clone(u.Salt), int(u.Iterations))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBadCredential, err)
	}
	return &c, nil
}
