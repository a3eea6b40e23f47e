package node

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
)

// addresses hands out loopback addresses, 127.BLOCK.0.1 to 127.BLOCK.255.254,
// one a pod, so that any number of pods can listen on the same port.
type addresses struct {
	block int
	mu    sync.Mutex
	last  int
	taken map[string]bool
}

// blockOf derives a block from the port of the node: two stacks on one machine
// must not give one address to two pods.
func blockOf(listen string) int {
	_, text, _ := net.SplitHostPort(listen)
	port, _ := strconv.Atoi(text) // none gives a block like any other.
	return 64 + port%128
}

// take returns a free address, or the wanted one if it is free.
func (a *addresses) take(wanted string) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if wanted != "" && !a.taken[wanted] {
		a.taken[wanted] = true
		return wanted, nil
	}
	const all = 1 << 16
	for range all {
		a.last = (a.last + 1) % all
		high, low := a.last>>8, a.last&0xff
		address := fmt.Sprintf("127.%d.%d.%d", a.block, high, low)
		if low == 0 || low == 255 || a.taken[address] {
			continue
		}
		a.taken[address] = true
		return address, nil
	}
	return "", errors.New("take pod address: all are taken")
}

func (a *addresses) release(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.taken, address)
}
