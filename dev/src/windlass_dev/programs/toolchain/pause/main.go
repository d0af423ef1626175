// Command pause holds the namespaces of a pod open: it waits until it is told to
// end, and meanwhile collects the orphans that a shared pid namespace hands to it.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for reaped() {
		}
	}
}

// reaped collects one dead child; false when there is none left.
func reaped() bool {
	pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
	return err == nil && pid > 0
}
