package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/committer/raft"
	"github.com/ledgerlake/ledgerlake/committer/rpc"
)

func newCommitter() *cobra.Command {
	var (
		cfg      raft.Config
		store    storeFlags
		security tlsFlags
		members  []string
		insecure bool
		ready    string
		metrics  string
	)
	cmd := &cobra.Command{
		Use:   "committer",
		Short: "Run a node of the group that puts table versions in order",
		Long: `committer runs one node of a group of 1, 3 or 5 that decides what each version of a table holds before it is
written. Writers that are given --committer never race for a version, many of them share one, and a writer
whose partition went to another owner is refused. The table stays the truth: a group that lost everything is
started anew and goes on where the tables stand. docs/committer.md is the operator's page.`,
		Example: `  ledgerlake committer --id a --dir /var/lib/ledgerlake/committer --listen 127.0.0.1:7070 --members a=127.0.0.1:7070
  ledgerlake committer --id a --dir ... --listen 10.0.0.1:7070 --members a=10.0.0.1:7070,b=10.0.0.2:7070,c=10.0.0.3:7070 \
      --tls-cert node.pem --tls-key node.key --tls-ca group.pem
  ledgerlake committer status --committer 10.0.0.1:7070,10.0.0.2:7070,10.0.0.3:7070
  ledgerlake serve --dir ./data --committer 127.0.0.1:7070`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if cfg.Logger, err = newLogger(cmd); err != nil {
				return err
			}
			if cfg.ID == "" {
				return errors.New("--id is missing: the name of this node, the same for ever")
			}
			if cfg.Members, err = parseMembers(members); err != nil {
				return err
			}
			if cfg.ServerTLS, cfg.ClientTLS, err = security.load(); err != nil {
				return err
			}
			if cfg.ServerTLS == nil && !insecure && !loopback(cfg.Listen) {
				return fmt.Errorf("--listen %s is not on loopback: give --tls-cert, --tls-key and --tls-ca, or --insecure when the network is trusted", cfg.Listen)
			}
			cfg.OpenStore = store.open
			stopMetrics, err := serveMetrics(&cfg, metrics, insecure)
			if err != nil {
				return err
			}
			defer stopMetrics()
			n, err := raft.Open(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			cfg.Logger.Info("committer runs", "id", cfg.ID, "addr", n.Addr(), "dir", cfg.Dir)
			if ready != "" {
				if err := writeJSONFile(ready, committerInfo{Addr: n.Addr(), PID: os.Getpid()}); err != nil {
					return errors.Join(err, n.Close())
				}
			}
			select {
			case <-cmd.Context().Done():
			case <-n.Broken():
			}
			return errors.Join(n.Err(), n.Close())
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.ID, "id", "", "name of this node, the same for ever (required)")
	f.StringVar(&cfg.Dir, "dir", "ledgerlake-committer", "directory of this node's log and snapshots, on a disk that honours fsync")
	f.StringVar(&cfg.Listen, "listen", "127.0.0.1:7070", "address for other nodes and for writers")
	f.StringVar(&cfg.Advertise, "advertise", "", "host:port under which others reach this node (default: the listen address)")
	f.StringSliceVar(&members, "members", nil, "ID=ADDR of every node of a new group, the same on each; without it a new node waits until it is added")
	f.DurationVar(&cfg.Linger, "linger", 2*time.Millisecond, "how long the first request of a version waits for others; 0s means the default, negative none")
	f.DurationVar(&cfg.Heartbeat, "heartbeat", 400*time.Millisecond, "a leader that is silent for this long is replaced")
	f.DurationVar(&cfg.StoreLimit, "store-timeout", 30*time.Second, "limit of one call to a store; after it the version is read back")
	f.StringVar(&metrics, "metrics-listen", "", "address for Prometheus: GET /metrics; none when it is empty; beyond loopback with the TLS of the group")
	f.BoolVar(&insecure, "insecure", false, "allow plain TCP beyond loopback")
	f.StringVar(&ready, "ready-file", "", "write {\"addr\":address,\"pid\":...} here when the node runs")
	security.register(f, "tls")
	store.register(f)
	cmd.AddCommand(newCommitterStatus(), newCommitterMember("add", "ID ADDR", "Add a node that runs and waits", " node4 10.0.0.4:7070"),
		newCommitterMember("standby", "ID ADDR", "Add a node that gets the log and has no vote yet", " node4 10.0.0.4:7070"),
		newCommitterMember("promote", "ID", "Give a standby its vote", " node4"),
		newCommitterMember("remove", "ID", "Remove a node", " node4"),
		newCommitterMember("transfer", "[ID]", "Let another node lead", ""))
	return cmd
}

type committerInfo struct {
	Addr string `json:"addr"`
	PID  int    `json:"pid"`
}

func parseMembers(list []string) ([]raft.Member, error) {
	var out []raft.Member
	for _, s := range list {
		id, addr, ok := strings.Cut(s, "=")
		if !ok || id == "" || addr == "" {
			return nil, fmt.Errorf("--members %q: want ID=HOST:PORT", s)
		}
		out = append(out, raft.Member{ID: id, Addr: addr})
	}
	return out, nil
}

func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func newCommitterStatus() *cobra.Command {
	var (
		group  groupClient
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say how the nodes of a group are",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := group.need("status")
			if err != nil {
				return err
			}
			defer c.Close()
			replies, errs := c.Status(cmd.Context())
			if asJSON {
				return writeStatusJSON(cmd.OutOrStdout(), group.addrs, replies, errs)
			}
			return writeStatus(cmd.OutOrStdout(), group.addrs, replies, errs)
		},
	}
	group.register(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a node")
	return cmd
}

func writeStatusJSON(w io.Writer, addrs []string, replies []*rpc.StatusReply, errs []error) error {
	enc := json.NewEncoder(w)
	for i, r := range replies {
		var v any = r
		if r == nil {
			v = map[string]string{"addr": addrs[i], "state": "away", "error": errs[i].Error()}
		}
		if err := enc.Encode(v); err != nil {
			return err
		}
	}
	return nil
}

func writeStatus(w io.Writer, addrs []string, replies []*rpc.StatusReply, errs []error) error {
	var best *rpc.StatusReply
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "node\taddress\tstate\tterm\tcommitted\tapplied")
	for i, r := range replies {
		if r == nil {
			fmt.Fprintf(tw, "?\t%s\taway\t\t\t\n", addrs[i])
			continue
		}
		if best == nil || r.State == "leader" {
			best = r
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%d\t%d\n", r.ID, r.Addr, r.State, r.Term, r.Commit, r.Applied)
	}
	for _, err := range errs {
		if err != nil {
			fmt.Fprintf(tw, "no answer: %v\n", err) // which names the address
		}
	}
	if best == nil {
		return errors.Join(tw.Flush(), errors.New("no node answers; docs/committer.md says what to do when a majority is lost"))
	}
	var names []string
	for _, m := range best.Members {
		name := m.ID + "=" + m.Addr
		if !m.Voter {
			name += " (standby)"
		}
		names = append(names, name)
	}
	fmt.Fprintf(tw, "\nmembers: %s\n\n", strings.Join(names, " "))
	fmt.Fprintln(tw, "table\tversion\tpending\twaiting\terror")
	for _, t := range best.Tables {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%s\n", t.Table, t.Version, t.Pending, t.Waiting, t.Error)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if best.State != "leader" {
		return errors.New("no node leads: a majority of the members must run; docs/committer.md says what to do when it is lost")
	}
	return nil
}

func newCommitterMember(op, args, short, example string) *cobra.Command {
	var group groupClient
	cmd := &cobra.Command{
		Use: op + " " + args, Short: short, Args: named,
		Example: "  ledgerlake committer " + op + example + " --committer 10.0.0.1:7070,10.0.0.2:7070,10.0.0.3:7070",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := group.need(op)
			if err != nil {
				return err
			}
			defer c.Close()
			r := rpc.MemberRequest{Op: op}
			if len(args) > 0 {
				r.ID = args[0]
			}
			if len(args) > 1 {
				r.Addr = args[1]
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 30*time.Second)
			defer cancel()
			return c.Member(ctx, r)
		},
	}
	group.register(cmd.Flags())
	return cmd
}
