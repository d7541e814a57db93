package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/broker/kafka"
)

func newProduce() *cobra.Command {
	var (
		conn      kafkaFlags
		topic     string
		partition int32
		keySep    string
		codec     string
		quiet     bool
	)
	cmd := &cobra.Command{
		Use:   "produce",
		Short: "Send each line of standard input as one record",
		Long: `produce sends each line of standard input as one record to a topic, to ledgerlake or any Kafka, and
ends when all are acknowledged. An empty line is an empty value.`,
		Example: `  ledgerlake produce --topic events < events.ndjson
  printf 'k1\t{"n":1}\n' | ledgerlake produce --topic events --key-separator $'\t'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if topic == "" {
				return errors.New("--topic is missing")
			}
			ctx := cmd.Context()
			cfg, err := conn.config("ledgerlake-produce", nil)
			if err != nil {
				return err
			}
			p, err := kafka.NewProducer(ctx, kafka.ProducerConfig{Config: cfg, Codec: codec, Spread: true})
			if err != nil {
				return err
			}
			defer p.Close()
			if err := p.Ping(ctx); err != nil {
				return err
			}
			in := bufio.NewReaderSize(cmd.InOrStdin(), 1<<20)
			start, sent := time.Now(), int64(0)
			for {
				line, err := in.ReadBytes('\n')
				if len(line) == 0 && errors.Is(err, io.EOF) {
					break
				}
				if err != nil && !errors.Is(err, io.EOF) {
					return fmt.Errorf("read standard input: %w", err)
				}
				key, value := splitKey(trimNewline(line), keySep)
				if err := p.Send(ctx, topic, partition, key, value); err != nil {
					return fmt.Errorf("line %d: %w", sent+1, err)
				}
				sent++
			}
			if err := p.Flush(ctx); err != nil {
				return err
			}
			if !quiet {
				fmt.Fprintf(os.Stderr, "%d records acknowledged in %s\n", sent, time.Since(start).Round(time.Millisecond))
			}
			return nil
		},
	}
	f := cmd.Flags()
	conn.register(f)
	f.StringVar(&topic, "topic", "", "topic (required)")
	f.Int32Var(&partition, "partition", -1, "partition; -1 spreads records, by key where there is one")
	f.StringVar(&keySep, "key-separator", "", "text between key and value in a line; without it records have no key")
	f.StringVar(&codec, "compression", "lz4", "none, gzip, snappy, lz4 or zstd")
	f.BoolVar(&quiet, "quiet", false, "no closing line")
	return cmd
}

func trimNewline(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}

// splitKey gives key and value; the key is nil without a separator.
func splitKey(line []byte, sep string) (key, value []byte) {
	if sep == "" {
		return nil, line
	}
	for i := 0; i+len(sep) <= len(line); i++ {
		if string(line[i:i+len(sep)]) == sep {
			return line[:i:i], line[i+len(sep):]
		}
	}
	return nil, line
}
