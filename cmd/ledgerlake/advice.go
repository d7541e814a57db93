package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/internal/yamlkeys"
)

// flagError says of a flag that was not understood what was meant, or what it wants, in place of what a parser of Go says.
func flagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		all := func(f *pflag.Flag) { names = append(names, f.Name) }
		cmd.Flags().VisitAll(all)
		cmd.InheritedFlags().VisitAll(all)
		name := unknown.GetSpecifiedName()
		near := yamlkeys.Nearest(name, names)
		for _, n := range names { // --version for --to-version
			if near == "" && strings.HasSuffix(n, "-"+name) {
				near = n
			}
		}
		if near != "" {
			near = fmt.Sprintf("did you mean --%s? ", near)
		}
		return fmt.Errorf("%w: %s`%s --help` shows all", err, near, cmd.CommandPath())
	}
	if _, bad := errors.AsType[*pflag.InvalidValueError](err); !bad {
		return fmt.Errorf("%w: `%s --help` shows how flags are given", err, cmd.CommandPath())
	}
	return valueError(err)
}

// valueError says what a flag wants instead of a value that it does not take, on the command line or elsewhere.
func valueError(err error) error {
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	want := map[string]string{
		"duration": "a time with its unit, as in 500ms, 10s, 5m or 1h", "int": "a number", "int32": "a number", "int64": "a number", "float64": "a number",
		"int32Slice": "numbers, separated by commas", "bool": "true or false", "stringToString": "NAME=VALUE pairs, separated by commas",
	}[bad.GetFlag().Value.Type()]
	if want == "" {
		return err
	}
	return fmt.Errorf("--%s %q: want %s", bad.GetFlag().Name, bad.GetValue(), want)
}

// listenError adds to an error of listening the flag that chooses another address.
func listenError(flag string, err error) error {
	if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "listen" {
		return err
	}
	return fmt.Errorf("%w; %s chooses another address, HOST:PORT as in 127.0.0.1:9092", err, flag)
}

// lockError says who has a log, as a rule, that cannot be locked.
func lockError(dir string, err error) error {
	if !errors.Is(err, vfs.ErrLocked) {
		return err
	}
	return fmt.Errorf("%w: a `ledgerlake serve` runs in %s as it seems: stop it, or choose another --dir", err, dir)
}

// tableError is about a table that could not be opened. It says what is there instead.
func tableError(at string, err error) error {
	err = fmt.Errorf("open table %s: %w", at, err)
	if !errors.Is(err, deltalog.ErrNotTable) || strings.Contains(at, "://") {
		return err
	}
	if _, stat := os.Stat(at); errors.Is(stat, fs.ErrNotExist) {
		return told{fmt.Sprintf("%s does not exist: want the path or the URL of a table", at), err}
	}
	if servedDir(at) {
		return told{fmt.Sprintf("%s is a served directory and no table: its tables are in %s, and `ledgerlake read %s` reads one with its log",
			at, filepath.Join(at, "lake"), filepath.Join(at, "TOPIC")), err}
	}
	return err
}

// told is an error in other words. Who asks for the error itself finds it.
type told struct {
	words string
	err   error
}

func (t told) Error() string { return t.words }
func (t told) Unwrap() error { return t.err }
