package stack

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// PortError says that a port that a part needs is taken.
type PortError struct {
	Port int
	Part string
}

// Error names the port, who wants it and what to do.
func (e *PortError) Error() string {
	return fmt.Sprintf("port %d is in use and %s needs it: stop what listens there (find it with: ss -ltnp 'sport = :%d'), "+
		"or choose other ports: localstack up --ports 27000, or make demo PORTS=27000", e.Port, e.Part, e.Port)
}

// checkPorts returns a *PortError for the first port that cannot be had.
func checkPorts(parts []component) error {
	for _, part := range parts {
		for _, port := range part.ports {
			l, err := net.Listen("tcp", loopback(port))
			switch {
			case errors.Is(err, syscall.EADDRINUSE):
				return &PortError{Port: port, Part: part.name}
			case err != nil:
				return fmt.Errorf("check port: %d for %s: %w", port, part.name, err)
			}
			if err := l.Close(); err != nil {
				return fmt.Errorf("check port: %d for %s: %w", port, part.name, err)
			}
		}
	}
	return nil
}
