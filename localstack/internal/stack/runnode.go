package stack

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/drupdate/drupdate/localstack/internal/container"
	"github.com/drupdate/drupdate/localstack/internal/node"
)

// RunNode runs the node of this stack in the foreground until the context
// ends. Containers of an earlier node that is gone are ended first.
func (s *Stack) RunNode(ctx context.Context) error {
	if err := KillContainers(ctx, s.path("pods")); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.path("run", "node.kubeconfig"))
	if err != nil {
		return fmt.Errorf("run node: %w", err)
	}
	config.QPS, config.Burst = 2000, 4000 // it speaks for hundreds of pods.
	first, err := firstProcess()
	if err != nil {
		return err
	}
	return node.Run(ctx, node.Config{
		Name: NodeName, REST: config, Server: config.Host, Listen: loopback(s.config.Ports.Node), Advertise: s.config.AdvertisedNode,
		Cert: s.path("pki", nodeUser.File+".crt"), Key: s.path("pki", nodeUser.File+".key"), CA: s.path("pki", "ca.crt"),
		Pods: s.path("pods"), Volumes: s.path("volumes"), Databases: s.path("databases"),
		Init: first, Simsite: s.config.Simsite, Links: s.path("run", "simsite"), Drupdate: s.path("bin", "drupdate"),
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}

// firstProcess is the program that begins every container. It is built beside
// this one.
func firstProcess() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the first process of containers: %w", err)
	}
	path := filepath.Join(filepath.Dir(self), container.Program)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find the first process of containers: %w; build it into the same folder from ./cmd/%s", err, container.Program)
	}
	return path, nil
}
