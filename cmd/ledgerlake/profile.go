package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"

	"github.com/spf13/cobra"
)

// profiles are those of the process, for go tool pprof. Every command has their flags; help does not show them.
type profiles struct {
	cpu, memory string
	file        *os.File // of the CPU profile that is under way; else nil
}

// attach gives a command and all below it the flags, which are heeded before any of them runs.
func (p *profiles) attach(root *cobra.Command) {
	fs := root.PersistentFlags()
	fs.StringVar(&p.cpu, "cpu-profile", "", "write a CPU profile for go tool pprof to this file")
	fs.StringVar(&p.memory, "mem-profile", "", "write a profile of all allocations for go tool pprof to this file")
	for _, name := range []string{"cpu-profile", "mem-profile"} {
		fs.Lookup(name).Hidden = true
	}
	first := root.PersistentPreRunE
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if err := first(cmd, args); err != nil {
			return err
		}
		return p.start()
	}
}

// start begins those that are asked for.
func (p *profiles) start() error {
	if p.cpu == "" {
		return nil
	}
	f, err := os.Create(p.cpu)
	if err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return errors.Join(err, f.Close())
	}
	p.file = f
	return nil
}

// stop completes them.
func (p *profiles) stop() (err error) {
	if p.file != nil {
		pprof.StopCPUProfile()
		err = p.file.Close()
	}
	if p.memory == "" {
		return err
	}
	f, fault := os.Create(p.memory)
	if fault == nil {
		fault = errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
	}
	if fault != nil {
		err = errors.Join(err, fmt.Errorf("write profile: %w", fault))
	}
	return err
}
