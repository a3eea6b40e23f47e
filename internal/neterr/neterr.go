// Package neterr puts faults of the network into words for people.
package neterr

import (
	"errors"
	"net"
)

// Why says why there was no answer, without addresses and ports, which are others each time and may be secret. It is
// empty for an error of which that cannot be told.
func Why(err error) string {
	var timeout interface{ Timeout() bool }
	var name *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "it takes too long"
	case errors.As(err, &name):
		return "its host name is not known"
	case errors.As(err, &op):
		return op.Err.Error()
	}
	return ""
}
