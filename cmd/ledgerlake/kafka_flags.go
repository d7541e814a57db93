package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/pflag"

	"github.com/ledgerlake/ledgerlake/broker/kafka"
)

// kafkaFlags are the flags of every command that connects to a Kafka.
type kafkaFlags struct {
	brokers []string
	kafkaSecurity
}

func (k *kafkaFlags) register(f *pflag.FlagSet) {
	f.StringSliceVar(&k.brokers, "brokers", []string{"127.0.0.1:9092"}, "bootstrap addresses")
	k.kafkaSecurity.register(f)
}

func (k *kafkaFlags) config(clientID string, log *slog.Logger) (kafka.Config, error) {
	return k.kafkaSecurity.config(k.brokers, clientID, log)
}

// kafkaSecurity says how a client shows a Kafka who it is, and knows the Kafka.
type kafkaSecurity struct {
	tls           bool
	ca, cert, key string
	serverName    string
	sasl          kafka.SASL
}

func (k *kafkaSecurity) register(f *pflag.FlagSet) {
	f.BoolVar(&k.tls, "tls", false, "connect with TLS; the other --tls flags imply it")
	f.StringVar(&k.ca, "tls-ca", "", "PEM file with the authority of the broker's certificate (default: the system's)")
	f.StringVar(&k.cert, "tls-cert", "", "PEM file with our certificate, where the broker asks for one")
	f.StringVar(&k.key, "tls-key", "", "PEM file with its key")
	f.StringVar(&k.serverName, "tls-server-name", "", "name in the broker's certificate, when it is not the address")
	f.StringVar(&k.sasl.Mechanism, "sasl-mechanism", "", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512 (the default with --sasl-user)")
	f.StringVar(&k.sasl.User, "sasl-user", "", "SASL user")
	f.StringVar(&k.sasl.Password, "sasl-password", "", "SASL password; better set LEDGERLAKE_SASL_PASSWORD")
}

func (k *kafkaSecurity) config(brokers []string, clientID string, log *slog.Logger) (kafka.Config, error) {
	cfg := kafka.Config{Brokers: brokers, ClientID: clientID, SASL: k.sasl, Logger: log}
	for _, b := range brokers {
		if err := noPulsar("--brokers", b); err != nil {
			return cfg, err
		}
	}
	if cfg.SASL.Mechanism == "" && cfg.SASL.User != "" {
		cfg.SASL.Mechanism = kafka.ScramSHA512
	}
	if !k.tls && k.ca == "" && k.cert == "" && k.key == "" && k.serverName == "" {
		return cfg, nil
	}
	cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: k.serverName}
	var err error
	if k.ca != "" {
		if cfg.TLS.RootCAs, err = readPool("--tls-ca", k.ca); err != nil {
			return cfg, err
		}
	}
	if (k.cert == "") != (k.key == "") {
		return cfg, errors.New("--tls-cert and --tls-key go together")
	}
	if k.cert != "" {
		pair, err := tls.LoadX509KeyPair(k.cert, k.key)
		if err != nil {
			return cfg, fmt.Errorf("read --tls-cert and --tls-key: %w", err)
		}
		cfg.TLS.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// served gives the settings for a served directory, which says of itself what its port wants.
func (k kafkaSecurity) served(dir string, info *serveInfo, log *slog.Logger) (kafka.Config, error) {
	k.tls = k.tls || info.TLS
	if len(info.SASL) > 0 {
		if k.sasl.User == "" {
			return kafka.Config{}, fmt.Errorf("%s is served to users who log in: give --sasl-user and --sasl-password, or LEDGERLAKE_SASL_USER and LEDGERLAKE_SASL_PASSWORD", dir)
		}
		for _, m := range []string{kafka.ScramSHA512, kafka.ScramSHA256, kafka.Plain} {
			if k.sasl.Mechanism == "" && slices.Contains(info.SASL, m) {
				k.sasl.Mechanism = m
			}
		}
	}
	return k.config([]string{info.Kafka}, "ledgerlake-read", log)
}

// explain adds to an error of connecting to a served directory what may be missing.
func (info *serveInfo) explain(dir string, err error) error {
	if err == nil || !info.TLS {
		return err
	}
	return fmt.Errorf("%w\n%s is served with TLS: --tls-ca names the authority of its certificate, --tls-server-name the name in it, --tls-cert and --tls-key ours where it asks for one", err, dir)
}
