//go:build fault

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

// fleet is what all sites of a wave share, and what faults of the whole system hit.
type fleet struct {
	mu              sync.Mutex
	worker, watcher *daemon
	proxy           *proxy
	// deaths are the ends of processes that nobody asked for.
	deaths []string
}

var shared *fleet

// launch starts the worker and the watcher as two processes, and the proxy before the node, and returns what stops them.
func launch() (func() error, error) {
	shared = &fleet{}
	var err error
	if shared.proxy, err = startProxy(); err != nil {
		return nil, err
	}
	shared.worker, shared.watcher = shared.newDaemon("worker"), shared.newDaemon("watcher")
	stop := func() error {
		shared.worker.retire()
		shared.watcher.retire()
		return shared.proxy.stop()
	}
	if err := shared.whole(time.Minute); err != nil {
		_ = stop() // the first error is the one that tells
		return nil, err
	}
	return stop, nil
}

// whole waits until every process is ready, as at the beginning of a wave.
func (f *fleet) whole(limit time.Duration) error {
	f.mu.Lock()
	worker, watcher := f.worker, f.watcher
	f.mu.Unlock()
	for _, d := range []*daemon{worker, watcher} {
		if err := try(limit, d.ready); err != nil {
			return fmt.Errorf("%s: %w", d.role, err)
		}
	}
	for _, component := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "node", "temporal"} {
		if err := try(limit, func() error { return running(component) }); err != nil {
			return err
		}
	}
	return f.proxy.heal()
}

// daemon is a process of drupdate that is started again whenever it ends, as Kubernetes does.
type daemon struct {
	fleet *fleet
	role  string
	// program is the binary, and build what a worker tells Temporal of it; empty for its own.
	program, build string

	mu      sync.Mutex
	command *exec.Cmd
	health  string        // the address of its probes, another one with each start.
	killed  bool          // the end of the process that runs now was asked for.
	hold    time.Duration // how long it stays down after it.
	retired bool
	gone    chan struct{}
}

func (f *fleet) newDaemon(role string) *daemon { return f.newBuild(role, ours(), "") }

// ours is the program under test.
func ours() string { return filepath.Join(state, "bin", "drupdate") }

func (f *fleet) newBuild(role, program, build string) *daemon {
	d := &daemon{fleet: f, role: role, program: program, build: build, gone: make(chan struct{})}
	go d.supervise()
	return d
}

// handedOut are the addresses that freeAddress has given away: a process that starts slowly does not listen yet.
var handedOut sync.Map

// freeAddress is a loopback address that nobody listens on, and that nobody was given before.
func freeAddress() string {
	for {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "127.0.0.1:0"
		}
		address := listener.Addr().String()
		_ = listener.Close() // nothing was written to it
		if _, given := handedOut.LoadOrStore(address, true); !given {
			return address
		}
	}
}

func (d *daemon) log() string { return filepath.Join(state, "logs", "fault-"+d.role+".log") }

func (d *daemon) supervise() {
	defer close(d.gone)
	for {
		err := d.once()
		d.mu.Lock()
		killed, hold, retired := d.killed, d.hold, d.retired
		d.killed, d.hold = false, 0
		d.mu.Unlock()
		if retired {
			return
		}
		if !killed {
			d.fleet.died(fmt.Sprintf("%s %s ended by itself: %v", time.Now().Format(time.TimeOnly), d.role, err))
			hold = time.Second
		}
		pause(hold)
	}
}

// pause is the one place of the fault suite that lets time pass.
func pause(d time.Duration) { <-time.After(d) }

func (f *fleet) died(how string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deaths = append(f.deaths, how)
}

// once runs the process to its end.
func (d *daemon) once() error {
	output, err := os.OpenFile(d.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	health := freeAddress()
	command := exec.Command(d.program, d.role, "--health-addr", health, "--metrics-addr", "0")
	if d.build != "" {
		command.Args = append(command.Args, "--build-id", d.build)
	}
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfigOf(systemNamespace, "drupdate-"+d.role))
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	d.mu.Lock()
	if d.retired {
		d.mu.Unlock()
		return nil
	}
	err = command.Start()
	d.command, d.health = command, health
	d.mu.Unlock()
	if err != nil {
		return err
	}
	return command.Wait()
}

// kill ends the process as a lost node does, and keeps it down for a while.
func (d *daemon) kill(down time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.command == nil || d.command.Process == nil {
		return fmt.Errorf("%s does not run", d.role)
	}
	killed, hold := d.killed, d.hold
	d.killed, d.hold = true, down
	err := d.command.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) { // another fault keeps it down
		d.killed, d.hold = killed, hold
		return nil
	}
	return err
}

// retire ends the process for good.
func (d *daemon) retire() {
	d.mu.Lock()
	d.retired, d.killed = true, true
	if d.command != nil && d.command.Process != nil {
		_ = d.command.Process.Kill() // it may have ended already
	}
	d.mu.Unlock()
	<-d.gone
}

func (d *daemon) ready() error {
	d.mu.Lock()
	address := d.health
	d.mu.Unlock()
	return healthy("http://" + address)
}

// takeOver starts a second worker, of another build for Temporal, beside the first, and kills the first. With
// OTHER_BUILD, the path of another drupdate, the two take turns.
func (f *fleet) takeOver(together time.Duration) error {
	program := ours()
	f.mu.Lock()
	if other := os.Getenv("OTHER_BUILD"); other != "" && f.worker.program == program {
		program = other
	}
	f.mu.Unlock()
	second := f.newBuild("worker", program, fmt.Sprintf("build-%d", time.Now().UnixNano()))
	if err := try(time.Minute, second.ready); err != nil {
		return err
	}
	pause(together)
	f.mu.Lock()
	first := f.worker
	f.worker = second
	f.mu.Unlock()
	first.retire()
	return nil
}

