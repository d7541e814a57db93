package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ledgerlake/ledgerlake/broker/wire"
	"github.com/ledgerlake/ledgerlake/reader"
)

// gatewayHelp is the part of serve's help that is about an external Kafka.
const gatewayHelp = `In front of an external Kafka: with --upstream kafka://HOST:PORT serve keeps no log of its own. Clients that connect to it
produce to the cluster, and use its groups, positions and transactions, as if they were connected to the cluster; what the
cluster's retention has taken comes from the table LAKE/TOPIC that ` + "`ledgerlake ingest`" + ` fills, or from a --lake-table that several
topics fill, so any client reads from offset 0.
Beside the port of --kafka-listen there is one for each node of the cluster: behind it by 1 and the node's id (9092 makes 9093
that of node 0). In front of a Pulsar, --upstream pulsar://HOST:PORT/TENANT/NAMESPACE/TOPIC or .../~PATTERN shows topics to
consumers, read only, under their last names; --dir keeps the positions of groups. --tls, --tls-... and --sasl-... say how serve connects to the cluster; all clients then act as that user.`

// gatewayFlags say which Kafka serve stands in front of.
type gatewayFlags struct {
	upstream string
	shared   []string // tables with the history of several topics
	security kafkaSecurity
	pulsar   pulsarFlags
	http     bool // metrics are wanted
}

func (g *gatewayFlags) register(f *pflag.FlagSet) {
	f.StringVar(&g.upstream, "upstream", "", "kafka://HOST:PORT[,HOST:PORT]: be a gateway to this Kafka, or pulsar://HOST:PORT/TENANT/NAMESPACE/TOPIC: show this topic of Pulsar, or all that match ~PATTERN; with history from --lake")
	f.StringArrayVar(&g.shared, "lake-table", nil, "with --upstream kafka://: a table with the history of several topics (ingest --streams), for those that have no table LAKE/TOPIC; may be repeated")
	g.security.register(f)
	g.pulsar.register(f)
}

// ofPulsar are those that mean something in front of a Pulsar alone.
var ofPulsar = []string{"dir", "disk-reserve", "offsets-retention"}

// ofGateway are the flags that mean something for a gateway; so do all that begin with tls, sasl, s3, dynamodb and kafka.
var ofGateway = []string{"upstream", "lake", "lake-table", "advertise", "http-listen", "insecure", "log-store", "ready-file", "log-level", "log-format", "config", "help"}

// check refuses what does not go together.
func (g *gatewayFlags) check(cmd *cobra.Command, listen, lake string, a accessFlags) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		family, _, _ := strings.Cut(f.Name, "-")
		if isPulsar(g.upstream) && (family == "pulsar" || slices.Contains(ofPulsar, f.Name)) {
			return
		}
		if !slices.Contains(ofGateway, f.Name) && !slices.Contains([]string{"tls", "sasl", "s3", "dynamodb", "kafka"}, family) {
			err = errors.Join(err, fmt.Errorf("--%s does not go with --upstream: the Kafka there keeps the log, and `ledgerlake ingest` fills the tables", f.Name))
		}
	})
	g.http = cmd.Flags().Changed("http-listen")
	switch {
	case err != nil:
		return err
	case len(g.shared) > 0 && isPulsar(g.upstream):
		return errors.New("--lake-table is for --upstream kafka://: a topic of Pulsar has its history in LAKE/TOPIC")
	case lake == "" && len(g.shared) == 0:
		return errors.New("--upstream needs --lake, where the tables of its topics are, as --lake/TOPIC, or --lake-table, one with rows of several")
	case a.acls != "off" && a.acls != "" && !isPulsar(g.upstream):
		return errors.New("--kafka-acls does not go with --upstream: the rules of that Kafka hold, for the user that we log in as")
	}
	ours := g.security.sasl.User != "" || g.security.cert != "" || g.pulsar.token != "" || g.pulsar.tokenFile != "" || g.pulsar.oauthKey != "" || g.pulsar.decrypt.keys != ""
	if ours && a.users == "" && a.clientCA == "" && !loopback(listen) && !a.insecure {
		return fmt.Errorf("whoever reaches %s would act as our user of --upstream, or read what our keys decrypt: give --kafka-users or --kafka-tls-client-ca, or --insecure when the network is trusted", listen)
	}
	return nil
}

func (g *gatewayFlags) seeds() ([]string, error) {
	hosts, ok := strings.CutPrefix(g.upstream, "kafka://")
	if !ok || hosts == "" || strings.ContainsAny(hosts, "/@?") {
		return nil, fmt.Errorf("--upstream %s: want kafka://HOST:PORT, or several HOST:PORT with commas; log-ins are given by --sasl-user and --sasl-password", g.upstream)
	}
	return strings.Split(hosts, ","), nil
}

// run is a gateway until ctx ends.
func (g *gatewayFlags) run(ctx context.Context, cfg engineConfig, ready string) (err error) {
	seeds, err := g.seeds()
	if err != nil {
		return err
	}
	upstream, err := g.security.config(seeds, "ledgerlake-gateway", cfg.log)
	if err != nil {
		return err
	}
	lake := newLakeTables(cfg)
	defer func() { err = errors.Join(err, lake.close()) }()
	if lake.History, err = reader.NewHistory(reader.HistoryConfig{Table: lake.table, NoCodec: true}); err != nil {
		return err
	}
	port := wire.Config{
		Listen: cfg.listen, Advertise: cfg.advertise, MemoryBudget: cfg.kafkaMemory, Logger: cfg.log,
		Upstream: &wire.Upstream{Seeds: seeds, Dial: upstream.Dial, Lake: lake},
	}
	cfg.access.set(&port)
	server, err := wire.Open(ctx, port)
	if err != nil {
		return fmt.Errorf("open the gateway to %s: %w", g.upstream, err)
	}
	stop, at, err := g.metrics(server, cfg)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	defer stop()
	cfg.log.Info("serving", "kafka", server.Addr().String(), "upstream", g.upstream, "lake", cfg.lake)
	if ready != "" {
		info := serveInfo{Kafka: server.Addr().String(), PID: os.Getpid(), HTTP: at, Lake: cfg.lake, TLS: cfg.access.tls != nil, SASL: cfg.access.mechanisms}
		if err := writeJSONFile(ready, info); err != nil {
			return errors.Join(err, server.Close())
		}
	}
	<-ctx.Done()
	err = server.Close()
	cfg.log.Info("stopped")
	return err
}

// metrics shows the metrics of a gateway at --http-listen, if that is given, until stop is called.
func (g *gatewayFlags) metrics(server *wire.Server, cfg engineConfig) (stop func(), addr string, err error) {
	if !g.http || cfg.http == "" {
		return func() {}, "", nil
	}
	return metricsOnly(cfg.http, cfg.log, server.Collector())
}

// runGateway is serve with --upstream.
func (g *gatewayFlags) runGateway(cmd *cobra.Command, cfg engineConfig, a accessFlags, store storeFlags, ready string) (err error) {
	if err := g.check(cmd, cfg.listen, cfg.lake, a); err != nil {
		return err
	}
	if cfg.access, err = a.open(cfg.listen, cfg.log); err != nil {
		return err
	}
	cfg.openStore, cfg.sharedTables = store.open, g.shared
	if isPulsar(g.upstream) {
		return g.runPulsar(cmd.Context(), cfg, ready)
	}
	return g.run(cmd.Context(), cfg, ready)
}
