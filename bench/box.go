package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// box holds programs to a share of the machine's processors: a control group of Linux each, version 2 or 1.
type box struct {
	dirs []string
	cpus float64 // of each program
}

const boxPeriod = 100_000 // microseconds in which a share may be used up

// newBox makes n groups of cpus processors each. Where the system does not allow it, that is the error.
func newBox(n int, cpus float64) (*box, error) {
	parent, limit, err := cpuGroups("/proc/self/cgroup", "/sys/fs/cgroup")
	if err != nil {
		return nil, err
	}
	b := &box{cpus: cpus}
	for i := range n {
		dir := filepath.Join(parent, fmt.Sprintf("ledgerlake-bench-%d-%d", os.Getpid(), i))
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, errors.Join(fmt.Errorf("make a control group: %w", err), b.close())
		}
		b.dirs = append(b.dirs, dir)
		if err := limit(dir, int(cpus*boxPeriod)); err != nil {
			return nil, errors.Join(fmt.Errorf("limit processors: %w", err), b.close())
		}
	}
	return b, nil
}

// cpuGroups finds the folder in which groups of this process can be made, and how one is given microseconds a boxPeriod.
func cpuGroups(self, root string) (parent string, limit func(dir string, micros int) error, err error) {
	b, err := os.ReadFile(self)
	if err != nil {
		return "", nil, fmt.Errorf("control groups: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 {
			continue
		}
		switch controllers := strings.Split(f[1], ","); {
		case f[1] == "": // version 2, whose processors another line may have given to version 1
			parent = filepath.Join(root, f[2])
			limit = func(dir string, micros int) error {
				return os.WriteFile(filepath.Join(dir, "cpu.max"), fmt.Appendf(nil, "%d %d", micros, boxPeriod), 0)
			}
		case slices.Contains(controllers, "cpu"):
			return filepath.Join(root, "cpu", f[2]), func(dir string, micros int) error {
				if err := os.WriteFile(filepath.Join(dir, "cpu.cfs_period_us"), []byte(strconv.Itoa(boxPeriod)), 0); err != nil {
					return err
				}
				return os.WriteFile(filepath.Join(dir, "cpu.cfs_quota_us"), []byte(strconv.Itoa(micros)), 0)
			}, nil
		}
	}
	if parent == "" {
		return "", nil, errors.New("this system has no control groups of processors")
	}
	return parent, limit, nil
}

// command puts program i into its group before it begins.
func (b *box) command(i int, name string, args []string) (string, []string) {
	return "/bin/sh", append([]string{"-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(b.dirs[i], "cgroup.procs"), name}, args...)
}

// close removes the groups, whose programs have ended.
func (b *box) close() (err error) {
	for _, dir := range b.dirs {
		err = errors.Join(err, os.Remove(dir))
	}
	return err
}
