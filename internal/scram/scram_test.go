package scram

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func users(t *testing.T, text string) *Users {
	t.Helper()
	u, err := parseUsers([]byte(text), []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// The example of RFC 7677, section 3.
func TestVectorOfTheRFC(t *testing.T) {
	salt, err := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCredential(SHA256, "pencil", salt, 4096)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(SHA256, users(t, "user:"+c.String()))
	s.nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	out, _, done, err := s.Step([]byte("n,,n=user,r=rOprNGfwEbeRWgbNEkqO"))
	if want := "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"; err != nil || done || string(out) != want {
		t.Fatalf("first answer %q %v, want %q", out, err, want)
	}
	out, user, done, err := s.Step([]byte("c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="))
	if err != nil || !done || user != "user" || string(out) != "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=" {
		t.Fatalf("last answer %q %q %v", out, user, err)
	}
	if _, _, _, err := s.Step([]byte("x")); !errors.Is(err, ErrMessage) {
		t.Errorf("a message after the end: %v", err)
	}
}

// login plays a client's two messages.
func login(s *Server, first, channel, user, password string, change func(string) string) error {
	out, _, _, err := s.Step([]byte(first))
	if err != nil {
		return err
	}
	c, _ := s.users.lookup(s.mechanism, user)
	salted, err := c.salted(password)
	if err != nil {
		return err
	}
	nonce := strings.Split(string(out), ",")[0]
	without := "c=" + base64.StdEncoding.EncodeToString([]byte(channel)) + "," + nonce
	_, bare, _ := strings.Cut(first, ",")
	_, bare, _ = strings.Cut(bare, ",")
	key := s.mechanism.mac(salted, "Client Key")
	sig := s.mechanism.mac(s.mechanism.digest(key), bare+","+string(out)+","+without)
	for i := range key {
		key[i] ^= sig[i]
	}
	_, _, _, err = s.Step([]byte(change(without + ",p=" + base64.StdEncoding.EncodeToString(key))))
	return err
}

func same(s string) string { return s }

// I8: what does not fit is refused, and an unknown user looks like a wrong password.
func TestConversations(t *testing.T) {
	u := users(t, "ann:secret\na,b=c:secret\n")
	for _, m := range Mechanisms() {
		for name, c := range map[string]struct {
			first, channel, user, password string
			change                         func(string) string
			want                           error
		}{
			"right":            {"n,,n=ann,r=x", "n,,", "ann", "secret", same, nil},
			"y":                {"y,,n=ann,r=x", "y,,", "ann", "secret", same, nil},
			"as themselves":    {"n,a=ann,n=ann,r=x", "n,a=ann,", "ann", "secret", same, nil},
			"escapes":          {"n,,n=a=2Cb=3Dc,r=x", "n,,", "a,b=c", "secret", same, nil},
			"extension":        {"n,,n=ann,r=x,z=1", "n,,", "ann", "secret", same, nil},
			"wrong":            {"n,,n=ann,r=x", "n,,", "ann", "Secret", same, ErrAuth},
			"unknown":          {"n,,n=eve,r=x", "n,,", "eve", "secret", same, ErrAuth},
			"as another":       {"n,a=eve,n=ann,r=x", "", "ann", "secret", same, ErrMessage},
			"channel binding":  {"p=tls-unique,,n=ann,r=x", "", "ann", "secret", same, ErrMessage},
			"token":            {"n,,n=ann,r=x,tokenauth=true", "", "ann", "secret", same, ErrMessage},
			"mandatory":        {"n,,m=1,n=ann,r=x", "", "ann", "secret", same, ErrMessage},
			"no nonce":         {"n,,n=ann,r=", "", "ann", "secret", same, ErrMessage},
			"bad escape":       {"n,,n=a=2c,r=x", "", "ann", "secret", same, ErrMessage},
			"empty":            {"", "", "ann", "secret", same, ErrMessage},
			"changed channel":  {"n,,n=ann,r=x", "y,,", "ann", "secret", same, ErrMessage},
			"another's nonce":  {"n,,n=ann,r=x", "n,,", "ann", "secret", func(s string) string { return strings.Replace(s, ",r=", ",r=q", 1) }, ErrMessage},
			"no proof":         {"n,,n=ann,r=x", "n,,", "ann", "secret", func(s string) string { return s[:strings.Index(s, ",p=")] }, ErrMessage},
			"empty proof":      {"n,,n=ann,r=x", "n,,", "ann", "secret", func(s string) string { return s[:strings.Index(s, ",p=")+3] }, ErrMessage},
			"proof not base64": {"n,,n=ann,r=x", "n,,", "ann", "secret", func(s string) string { return s + "!" }, ErrMessage},
		} {
			s := NewServer(m, u)
			if err := login(s, c.first, c.channel, c.user, c.password, c.change); !errors.Is(err, c.want) {
				t.Errorf("%s %s: %v, want %v", m, name, err, c.want)
			}
			if _, _, done, err := s.Step([]byte("n,,n=ann,r=x")); done || err == nil {
				t.Errorf("%s %s: a conversation that is over goes on", m, name)
			}
		}
	}
}

// The zero key that stands for those who are not there fits no proof that can be computed, and their salt stays.
func TestUnknownUserLooksKnown(t *testing.T) {
	a, b := users(t, "ann:secret"), users(t, "ann:other")
	for _, name := range []string{"ann", "eve"} {
		x, _ := a.lookup(SHA256, name)
		y, _ := b.lookup(SHA256, name)
		if string(x.Salt) != string(y.Salt) || x.Iterations != Iterations || len(x.Salt) != saltBytes {
			t.Errorf("%s: salt and iterations say whether the user is there", name)
		}
	}
}

func TestPlain(t *testing.T) {
	lines, err := Salted("bob", "p:w$d")
	if err != nil {
		t.Fatal(err)
	}
	one, _, _ := strings.Cut(lines, "\n")
	u := users(t, "# people\n\nann:secret:with colon\r\n"+lines)
	only := users(t, one)
	for in, want := range map[string]error{
		"\x00ann\x00secret:with colon": nil, "ann\x00ann\x00secret:with colon": nil, "\x00bob\x00p:w$d": nil,
		"\x00ann\x00secret": ErrAuth, "\x00eve\x00x": ErrAuth, "bob\x00ann\x00secret:with colon": ErrMessage,
		"\x00ann\x00": ErrMessage, "\x00\x00x": ErrMessage, "": ErrMessage, "\x00ann\x00a\x00b": ErrMessage,
	} {
		if name, err := u.CheckPlain([]byte(in)); !errors.Is(err, want) || (err == nil) != (name != "") {
			t.Errorf("%q: %q %v, want %v", in, name, err, want)
		}
	}
	if name, err := only.CheckPlain([]byte("\x00bob\x00p:w$d")); name != "bob" {
		t.Errorf("with a credential of one mechanism: %v", err)
	}
	if strings.Contains(lines, "p:w$d") {
		t.Errorf("the salted form holds the password: %s", lines)
	}
}

// A file that cannot be right is refused, and the error repeats nothing that may be a password.
func TestUserFiles(t *testing.T) {
	good, err := Salted("bob", "hunter2")
	if err != nil {
		t.Fatal(err)
	}
	weak := strings.Replace(strings.SplitN(good, "\n", 2)[0], "$4096:", "$4095:", 1)
	for name, text := range map[string]string{
		"empty": "", "comments": "# a\n", "no colon": "hunter2\n", "no password": "bob:\n", "no name": ":hunter2\n",
		"twice": "bob:hunter2\nbob:hunter2\n", "twice salted": good + good, "clear and salted": good + "bob:hunter2\n",
		"broken": "bob:SCRAM-SHA-256$hunter2\n", "mechanism": "bob:SCRAM-SHA-1$4096:c2FsdHNhbHQ=$aGk=:aGk=\n", "weak": weak,
		"zero": "bob:hunter2\x00\n", "too many": strings.Repeat("bob:hunter2\n", 3),
	} {
		if _, err := parseUsers([]byte(text), nil); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte("ann:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, fine := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: true, 0o644: false, 0o604: false, 0o620: false, 0o602: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadUsers(path, nil); (err == nil) != fine {
			t.Errorf("mode %s: %v", mode, err)
		}
	}
	if _, err := ReadUsers(path+"-", nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path+"2", []byte(strings.Repeat("#", maxFile+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadUsers(path+"2", nil); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("a huge file: %v", err)
	}
}

// I8: no message makes a conversation panic, and none but the right proof ends it well.
func FuzzServer(f *testing.F) {
	f.Add([]byte("n,,n=ann,r=x"), []byte("c=biws,r=x,p="))
	f.Add([]byte("y,a=ann,n=ann,r=x,e=1"), []byte(",p=,p="))
	u, err := parseUsers([]byte("ann:secret"), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		s := NewServer(SHA256, u)
		if _, _, done, _ := s.Step(a); done {
			t.Fatal("done after one message")
		}
		if _, user, done, err := s.Step(b); done || err == nil && user != "" {
			t.Fatalf("logged in as %q", user)
		}
		_, _ = u.CheckPlain(a)
		_, _ = parseUsers(a[:min(len(a), 200)], nil)
	})
}
