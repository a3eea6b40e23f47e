package neterr_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drupdate/drupdate/internal/neterr"
)

func TestWhyNamesNoAddress(t *testing.T) {
	t.Parallel()
	address := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 4711}
	for want, err := range map[string]error{
		"it takes too long":          context.DeadlineExceeded,
		"its host name is not known": &net.DNSError{Err: "no such host", Name: "secret.example"},
		"connection refused":         &net.OpError{Op: "dial", Net: "tcp", Addr: address, Err: errors.New("connection refused")},
		"":                           errors.New("secret.example: something else"),
	} {
		require.Equal(t, want, neterr.Why(fmt.Errorf("ask: %w", err)))
	}
}
