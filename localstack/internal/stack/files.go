package stack

import (
	"fmt"
	"os"

	"github.com/drupdate/drupdate/localstack/internal/pki"
)

// admins is the group that may do everything.
const admins = "system:masters"

// The users of the cluster.
var (
	admin         = pki.Subject{File: "admin", User: "admin", Groups: []string{admins}}
	nodeUser      = pki.Subject{File: "node", User: "localstack-node", Groups: []string{admins}, Hosts: []string{NodeName, "localhost", "127.0.0.1"}}
	kubeletClient = pki.Subject{File: "kubelet-client", User: "kube-apiserver-kubelet-client", Groups: []string{admins}}
	managerUser   = pki.Subject{File: "controller-manager", User: "system:kube-controller-manager", Groups: []string{admins}}
	schedulerUser = pki.Subject{File: "scheduler", User: "system:kube-scheduler"}
	apiServerUser = pki.Subject{File: "apiserver", User: "kube-apiserver", Hosts: []string{
		"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", "10.96.0.1",
	}}
)

// auditPolicy logs who did what, but never a body, which may hold a secret.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// files writes the certificates and configuration of the control plane. What
// exists is kept, except for the kubeconfigs, which follow the port.
func (s *Stack) files() error {
	if s.config.Kubeconfig != "" {
		return nil
	}
	authority, err := pki.Open(s.path("pki"))
	if err != nil {
		return err
	}
	for _, subject := range []pki.Subject{admin, nodeUser, kubeletClient, managerUser, schedulerUser, apiServerUser} {
		if err := authority.Issue(subject); err != nil {
			return err
		}
	}
	if err := authority.IssueKey("sa"); err != nil {
		return err
	}
	server := "https://" + loopback(s.config.Ports.API)
	for path, subject := range map[string]pki.Subject{
		s.path("kubeconfig"):                           admin,
		s.path("run", "node.kubeconfig"):               nodeUser,
		s.path("run", "controller-manager.kubeconfig"): managerUser,
		s.path("run", "scheduler.kubeconfig"):          schedulerUser,
	} {
		if err := authority.Kubeconfig(path, server, subject); err != nil {
			return err
		}
	}
	if err := os.WriteFile(s.path("run", "audit-policy.yaml"), []byte(auditPolicy), 0o644); err != nil {
		return fmt.Errorf("write audit policy: %w", err)
	}
	return nil
}
