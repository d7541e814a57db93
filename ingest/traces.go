package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerlake/ledgerlake/tiering"
)

// Traces sends what commits did to a collector of OpenTelemetry, by OTLP over HTTP. A commit is a trace of its own: a span of
// the commit, and one each for fetch, decode, encode, upload, dead letters and the version. They are made when the commit is over,
// so that the work itself carries nothing of it. What the collector does not take in time is dropped, and ingest goes on.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// OpenTraces makes the sender for the address of a collector, such as http://collector:4318; spans go to /v1/traces there,
// unless the address has a path. Headers, certificates, name of the service and sampling are taken from OTEL_* in the environment.
func OpenTraces(ctx context.Context, endpoint string, log *slog.Logger) (*Traces, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("collector of traces %q: want an address such as http://collector:4318", endpoint)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()))
	if err != nil {
		return nil, fmt.Errorf("collector of traces: %w", err)
	}
	res, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "ledgerlake")), resource.WithHost(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, errors.Join(fmt.Errorf("resource of traces: %w", err), exporter.Shutdown(ctx))
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(logged{exporter, log}), sdktrace.WithResource(res))
	return &Traces{provider: p, tracer: p.Tracer("github.com/ledgerlake/ledgerlake")}, nil
}

// logged says in the log when spans cannot be sent, in place of the SDK's own error handler.
type logged struct {
	sdktrace.SpanExporter
	log *slog.Logger
}

func (l logged) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := l.SpanExporter.ExportSpans(ctx, spans); err != nil {
		l.log.Warn("traces are not sent", "spans", len(spans), "error", err)
	}
	return nil
}

// Commit makes the spans of one commit. It does not wait for the collector.
func (t *Traces) Commit(c tiering.CommitTrace) {
	steps := []struct {
		name string
		step tiering.Step
	}{{"fetch", c.Fetch}, {"decode", c.Decode}, {"encode", c.Encode}, {"upload", c.Upload}, {"dead letters", c.Letters}, {"version", c.Commit}}
	var whole tiering.Step
	for _, s := range steps {
		if s.step.Start.IsZero() {
			continue
		}
		if whole.Start.IsZero() || s.step.Start.Before(whole.Start) {
			whole.Start = s.step.Start
		}
		if s.step.End.After(whole.End) {
			whole.End = s.step.End
		}
	}
	ctx, span := t.tracer.Start(context.Background(), "commit "+c.Topic, trace.WithTimestamp(whole.Start), trace.WithNewRoot(), trace.WithAttributes(
		attribute.String("messaging.system", "kafka"), attribute.String("messaging.destination.name", c.Topic), attribute.String("ledgerlake.app", c.App),
		attribute.String("ledgerlake.table", c.Table), attribute.Int64("ledgerlake.version", int64(c.Version)), attribute.StringSlice("ledgerlake.offsets", offsets(c)),
		attribute.Int64("ledgerlake.rows", c.Rows), attribute.Int64("ledgerlake.records", c.Records), attribute.Int64("ledgerlake.bytes", c.Bytes),
		attribute.Int("ledgerlake.dead_letters", c.DeadLetters), attribute.Int("ledgerlake.files", c.Files), attribute.Int64("ledgerlake.file_bytes", c.FileBytes)))
	for _, s := range steps {
		if s.step.Start.IsZero() || s.name == "dead letters" && c.DeadLetters == 0 {
			continue
		}
		_, child := t.tracer.Start(ctx, s.name, trace.WithTimestamp(s.step.Start), trace.WithAttributes(attribute.Float64("ledgerlake.busy_seconds", s.step.Busy.Seconds())))
		child.End(trace.WithTimestamp(s.step.End))
	}
	if c.Err != nil {
		span.SetStatus(codes.Error, c.Err.Error())
	}
	span.End(trace.WithTimestamp(whole.End))
}

// offsets are the ranges of a commit as partition:[from,to).
func offsets(c tiering.CommitTrace) []string {
	out := make([]string, len(c.Ranges))
	for i, r := range c.Ranges {
		out[i] = fmt.Sprintf("%d:[%d,%d)", r.Partition, r.From, r.To)
	}
	return out
}

// closeTimeout bounds the last sending.
const closeTimeout = 5 * time.Second

// Close sends what is left, for some seconds.
func (t *Traces) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("close traces: %w", err)
	}
	return nil
}
