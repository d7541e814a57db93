package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/envelope"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
	"github.com/ledgerlake/ledgerlake/decode/pulsarschema"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/registry"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// pulsarFlags say how a client shows a Pulsar who it is. TLS is that of the --tls flags.
type pulsarFlags struct {
	token, tokenFile                                 string
	oauthKey, oauthIssuer, oauthAudience, oauthScope string
	admin                                            string
	decrypt                                          decryptFlags
}

func (p *pulsarFlags) register(f *pflag.FlagSet) {
	p.decrypt.register(f)
	f.StringVar(&p.token, "pulsar-token", "", "token to log in to Pulsar with; better set LEDGERLAKE_PULSAR_TOKEN")
	f.StringVar(&p.tokenFile, "pulsar-token-file", "", "file that holds the token; it is read at each log-in")
	f.StringVar(&p.oauthKey, "pulsar-oauth2-key", "", "JSON key file with client_id, client_secret and issuer_url, to get tokens with")
	f.StringVar(&p.oauthIssuer, "pulsar-oauth2-issuer", "", "where to get tokens (default: issuer_url of the key file)")
	f.StringVar(&p.oauthAudience, "pulsar-oauth2-audience", "", "audience to ask for")
	f.StringVar(&p.oauthScope, "pulsar-oauth2-scope", "", "scope to ask for")
	f.StringVar(&p.admin, "pulsar-admin", "", "http://host:port of Pulsar's admin API: --sealed-ledgers needs it, and ingest warns of policies that could take messages before they are in the table")
}

// decryptFlags say what becomes of messages of Pulsar that are encrypted.
type decryptFlags struct {
	keys string
	keep bool
}

func (d *decryptFlags) register(f *pflag.FlagSet) {
	f.StringVar(&d.keys, "pulsar-private-keys", "", "private keys of RSA to decrypt messages of Pulsar with: a PEM file, or a folder of files NAME.pem, read again as new data keys come (default: encrypted messages are kept as they are)")
	f.BoolVar(&d.keep, "pulsar-keep-undecryptable", false, "with --pulsar-private-keys, keep messages that none of the keys opens as they are, instead of ending with an error")
}

// set loads the keys.
func (d *decryptFlags) set(cfg *pulsar.Config) (err error) {
	if d.keys == "" {
		if d.keep {
			return errors.New("--pulsar-keep-undecryptable goes with --pulsar-private-keys: without keys all encrypted messages are kept as they are")
		}
		return nil
	}
	if cfg.Keys, err = envelope.Load(d.keys); err != nil {
		return fmt.Errorf("--pulsar-private-keys: %w", err)
	}
	cfg.KeepUndecryptable = d.keep
	return nil
}

// isPulsar says whether a SOURCE is a topic of Pulsar.
func isPulsar(source string) bool {
	return strings.HasPrefix(source, "pulsar://") || strings.HasPrefix(source, "pulsar+ssl://")
}

// noPulsar refuses an address of Pulsar where a directory or a Kafka is wanted.
func noPulsar(what, address string) error {
	if !isPulsar(address) {
		return nil
	}
	return fmt.Errorf("%s %s: a topic of Pulsar is named elsewhere: 'ledgerlake ingest %[2]s TABLE' fills a table, 'ledgerlake read %[2]s --table TABLE' gives history and tail, and 'ledgerlake serve --upstream %[2]s --lake LAKE' shows it to consumers of Kafka", what, address)
}

// config understands pulsar://host:port/tenant/namespace/topic.
func (p *pulsarFlags) config(source string, secure *kafkaSecurity, log *slog.Logger) (cfg pulsar.Config, topic string, err error) {
	u, err := url.Parse(source)
	if err != nil || u.Host == "" || len(u.Path) < 2 {
		return cfg, "", fmt.Errorf("%s: want pulsar://host:port/tenant/namespace/topic", source)
	}
	if topic, err = pulsar.ParseTopic(u.Path[1:]); err != nil {
		return cfg, "", err
	}
	cfg = pulsar.Config{Service: u.Host, Admin: p.admin, Logger: log}
	asked := *secure
	asked.tls = asked.tls || u.Scheme == "pulsar+ssl"
	kcfg, err := asked.config(nil, "", log) // it reads the TLS files
	if err != nil {
		return cfg, "", err
	}
	cfg.TLS = kcfg.TLS
	if cfg.Auth, err = p.auth(cfg.TLS); err != nil {
		return cfg, topic, err
	}
	return cfg, topic, p.decrypt.set(&cfg)
}

