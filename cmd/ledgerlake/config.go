package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"
)

// bindConfig sets each flag that was not given from the environment, else from the --config file.
func bindConfig(cmd *cobra.Command) error {
	file, err := configFile(cmd)
	if err != nil {
		return err
	}
	var errs []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		fromFile, inFile := file[f.Name]
		delete(file, f.Name)
		if f.Changed || f.Name == "help" || f.Name == "config" {
			return
		}
		env := "LEDGERLAKE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v, ok := os.LookupEnv(env); ok {
			if err := cmd.Flags().Set(f.Name, v); err != nil {
				errs = append(errs, fmt.Errorf("environment %s: %w", env, valueError(err)))
			}
			return
		}
		if !inFile {
			return
		}
		for _, v := range fromFile {
			if err := cmd.Flags().Set(f.Name, v); err != nil {
				errs = append(errs, fmt.Errorf("config file key %s: %w", f.Name, valueError(err)))
			}
		}
	})
	for key := range file {
		errs = append(errs, fmt.Errorf("config file key %s: %s has no such flag; see `%s --help`", key, cmd.Name(), cmd.CommandPath()))
	}
	return errors.Join(errs...)
}

// configFile reads the YAML file as flag name -> values (several for a list).
func configFile(cmd *cobra.Command) (map[string][]string, error) {
	path, _ := cmd.Flags().GetString("config")
	if path == "" {
		path = os.Getenv("LEDGERLAKE_CONFIG")
	}
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("read config %s: %w", path, err)
	}
	out := map[string][]string{}
	for k, v := range doc {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				out[k] = append(out[k], fmt.Sprint(e))
			}
		case map[string]any:
			return nil, fmt.Errorf("config file key %s: a plain value or a list is wanted, not a map", k)
		default:
			out[k] = []string{fmt.Sprint(v)}
		}
	}
	return out, nil
}

// newLogger makes the logger that --log-level asks for.
func newLogger(cmd *cobra.Command) (*slog.Logger, error) {
	name, _ := cmd.Flags().GetString("log-level")
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil || !slices.Contains([]string{"debug", "info", "warn", "error"}, name) {
		return nil, fmt.Errorf("--log-level %q is not debug, info, warn or error", name)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch form, _ := cmd.Flags().GetString("log-format"); form {
	case "text":
		return slog.New(slog.NewTextHandler(os.Stderr, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, opts)), nil
	default:
		return nil, fmt.Errorf("--log-format %q is not text or json", form)
	}
}
