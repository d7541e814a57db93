//go:build unix

package reprocess

import (
	"os/exec"
	"syscall"
)

// ownGroup puts a command into a process group of its own, so that its children can be ended with it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) {
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
		_ = cmd.Process.Kill() // it may have ended by itself
	}
}