// killDaemon kills the worker or the watcher that runs now.
func (f *fleet) killDaemon(role string, down time.Duration) error {
	f.mu.Lock()
	d := f.worker
	if role == "watcher" {
		d = f.watcher
	}
	f.mu.Unlock()
	return d.kill(down)
}

// stack runs a verb of localstack on one component.
func stack(verb, component string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute) //nolint:forbidigo // it must run even when the test is over
	defer cancel()
	out, err := exec.CommandContext(ctx, "localstack", "--state", state, verb, component).CombinedOutput()
	if err != nil {
		return fmt.Errorf("localstack %s %s: %w: %s", verb, component, err, out)
	}
	return nil
}

// outage kills a component and starts it again after a while, as often as it takes: one that finds no API server gives up,
// and what runs the components of a real control plane does not.
func outage(component string, down time.Duration) error {
	if err := stack("kill", component); err != nil {
		return err
	}
	pause(down)
	return try(3*time.Minute, func() error {
		if err := stack("start", component); err != nil {
			return err
		}
		pause(3 * time.Second)
		return running(component)
	})
}

// running is nil if the component runs.
func running(component string) error {
	out, err := exec.Command("localstack", "--state", state, "status").Output()
	for line := range strings.Lines(string(out)) { // it fails where any other component is down
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == component && fields[len(fields)-1] == "running" {
			return nil
		}
	}
	return fmt.Errorf("%s does not run: %w", component, errors.Join(err, errors.New(string(out))))
}

// freeze stops a component's clock for a while.
func freeze(component string, d time.Duration) error {
	if err := stack("pause", component); err != nil {
		return err
	}
	pause(d)
	return stack("resume", component)
}

// proxy is toxiproxy between the API server and the node: every exec and every log goes through it.
type proxy struct {
	command *exec.Cmd
	api     string
}

const proxyName = "node"

// startProxy puts the proxy where the node object says that the node is, before the port on which it really is.
func startProxy() (*proxy, error) {
	front, back, err := nodePorts()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(freeAddress())
	if err != nil {
		return nil, err
	}
	p := &proxy{api: "http://" + net.JoinHostPort(host, port)}
	log, err := os.OpenFile(filepath.Join(state, "logs", "fault-toxiproxy.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.command = exec.Command("toxiproxy", "-host", host, "-port", port)
	p.command.Stdout, p.command.Stderr = log, log
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start toxiproxy: %w: run these tests with make fault, which builds it", err)
	}
	return p, try(20*time.Second, func() error {
		return p.call(http.MethodPost, "/populate", []map[string]any{{
			"name": proxyName, "listen": fmt.Sprintf("127.0.0.1:%d", front), "upstream": fmt.Sprintf("127.0.0.1:%d", back), "enabled": true,
		}})
	})
}

// nodePorts are the port that the API server is told, and the one that the node listens on.
func nodePorts() (front, back int, err error) {
	var config struct {
		Ports struct {
			Node int `json:"node"`
		} `json:"ports"`
	}
	raw, err := os.ReadFile(filepath.Join(state, "run", "config.json"))
	if err != nil {
		return 0, 0, err
	}
	if err := json.Unmarshal(raw, &config); err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) //nolint:forbidigo // TestMain has no test whose context could be used
	defer cancel()
	node := &corev1.Node{}
	if err := cluster.Get(ctx, kube.ObjectKey{Name: "local"}, node); err != nil {
		return 0, 0, err
	}
	front = int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if front == config.Ports.Node {
		return 0, 0, fmt.Errorf("no proxy is before the node: start the stack with TEST_NODE_PROXY=1, as make fault does")
	}
	return front, config.Ports.Node, nil
}

func (p *proxy) stop() error {
	if err := p.command.Process.Kill(); err != nil {
		return err
	}
	_ = p.command.Wait() // it was killed
	return nil
}

func (p *proxy) call(method, path string, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	u, err := url.JoinPath(p.api, path)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(method, u, bytes.NewReader(raw)) //nolint:noctx // a loopback call with the client's limit
	if err != nil {
		return err
	}
	// A toxic is gone once every stream has passed on what it holds.
	response, err := (&http.Client{Timeout: time.Minute}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 512)) // what it says is for people
		return fmt.Errorf("toxiproxy %s %s: %s: %s", method, path, response.Status, strings.TrimSpace(string(said)))
	}
	return nil
}

func (p *proxy) enable(on bool) error {
	return p.call(http.MethodPost, "/proxies/"+proxyName, map[string]any{"enabled": on})
}

// heal takes every toxic away and lets connections through.
func (p *proxy) heal() error { return p.call(http.MethodPost, "/reset", map[string]any{}) }

// cut breaks every stream and refuses new ones for a while.
func (p *proxy) cut(d time.Duration) error {
	if err := p.enable(false); err != nil {
		return err
	}
	pause(d)
	return p.enable(true)
}

// poison adds a toxic to what the node says for a while.
func (p *proxy) poison(kind string, attributes map[string]any, d time.Duration) error {
	name := fmt.Sprintf("%s-%d", kind, time.Now().UnixNano())
	err := p.call(http.MethodPost, "/proxies/"+proxyName+"/toxics", map[string]any{
		"name": name, "type": kind, "stream": "downstream", "toxicity": 1.0, "attributes": attributes,
	})
	if err != nil {
		return err
	}
	pause(d)
	return p.call(http.MethodDelete, "/proxies/"+proxyName+"/toxics/"+name, nil)
}