func (p *pulsarFlags) auth(t *tls.Config) (wire.Auth, error) {
	ways := 0
	for _, s := range []string{p.token, p.tokenFile, p.oauthKey} {
		if s != "" {
			ways++
		}
	}
	switch {
	case ways > 1:
		return wire.Auth{}, errors.New("give one of --pulsar-token, --pulsar-token-file and --pulsar-oauth2-key")
	case p.token != "":
		return pulsar.Token(p.token), nil
	case p.tokenFile != "":
		return pulsar.TokenFile(p.tokenFile), nil
	case p.oauthKey != "":
		o := &pulsar.OAuth2{KeyFile: p.oauthKey, Issuer: p.oauthIssuer, Audience: p.oauthAudience, Scope: p.oauthScope}
		return o.Auth(), nil
	case t != nil && len(t.Certificates) > 0:
		return wire.Auth{Method: "tls"}, nil
	}
	return wire.Auth{}, nil
}

// tableIndex is what a table says about the offsets of Pulsar's messages. The table may be opened after the source.
type tableIndex struct {
	mu     sync.Mutex
	places *reader.Places
	dead   *table.Table
	closed bool
}

// set names the table. deadURL is where its dead letters would be.
func (x *tableIndex) set(t *table.Table, app, deadURL string, open storeOpener) error {
	if t.Names.Ledger == "" {
		return reader.ErrNoOrigin
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.places = &reader.Places{Table: t, App: app, Dead: func(ctx context.Context) (*table.Table, error) {
		x.mu.Lock()
		defer x.mu.Unlock()
		switch {
		case x.closed: // who still asks has the index of a table that is gone
			return nil, fmt.Errorf("dead letters %s: %w", deadURL, deltalog.ErrClosed)
		case x.dead != nil:
			return x.dead, nil
		}
		s, err := open(ctx, deadURL)
		if err != nil {
			return nil, err
		}
		dead, err := table.Open(ctx, s, table.Config{Topic: t.Topic()})
		if errors.Is(err, deltalog.ErrNotTable) {
			return nil, nil
		}
		x.dead = dead
		return dead, err
	}}
	return nil
}

func (x *tableIndex) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	if x.dead == nil {
		return nil
	}
	return x.dead.Close()
}

func (x *tableIndex) get() *reader.Places {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.places
}

// Before is for pulsar.Index.
func (x *tableIndex) Before(ctx context.Context, tp record.TopicPartition, limit record.Offset) (pulsar.Place, bool, error) {
	p := x.get()
	if p == nil {
		return pulsar.Place{}, false, nil
	}
	at, ok, err := p.Before(ctx, tp.Partition, limit)
	o := at.Origin
	out := pulsar.Place{Offset: at.Offset, Lost: at.Lost, Index: o.Index, ID: pulsar.MessageID{Ledger: o.Ledger, Entry: o.Entry, Batch: o.Batch}}
	out.First = out.ID
	if o.FirstLedger >= 0 {
		out.First = pulsar.MessageID{Ledger: o.FirstLedger, Entry: o.FirstEntry, Batch: -1}
	}
	return out, ok, err
}

// End is for pulsar.Index.
func (x *tableIndex) End(ctx context.Context, tp record.TopicPartition) (record.Offset, bool, error) {
	if p := x.get(); p != nil {
		return p.End(ctx, tp.Partition)
	}
	return 0, false, nil
}

