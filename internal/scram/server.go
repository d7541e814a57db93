package scram

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Errors of a log-in. ErrAuth says nothing about why: the user is unknown or the password is wrong.
var (
	ErrAuth    = errors.New("unknown user or wrong password")
	ErrMessage = errors.New("bad SASL message")
)

// Server is one SCRAM conversation: Step is given the peer's messages in turn.
type Server struct {
	mechanism Mechanism
	users     *Users
	nonce     string // ours

	user    string
	known   bool
	cred    Credential
	gs2     string // the first message's header, which the last one repeats
	bare    string // the first message without it
	first   string // what we answered to it
	allDone bool
}

// NewServer begins a conversation.
func NewServer(m Mechanism, users *Users) *Server {
	return &Server{mechanism: m, users: users, nonce: rand.Text()}
}

// Step takes one message and gives the answer to it. done means that user is who they say they are; an error
// ends the conversation.
func (s *Server) Step(in []byte) (out []byte, user string, done bool, err error) {
	switch {
	case s.allDone:
		return nil, "", false, fmt.Errorf("%w: the conversation is over", ErrMessage)
	case s.first == "":
		out, err = s.begin(string(in))
		s.allDone = err != nil
		return out, "", false, err
	}
	s.allDone = true
	if out, err = s.end(string(in)); err != nil {
		return nil, "", false, err
	}
	return out, s.user, true, nil
}

// begin reads gs2-header "n=" user ",r=" nonce.
func (s *Server) begin(in string) ([]byte, error) {
	parts := strings.SplitN(in, ",", 3)
	if len(parts) != 3 || parts[0] != "n" && parts[0] != "y" {
		return nil, fmt.Errorf("%w: want a first SCRAM message without channel binding", ErrMessage)
	}
	s.gs2, s.bare = parts[0]+","+parts[1]+",", parts[2]
	attrs := strings.Split(s.bare, ",")
	if len(attrs) < 2 || !strings.HasPrefix(attrs[0], "n=") || !strings.HasPrefix(attrs[1], "r=") || len(attrs[1]) < 3 {
		return nil, fmt.Errorf("%w: want a user and a nonce", ErrMessage)
	}
	for _, a := range attrs[2:] {
		if a == "tokenauth=true" {
			return nil, fmt.Errorf("%w: delegation tokens are not supported", ErrMessage)
		}
	}
	var err error
	if s.user, err = unescape(attrs[0][2:]); err != nil {
		return nil, err
	}
	if as := parts[1]; as != "" {
		name, err := unescape(strings.TrimPrefix(as, "a="))
		if err != nil || !strings.HasPrefix(as, "a=") || name != s.user {
			return nil, fmt.Errorf("%w: acting as another user is not supported", ErrMessage)
		}
	}
	s.cred, s.known = s.users.lookup(s.mechanism, s.user)
	s.nonce = attrs[1][2:] + s.nonce
	s.first = fmt.Sprintf("r=%s,s=%s,i=%d", s.nonce, base64.StdEncoding.EncodeToString(s.cred.Salt), s.cred.Iterations)
	return []byte(s.first), nil
}

// end reads "c=" header ",r=" nonce ",p=" proof.
func (s *Server) end(in string) ([]byte, error) {
	at := strings.LastIndex(in, ",p=")
	if at < 0 {
		return nil, fmt.Errorf("%w: no proof", ErrMessage)
	}
	without := in[:at]
	proof, err := base64.StdEncoding.DecodeString(in[at+3:])
	if err != nil || len(proof) != len(s.cred.StoredKey) {
		return nil, fmt.Errorf("%w: the proof has a wrong form", ErrMessage)
	}
	attrs := strings.Split(without, ",")
	if len(attrs) < 2 || attrs[0] != "c="+base64.StdEncoding.EncodeToString([]byte(s.gs2)) {
		return nil, fmt.Errorf("%w: the channel binding is not the first message's", ErrMessage)
	}
	if !hmac.Equal([]byte(attrs[1]), []byte("r="+s.nonce)) {
		return nil, fmt.Errorf("%w: the nonce is not the one that was given", ErrMessage)
	}
	text := s.bare + "," + s.first + "," + without
	key := s.mechanism.mac(s.cred.StoredKey, text)
	subtle.XORBytes(key, key, proof)
	if !hmac.Equal(s.mechanism.digest(key), s.cred.StoredKey) || !s.known {
		return nil, ErrAuth
	}
	return []byte("v=" + base64.StdEncoding.EncodeToString(s.mechanism.mac(s.cred.ServerKey, text))), nil
}

// unescape undoes the escapes of commas and equals signs in a name.
func unescape(s string) (string, error) {
	out := strings.NewReplacer("=2C", ",", "=3D", "=").Replace(s)
	if s == "" || strings.Count(s, "=") != strings.Count(s, "=2C")+strings.Count(s, "=3D") {
		return "", fmt.Errorf("%w: the user's name has a wrong form", ErrMessage)
	}
	return out, nil
}
