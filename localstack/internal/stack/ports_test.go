package stack

import (
	"errors"
	"net"
	"strings"
	"testing"
)

func TestPortInUseIsOneClearSentence(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	err = checkPorts([]component{{name: APIServer, ports: []int{port}}})
	var taken *PortError
	if !errors.As(err, &taken) || *taken != (PortError{Port: port, Part: APIServer}) {
		t.Fatalf("error %v", err)
	}
	if text := err.Error(); !strings.Contains(text, APIServer) || strings.Contains(text, "\n") {
		t.Fatalf("error %q", text)
	}
}

func TestPortsDiffer(t *testing.T) {
	t.Parallel()
	for name, ports := range map[string]Ports{"default": DefaultPorts(), "in a row": PortsFrom(30000)} {
		seen := map[int]bool{}
		for _, port := range []int{ports.API, ports.Etcd, ports.EtcdPeer, ports.Node, ports.ControllerManager, ports.Scheduler, ports.Temporal, ports.TemporalUI} {
			if port == 0 || seen[port] {
				t.Fatalf("%s: port %d is missing or there twice", name, port)
			}
			seen[port] = true
		}
	}
}