// openPulsar opens a topic of Pulsar, with the table that has its history when there is one.
func (f *sourceFlags) openPulsar(ctx context.Context, source string) (*stream, error) {
	cfg, topic, err := f.pulsar.config(source, &f.secure, f.log)
	if err != nil {
		return nil, err
	}
	s := &stream{topic: topic, app: f.app, names: table.DefaultNames().WithOrigin()}
	if s.app == "" {
		s.app = topic
	}
	if f.tableURL != "" {
		if err := f.openTable(ctx, s, f.tableURL); err != nil {
			return nil, errors.Join(err, s.close())
		}
		x := &tableIndex{}
		s.closes = append(s.closes, x.close)
		if err := x.set(s.table, s.app, f.tableURL+"_dead_letters", f.store.open); err != nil {
			return nil, errors.Join(fmt.Errorf("table %s: %w", f.tableURL, err), s.close())
		}
		cfg.Index, s.places = x, x.places
	}
	src, err := pulsar.Open(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.source = src
	s.values = &topicSchemas{topic: topic, src: src}
	s.closes = append(s.closes, src.Close)
	return s, nil
}

// topicSchemas are the schemas of a topic of Pulsar, for formats. The source may be opened after the format.
type topicSchemas struct {
	topic string

	mu  sync.Mutex
	src *pulsar.Source
}

func (x *topicSchemas) set(src *pulsar.Source) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.src = src
}

// Schema is for pulsarschema.Registry.
func (x *topicSchemas) Schema(ctx context.Context, version []byte) (pulsarschema.Schema, error) {
	x.mu.Lock()
	src := x.src
	x.mu.Unlock()
	if src == nil {
		return pulsarschema.Schema{}, errors.New("the topic is not open yet")
	}
	s, err := src.Schema(ctx, x.topic, version)
	if errors.Is(err, broker.ErrUnknownTopic) {
		return pulsarschema.Schema{}, fmt.Errorf("%w: %w", registry.ErrUnknown, err)
	}
	return pulsarschema.Schema{Type: pulsarschema.Type(s.Type), Data: s.Data, Properties: s.Properties}, err
}

// schemas are those of a topic of Pulsar; nil for other streams.
func (s *stream) schemas() pulsarschema.Registry {
	if s.values == nil {
		return nil
	}
	return s.values
}

// offsetOfID turns id:[PARTITION@]LEDGER:ENTRY[:BATCH] into PARTITION:OFFSET, the offset of that message, or of the first
// one behind it.
func (s *stream) offsetOfID(ctx context.Context, text string) (string, error) {
	src, ok := s.source.(*pulsar.Source)
	if !ok {
		return "", errors.New("a message id names a place in a topic of Pulsar: SOURCE must be a pulsar:// address")
	}
	bad := fmt.Errorf("%q: want id:[PARTITION@]LEDGER:ENTRY[:BATCH], with a partition in a partitioned topic", text)
	rest := strings.TrimPrefix(text, "id:")
	tp := record.TopicPartition{Topic: s.topic}
	if p, r, ok := strings.Cut(rest, "@"); ok {
		n, err := strconv.ParseInt(p, 10, 32)
		if err != nil {
			return "", bad
		}
		tp.Partition, rest = int32(n), r
	}
	id := pulsar.MessageID{Batch: -1}
	numbers := strings.Split(rest, ":")
	if len(numbers) != 2 && len(numbers) != 3 {
		return "", bad
	}
	var n [3]int64
	for i, t := range numbers {
		var err error
		if n[i], err = strconv.ParseInt(t, 10, 63); err != nil {
			return "", bad
		}
	}
	if id.Ledger, id.Entry = n[0], n[1]; len(numbers) == 3 {
		id.Batch = int32(n[2])
	}
	if s.places != nil {
		o, ok, err := s.places.OffsetOf(ctx, tp.Partition, id.Ledger, id.Entry, id.Batch)
		if err != nil {
			return "", err
		}
		if ok {
			return fmt.Sprintf("%d:%d", tp.Partition, o), nil
		}
	}
	o, err := src.OffsetOf(ctx, tp, id)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%d", tp.Partition, o), nil
}
