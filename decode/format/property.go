package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/klauspost/compress/gzip"

	"github.com/ledgerlake/ledgerlake/decode/pulsarschema"
	"github.com/ledgerlake/ledgerlake/internal/registry"
)

// Property is the table property that says how the values are encoded from which an application fills the table. By it
// a reader makes the same rows of the log's tail (I4), and who goes on filling the table need not say it again.
func Property(app string) string { return "ledgerlake.format." + app }

// maxProperty bounds the property: it is in each checkpoint of the table. One that its schemas make longer goes
// without them, and then they have to be given again.
const maxProperty = 256 << 10

// recorded is the property, as JSON.
type recorded struct {
	Name     string      `json:"format"`
	Registry []string    `json:"registry,omitempty"` // without user and password
	Schemas  [][]byte    `json:"schemas,omitempty"`  // each compressed with gzip
	Message  string      `json:"message,omitempty"`
	Validate bool        `json:"validate,omitempty"`
	CSV      *CSVOptions `json:"csv,omitempty"`
	Kind     string      `json:"kind,omitempty"` // of pulsar
}

// String is the format as the table property has it, without what logs in to a registry; empty for JSON and raw, which
// the columns of a table tell.
func (f *Format) String() string {
	if f.Name == JSON || f.Name == Raw {
		return ""
	}
	r := recorded{Name: f.Name, Message: f.options.Message, Validate: f.options.Validate}
	for _, u := range f.options.Registry.URLs {
		r.Registry = append(r.Registry, withoutSecrets(u))
	}
	for _, s := range f.options.Schemas {
		r.Schemas = append(r.Schemas, compressed(s))
	}
	if p, ok := f.Format.(*pulsarschema.Format); ok {
		r.Kind = p.Kind()
	}
	if !f.options.CSV.isZero() {
		r.CSV = &f.options.CSV
	}
	if text := r.text(); len(text) <= maxProperty {
		return text
	}
	r.Schemas = nil
	return r.text()
}

func (r recorded) text() string {
	raw, err := json.Marshal(r)
	if err != nil { // it holds strings and bytes alone
		panic(err)
	}
	return string(raw)
}

// withoutSecrets leaves of an address what finds the registry.
func withoutSecrets(address string) string {
	u, err := url.Parse(address)
	if err != nil { // Parse has refused it
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

func compressed(s string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, s)
	if err == nil {
		err = w.Close()
	}
	if err != nil { // memory does not fail
		panic(err)
	}
	return b.Bytes()
}

// Access is how schemas are reached that a format has not with it.
type Access struct {
	Registry registry.Config       // takes the place of the one recorded, when it has an address
	Pulsar   pulsarschema.Registry // of the topic; nil: out of reach
}

// Of opens the format that a table's properties record for an application; nil when they record none. A registry that
// is recorded is asked without a log-in, since whoever writes tables says its address.
func Of(properties map[string]string, app string, access Access) (*Format, error) {
	text := properties[Property(app)]
	if text == "" {
		return nil, nil
	}
	f, err := open(text, access)
	if err != nil {
		return nil, fmt.Errorf("table property %s: %w; say how the values are encoded with --format", Property(app), err)
	}
	return f, nil
}

func open(text string, access Access) (*Format, error) {
	reg := access.Registry
	var r recorded
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return nil, err
	}
	o := Options{Message: r.Message, Validate: r.Validate, Registry: reg, Pulsar: access.Pulsar, Kind: r.Kind}
	if len(reg.URLs) == 0 {
		o.Registry.URLs = r.Registry
	}
	if r.CSV != nil {
		o.CSV = *r.CSV
	}
	var z inflater
	left := maxInflated
	for _, s := range r.Schemas {
		plain, bad := z.inflate(s)
		if bad != nil {
			return nil, bad
		}
		if left -= len(plain); left < 0 {
			return nil, fmt.Errorf("its schemas are more than %d MiB", maxInflated>>20)
		}
		o.Schemas = append(o.Schemas, string(plain))
	}
	return Parse(r.Name, o)
}
