package stack

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// The names of the parts, as every command takes and shows them.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Node              = "node"
	Temporal          = "temporal"
)

// component is one process of the stack.
type component struct {
	name    string
	program string   // its link in the bin folder.
	args    []string // without the program.
	address string   // what status shows.
	ports   []int
	ready   func(context.Context) error // nil when it serves; polled until then.
}

// components lists what this stack runs itself, in the order of starting.
func (s *Stack) components() []component {
	var parts []component
	if s.config.Kubeconfig == "" {
		parts = append(parts, s.etcd(), s.apiServer(), s.controllerManager(), s.scheduler(), s.node())
	}
	if s.config.TemporalAddress == "" {
		parts = append(parts, s.temporal())
	}
	return parts
}

func (s *Stack) component(name string) (component, error) {
	var known []string
	for _, part := range s.components() {
		if part.name == name {
			return part, nil
		}
		known = append(known, part.name)
	}
	return component{}, fmt.Errorf("find component: %q: this stack has %s", name, strings.Join(known, ", "))
}

func (s *Stack) etcd() component {
	client, peer := "http://"+loopback(s.config.Ports.Etcd), "http://"+loopback(s.config.Ports.EtcdPeer)
	return component{
		name: Etcd, program: Etcd, address: client,
		ports: []int{s.config.Ports.Etcd, s.config.Ports.EtcdPeer},
		args: []string{
			"--data-dir=" + s.path("etcd"),
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
			"--unsafe-no-fsync", // the data is worth nothing after a crash of the machine.
			"--quota-backend-bytes=4294967296", "--auto-compaction-mode=periodic", "--auto-compaction-retention=10m",
			"--log-level=warn",
		},
		ready: func(ctx context.Context) error { return get(ctx, client+"/readyz") },
	}
}

func (s *Stack) apiServer() component {
	pki := func(file string) string { return s.path("pki", file) }
	part := component{
		name: APIServer, program: APIServer, address: "https://" + loopback(s.config.Ports.API),
		ports: []int{s.config.Ports.API},
		args: []string{
			"--etcd-servers=http://" + loopback(s.config.Ports.Etcd),
			"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + strconv.Itoa(s.config.Ports.API),
			"--tls-cert-file=" + pki("apiserver.crt"), "--tls-private-key-file=" + pki("apiserver.key"),
			"--client-ca-file=" + pki("ca.crt"),
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + pki("sa.pub"), "--service-account-signing-key-file=" + pki("sa.key"),
			"--kubelet-certificate-authority=" + pki("ca.crt"),
			"--kubelet-client-certificate=" + pki("kubelet-client.crt"), "--kubelet-client-key=" + pki("kubelet-client.key"),
			"--kubelet-preferred-address-types=InternalIP",
			"--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=Node,RBAC", "--allow-privileged=true",
			"--endpoint-reconciler-type=none", // a loopback address is not a valid endpoint.
			"--profiling=false", "--event-ttl=2h",
		},
		ready: s.apiReady,
	}
	if s.config.AuditLog {
		part.args = append(part.args, "--audit-policy-file="+s.path("run", "audit-policy.yaml"), "--audit-log-path="+s.path("logs", "audit.log"))
	}
	return part
}

// controllerManager runs everything but the endpoint controllers: the
// addresses of the pods are loopback ones, which endpoints may not hold. Its
// client is not to be the limit when hundreds of sites roll at once.
func (s *Stack) controllerManager() component {
	return component{
		name: ControllerManager, program: ControllerManager, address: "https://" + loopback(s.config.Ports.ControllerManager),
		ports: []int{s.config.Ports.ControllerManager},
		args: []string{
			"--kubeconfig=" + s.path("run", "controller-manager.kubeconfig"),
			"--authentication-kubeconfig=" + s.path("run", "controller-manager.kubeconfig"),
			"--authorization-kubeconfig=" + s.path("run", "controller-manager.kubeconfig"),
			"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(s.config.Ports.ControllerManager),
			"--leader-elect=false", "--use-service-account-credentials=false",
			"--service-account-private-key-file=" + s.path("pki", "sa.key"), "--root-ca-file=" + s.path("pki", "ca.crt"),
			"--cluster-signing-cert-file=" + s.path("pki", "ca.crt"), "--cluster-signing-key-file=" + s.path("pki", "ca.key"),
			"--controllers=*,-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller",
			"--kube-api-qps=2000", "--kube-api-burst=4000",
			"--concurrent-deployment-syncs=40", "--concurrent-replicaset-syncs=40", "--concurrent-gc-syncs=40",
			"--concurrent-job-syncs=40", "--concurrent-namespace-syncs=20",
			"--pvclaimbinder-sync-period=1s", "--profiling=false",
		},
		ready: func(ctx context.Context) error {
			return s.tlsGet(ctx, "https://"+loopback(s.config.Ports.ControllerManager)+"/healthz")
		},
	}
}

func (s *Stack) scheduler() component {
	kubeconfig := s.path("run", "scheduler.kubeconfig")
	return component{
		name: Scheduler, program: Scheduler, address: "https://" + loopback(s.config.Ports.Scheduler),
		ports: []int{s.config.Ports.Scheduler},
		args: []string{
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(s.config.Ports.Scheduler),
			"--leader-elect=false", "--kube-api-qps=2000", "--kube-api-burst=4000", "--profiling=false",
		},
		ready: func(ctx context.Context) error {
			return s.tlsGet(ctx, "https://"+loopback(s.config.Ports.Scheduler)+"/healthz")
		},
	}
}

func (s *Stack) node() component {
	return component{
		name: Node, program: "localstack", address: "https://" + loopback(s.config.Ports.Node),
		ports: []int{s.config.Ports.Node},
		args:  []string{"node", "--state=" + s.dir},
		ready: s.nodeReady,
	}
}

func (s *Stack) temporal() component {
	args := []string{
		"server", "start-dev", "--ip", "127.0.0.1",
		"--port", strconv.Itoa(s.config.Ports.Temporal), "--ui-port", strconv.Itoa(s.config.Ports.TemporalUI),
		"--db-filename", s.path("temporal.db"),
		"--dynamic-config-value", "system.enableActivityEagerExecution=true",
		"--log-level", "warn",
	}
	for _, name := range []string{"DrupalSite", "DrupalNamespace", "DrupalTarget", "DrupalPhase"} {
		args = append(args, "--search-attribute", name+"=Keyword")
	}
	return component{
		name: Temporal, program: Temporal, address: loopback(s.config.Ports.Temporal),
		ports: []int{s.config.Ports.Temporal, s.config.Ports.TemporalUI},
		args:  args,
		ready: s.temporalReady,
	}
}
