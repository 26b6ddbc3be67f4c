//go:build !linux

package redistest

import "syscall"

// dieWithParent does nothing where the kernel has no death signal.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
