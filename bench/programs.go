package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// withPrograms runs a scenario with copies of the programs that it measures, as they lie on a disk after an installation.
// What a linker has just written is in the page cache in large pieces, and Linux counts a whole piece as resident memory
// of a process that touches a byte of it (since 6.18): some 20 MB more of ours, and as much as it happens of others.
func withPrograms(run func(context.Context, Config) (*Report, error)) func(context.Context, Config) (*Report, error) {
	return func(ctx context.Context, cfg Config) (*Report, error) {
		dir, remove, err := cfg.scratch()
		if err != nil {
			return nil, err
		}
		defer remove()
		if cfg.OwnBin, err = cfg.self(); err != nil {
			return nil, err
		}
		if cfg.OwnBin, err = installProgram(ctx, dir, cfg.OwnBin); err != nil {
			return nil, fmt.Errorf("program to measure: %w", err)
		}
		if cfg.ReferenceBin != "" {
			if cfg.ReferenceBin, err = installProgram(ctx, dir, cfg.ReferenceBin); err != nil {
				return nil, fmt.Errorf("reference daemon: %w", err)
			}
		}
		return run(ctx, cfg)
	}
}

// self is the ledgerlake to start.
func (c Config) self() (string, error) {
	if c.OwnBin != "" {
		return c.OwnBin, nil
	}
	return os.Executable()
}

// installProgram copies a program into a folder, and starts it once, so that no first measured start reads the disk.
func installProgram(ctx context.Context, dir, program string) (string, error) {
	at := filepath.Join(dir, filepath.Base(program))
	if err := copyProgram(at, program); err != nil {
		return "", err
	}
	if err := exec.CommandContext(ctx, at, "--help").Run(); err != nil {
		return "", fmt.Errorf("%s --help: %w", program, err)
	}
	return at, nil
}

func copyProgram(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	return dropCache(out)
}
