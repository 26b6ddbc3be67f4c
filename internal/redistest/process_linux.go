package redistest

import "syscall"

// dieWithParent makes a server end with the process that started it, even if
// that one is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
