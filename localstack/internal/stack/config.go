// Package stack starts, watches and stops the parts of the local stack: a real
// Kubernetes control plane, a node that runs pods as local processes, and a
// Temporal development server. All its state is in one folder.
package stack

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Ports are the loopback ports of the parts. Each part has its own.
type Ports struct {
	API               int `json:"api"`
	Etcd              int `json:"etcd"`
	EtcdPeer          int `json:"etcdPeer"`
	Node              int `json:"node"`
	ControllerManager int `json:"controllerManager"`
	Scheduler         int `json:"scheduler"`
	Temporal          int `json:"temporal"`
	TemporalUI        int `json:"temporalUI"`
}

// DefaultPorts are fixed, so that two checkouts notice each other.
func DefaultPorts() Ports {
	return Ports{
		API: 16443, Etcd: 12379, EtcdPeer: 12380, Node: 10777,
		ControllerManager: 16257, Scheduler: 16259, Temporal: 17233, TemporalUI: 18233,
	}
}

// PortsFrom returns eight ports in a row.
func PortsFrom(base int) Ports {
	return Ports{
		API: base, Etcd: base + 1, EtcdPeer: base + 2, Node: base + 3,
		ControllerManager: base + 4, Scheduler: base + 5, Temporal: base + 6, TemporalUI: base + 7,
	}
}

// Config is what one stack is made of. It is recorded by Up, so that the other
// commands know it.
type Config struct {
	Ports           Ports  `json:"ports"`
	AuditLog        bool   `json:"auditLog,omitempty"`
	AdvertisedNode  int    `json:"advertisedNode,omitempty"`  // the port under which the API server looks for the node; zero means the node's own.
	Simsite         string `json:"simsite"`                   // the program of the simulated sites.
	Kubeconfig      string `json:"kubeconfig,omitempty"`      // someone else's cluster; empty means ours.
	TemporalAddress string `json:"temporalAddress,omitempty"` // someone else's Temporal; empty means ours.
}

// Stack is one state folder and what runs from it.
type Stack struct {
	dir    string
	config Config
}

// Open returns the stack of a state folder, with the recorded configuration if
// there is one. Nothing is started, and a folder that does not exist is fine.
func Open(dir string) (*Stack, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open stack: %w", err)
	}
	s := &Stack{dir: dir, config: Config{Ports: DefaultPorts(), Simsite: filepath.Join(dir, "bin", "simsite")}}
	raw, err := os.ReadFile(s.path("run", "config.json"))
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open stack: %w", err)
	}
	if err := json.Unmarshal(raw, &s.config); err != nil {
		return nil, fmt.Errorf("open stack: %q: %w", s.path("run", "config.json"), err)
	}
	return s, nil
}

// Config is the configuration as recorded, or the defaults.
func (s *Stack) Config() Config { return s.config }

// Dir is the absolute path of the state folder.
func (s *Stack) Dir() string { return s.dir }

// Kubeconfig is the path of the kubeconfig of an administrator.
func (s *Stack) Kubeconfig() string {
	if s.config.Kubeconfig != "" {
		return s.config.Kubeconfig
	}
	return s.path("kubeconfig")
}

// TemporalAddress is the host and port of Temporal's frontend.
func (s *Stack) TemporalAddress() string {
	if s.config.TemporalAddress != "" {
		return s.config.TemporalAddress
	}
	return loopback(s.config.Ports.Temporal)
}

// TemporalUI is the address of Temporal's web page, or empty when the server
// is someone else's.
func (s *Stack) TemporalUI() string {
	if s.config.TemporalAddress != "" {
		return ""
	}
	return "http://" + loopback(s.config.Ports.TemporalUI)
}

func (s *Stack) save() error {
	// Later calls come from other folders, and so does the node.
	for _, path := range []*string{&s.config.Simsite, &s.config.Kubeconfig} {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("record configuration: %q: %w", *path, err)
		}
		*path = absolute
	}
	raw, err := json.MarshalIndent(s.config, "", "  ")
	if err != nil {
		return fmt.Errorf("record configuration: %w", err)
	}
	if err := os.WriteFile(s.path("run", "config.json"), append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("record configuration: %w", err)
	}
	return nil
}

func (s *Stack) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

// lock keeps two commands from changing one stack at the same time. The
// returned function releases it, and so does the end of the process.
func (s *Stack) lock() (func(), error) {
	if err := os.MkdirAll(s.path("run"), 0o755); err != nil {
		return nil, fmt.Errorf("lock stack: %w", err)
	}
	f, err := os.OpenFile(s.path("run", "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock stack: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock stack: %q: %w", f.Name(), err), f.Close())
	}
	return func() { _ = f.Close() }, nil // closing a lock file loses nothing.
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
