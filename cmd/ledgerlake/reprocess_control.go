package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/reprocess"
)

// newReprocessControl makes a subcommand that tells a job something, wherever its processes run.
func newReprocessControl(use, short, long string, change func(cmd *cobra.Command, c *reprocess.Control) error) *cobra.Command {
	var f jobFlags
	cmd := &cobra.Command{
		Use:     use + " JOB.yaml",
		Short:   short,
		Long:    long,
		Example: "  ledgerlake reprocess " + use + " job.yaml",
		Args:    named,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.withState(cmd, args[0], func(ctx context.Context, store objstore.Store, job string, out io.Writer) error {
				c, err := reprocess.ReadControl(ctx, store, job)
				if err != nil {
					return err
				}
				if err := change(cmd, &c); err != nil {
					return err
				}
				if err := reprocess.SetControl(ctx, store, job, c); err != nil {
					return err
				}
				return f.print(out, c, controlText(job, c))
			})
		},
	}
	f.register(cmd)
	return cmd
}

func controlText(job string, c reprocess.Control) string {
	text := "job " + job + " is to run"
	if c.Paused {
		text = "job " + job + " is to rest"
	}
	if c.MaxRate != "" {
		text += ", and to read at most " + c.MaxRate + " a second in each process"
	}
	return text + "; its processes see it within seconds"
}

func newReprocessPause() *cobra.Command {
	return newReprocessControl("pause", "Let all processes of a job rest",
		`pause stops the reading of all processes of a job, on whatever machines, within seconds. What they have read is committed.
It holds until resume, also for processes that are started meanwhile.`,
		func(_ *cobra.Command, c *reprocess.Control) error {
			c.Paused = true
			return nil
		})
}

func newReprocessResume() *cobra.Command {
	return newReprocessControl("resume", "Let a paused job go on", "resume takes a pause back.",
		func(_ *cobra.Command, c *reprocess.Control) error {
			c.Paused = false
			return nil
		})
}

func newReprocessThrottle() *cobra.Command {
	var rate string
	cmd := newReprocessControl("throttle", "Change how fast a job reads, while it runs",
		`throttle sets the rate of each process of a job, in the place of the one that the job or its command line says. An empty
--max-rate takes that back.`,
		func(cmd *cobra.Command, c *reprocess.Control) error {
			if !cmd.Flags().Changed("max-rate") {
				return errors.New(`--max-rate is missing: 10000 (records a second), 20MB, or both with a comma; "" for what the job says`)
			}
			c.MaxRate = rate
			return nil
		})
	cmd.Flags().StringVar(&rate, "max-rate", "", "records or bytes a second: 10000, 20MB, or both with a comma")
	return cmd
}

// withState does something with the store where a job keeps its state, without opening the job.
func (f *jobFlags) withState(cmd *cobra.Command, file string, do func(context.Context, objstore.Store, string, io.Writer) error) error {
	return f.withSource(cmd, file, func(ctx context.Context, o *openedJob, spec reprocess.Spec) error {
		path, err := o.statePath(ctx)
		if err != nil {
			return err
		}
		store, err := f.store.open(ctx, path)
		if err != nil {
			return err
		}
		return do(ctx, store, spec.Name, cmd.OutOrStdout())
	})
}

// dryRunSamples is how many records a dry run shows.
const dryRunSamples = 10

// dry is `reprocess --dry-run`.
func (f *jobFlags) dry(cmd *cobra.Command, file string) error {
	return f.withSource(cmd, file, func(ctx context.Context, o *openedJob, _ reprocess.Spec) error {
		cfg, err := f.jobConfig(ctx, o)
		if err != nil {
			return err
		}
		p, err := reprocess.DryRun(ctx, cfg, dryRunSamples)
		if err != nil {
			return err
		}
		return f.print(cmd.OutOrStdout(), p, p.String())
	})
}

// serveJob shows the metrics of a job until the function that it gives is called.
func (f *jobFlags) serveJob(o *openedJob) (stop func(), err error) {
	if f.http == "" {
		return func() {}, nil
	}
	stop, _, err = metricsOnly(f.http, f.log, o.Collector())
	return stop, err
}

// metricsOnly shows metrics and health until stop is called.
func metricsOnly(listen string, log *slog.Logger, c prometheus.Collector) (stop func(), addr string, err error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, "", fmt.Errorf("--http-listen: %w", err)
	}
	registry := newRegistry()
	registry.MustRegister(c)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // ends with stop
	}()
	log.Info("metrics", "addr", l.Addr().String())
	return func() { _ = s.Close(); <-done }, l.Addr().String(), nil
}
