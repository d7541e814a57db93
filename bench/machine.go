package bench

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Machine describes where numbers come from: processor, how many, system, version of Go.
func Machine() string {
	model := runtime.GOARCH
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for sc := bufio.NewScanner(f); sc.Scan(); {
			if name, ok := strings.CutPrefix(sc.Text(), "model name"); ok {
				model = strings.TrimLeft(name, "\t :")
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d CPUs, %s, %s", model, runtime.NumCPU(), runtime.GOOS, runtime.Version())
}

// cpuTime is the user and system time of this process so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure runs f and returns what it took.
func measure(name string, round int, f func() (records, bytes int64, err error)) (Sample, error) {
	runtime.GC()
	cpu, start := cpuTime(), time.Now()
	records, bytes, err := f()
	s := Sample{
		Case: name, Round: round, Records: records, Bytes: bytes,
		Seconds: time.Since(start).Seconds(), CPUSeconds: (cpuTime() - cpu).Seconds(),
	}
	if err != nil {
		return s, fmt.Errorf("%s, round %d: %w", name, round, err)
	}
	return s, nil
}
