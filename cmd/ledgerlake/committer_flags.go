package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/committer/raft"
	"github.com/ledgerlake/ledgerlake/committer/rpc"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// tlsFlags name the files of mutual TLS: each side shows a certificate of the same authority.
type tlsFlags struct{ prefix, cert, key, ca string }

func (t *tlsFlags) register(f *pflag.FlagSet, prefix string) {
	t.prefix = prefix
	f.StringVar(&t.cert, prefix+"-cert", "", "PEM file with our certificate, for mutual TLS")
	f.StringVar(&t.key, prefix+"-key", "", "PEM file with its key")
	f.StringVar(&t.ca, prefix+"-ca", "", "PEM file with the authority that signed the certificates of all nodes and writers")
}

// load gives both sides' settings; nil without files.
func (t *tlsFlags) load() (server, client *tls.Config, err error) {
	if t.cert == "" && t.key == "" && t.ca == "" {
		return nil, nil, nil
	}
	if t.cert == "" || t.key == "" || t.ca == "" {
		return nil, nil, fmt.Errorf("--%[1]s-cert, --%[1]s-key and --%[1]s-ca go together", t.prefix)
	}
	pair, err := tls.LoadX509KeyPair(t.cert, t.key)
	if err != nil {
		return nil, nil, fmt.Errorf("read --%[1]s-cert and --%[1]s-key: %[2]w", t.prefix, err)
	}
	pem, err := os.ReadFile(t.ca)
	if err != nil {
		return nil, nil, fmt.Errorf("read --%s-ca: %w", t.prefix, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, nil, fmt.Errorf("read --%s-ca: no certificate in %s", t.prefix, t.ca)
	}
	server = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13}
	client = &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, MinVersion: tls.VersionTLS13}
	return server, client, nil
}

// groupClient are the flags of every command that speaks to a group of committers.
type groupClient struct {
	addrs    []string
	security tlsFlags
}

func (g *groupClient) register(f *pflag.FlagSet) {
	f.StringSliceVar(&g.addrs, "committer", nil, "addresses of a group of committers (ledgerlake committer)")
	g.security.register(f, "committer")
}

// open gives the client of the group; nil when none is named.
func (g *groupClient) open() (*rpc.Client, error) {
	_, client, err := g.security.load()
	if err != nil || len(g.addrs) == 0 {
		return nil, err
	}
	host, _ := os.Hostname()
	return rpc.NewClient(rpc.Config{Addrs: g.addrs, TLS: client, Owner: fmt.Sprintf("%s/%d", host, os.Getpid())})
}

func (g *groupClient) need(what string) (*rpc.Client, error) {
	c, err := g.open()
	if err == nil && c == nil {
		err = errors.New("committer " + what + ": name the nodes with --committer HOST:PORT,...")
	}
	return c, err
}

// committerOf gives who commits to a table: the group when there is one, else the store alone.
func committerOf(group *rpc.Client, t *table.Table) committer.Committer {
	if group == nil {
		return committer.NewDirect(t.Log)
	}
	return group.Table(t.Store.URL()).Staging(t.Store)
}

// changesOf gives who puts changes of a table in order that do more than append: the group when there is one, else
// nil, which is the table's own log.
func changesOf(group *rpc.Client, t *table.Table) func(context.Context, deltalog.Commit) (deltalog.Version, error) {
	if group == nil {
		return nil
	}
	return group.Table(t.Store.URL()).Staging(t.Store).Change
}

// changeThrough is changesOf for whatever table the change is of.
func changeThrough(group *rpc.Client) tiering.Change {
	if group == nil {
		return nil
	}
	return func(ctx context.Context, t *table.Table, c deltalog.Commit) (deltalog.Version, error) {
		return changesOf(group, t)(ctx, c)
	}
}

// joinCommitters connects the engine to a group of committers: one that runs elsewhere, or one node inside. What it
// gives closes both, after the engine.
func joinCommitters(ctx context.Context, cfg *engineConfig, flags *groupClient, listen string) (func() error, error) {
	var node *raft.Node
	if listen != "" {
		if len(flags.addrs) > 0 {
			return nil, errors.New("--committer and --committer-listen do not go together")
		}
		if !loopback(listen) && flags.security.cert == "" {
			return nil, fmt.Errorf("--committer-listen %s is not on loopback: give --committer-cert, --committer-key and --committer-ca", listen)
		}
		server, client, err := flags.security.load()
		if err != nil {
			return nil, err
		}
		cfg.registry = newRegistry()
		node, err = raft.Open(ctx, raft.Config{Registerer: cfg.registry, ID: "self", Dir: filepath.Join(cfg.dir, "committer"), Listen: listen, Members: []raft.Member{{ID: "self", Addr: listen}},
			ServerTLS: server, ClientTLS: client, OpenStore: cfg.openStore, Logger: cfg.log})
		if err != nil {
			return nil, err
		}
		flags.addrs = []string{node.Addr()}
	}
	group, err := flags.open()
	if err == nil && group == nil {
		return func() error { return nil }, nil
	}
	cfg.group = group
	closeAll := func() error {
		var err error
		if group != nil {
			err = group.Close()
		}
		if node != nil {
			err = errors.Join(err, node.Close())
		}
		return err
	}
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	return closeAll, nil
}
