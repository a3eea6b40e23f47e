package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drupdate/drupdate/localstack/internal/container"
)

// probeClient follows no redirect and keeps no connection, so that a process
// that died is noticed. A kubelet does not check certificates either.
var probeClient = &http.Client{
	Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// check runs one check of a container; nil means that it went well.
func (c *ctr) check(ctx context.Context, h corev1.ProbeHandler) error {
	switch {
	case h.HTTPGet != nil:
		return c.checkHTTP(ctx, h.HTTPGet)
	case h.TCPSocket != nil:
		return c.checkTCP(ctx, h.TCPSocket)
	case h.Exec != nil:
		return c.checkExec(ctx, h.Exec.Command)
	default:
		return errors.New("this kind of probe is not supported by localstack")
	}
}

func (c *ctr) checkHTTP(ctx context.Context, get *corev1.HTTPGetAction) error {
	address, err := c.address(get.Host, get.Port)
	if err != nil {
		return err
	}
	scheme := strings.ToLower(string(get.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	path, query, _ := strings.Cut(get.Path, "?")
	target := url.URL{Scheme: scheme, Host: address, Path: path, RawQuery: query}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "kube-probe/localstack")
	for _, h := range get.HTTPHeaders {
		request.Header.Add(h.Name, h.Value)
		if strings.EqualFold(h.Name, "Host") {
			request.Host = h.Value
		}
	}
	response, err := probeClient.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("HTTP probe failed with statuscode: %d", response.StatusCode)
	}
	return nil
}

func (c *ctr) checkTCP(ctx context.Context, socket *corev1.TCPSocketAction) error {
	address, err := c.address(socket.Host, socket.Port)
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// address is where a probe connects: the pod, unless the probe names a host.
func (c *ctr) address(host string, port intstr.IntOrString) (string, error) {
	if host == "" {
		host = c.pod.ip
	}
	number := port.IntValue()
	if port.Type == intstr.String {
		for _, p := range c.spec.Ports {
			if p.Name == port.StrVal {
				number = int(p.ContainerPort)
			}
		}
	}
	if number <= 0 || number > 65535 {
		return "", fmt.Errorf("couldn't find port %q", port.String())
	}
	return net.JoinHostPort(host, strconv.Itoa(number)), nil
}

// checkExec runs a command in the container; a command that takes too long is
// ended.
func (c *ctr) checkExec(ctx context.Context, command []string) error {
	process, err := c.join(command, container.Streams{}, nil)
	if err != nil {
		return err
	}
	select {
	case <-process.Done():
	case <-ctx.Done():
		return errors.Join(ctx.Err(), process.Kill())
	}
	if process.Code() != 0 {
		return fmt.Errorf("command %q exited with %d", strings.Join(command, " "), process.Code())
	}
	return nil
}

// join starts a command inside the running container.
func (c *ctr) join(command []string, streams container.Streams, env []string) (*container.Process, error) {
	c.pod.mu.Lock()
	process, spec := c.process, c.running
	c.pod.mu.Unlock()
	if process == nil {
		return nil, fmt.Errorf("container not running (%s)", c.spec.Name)
	}
	spec.Args = command
	spec.Env = append(append([]string{}, spec.Env...), env...)
	if os.Getuid() == 0 {
		spec.Inside = process.ID.PID
	}
	joined, err := c.pod.node.runtime.Start(spec, streams)
	if err != nil {
		return nil, err
	}
	if spec.Inside == 0 { // without root the command is a container of its own, which has to end with this one.
		go func() {
			select {
			case <-process.Done():
				_ = joined.Kill() // it may have ended already, which is as good.
			case <-joined.Done():
			}
		}()
	}
	return joined, nil
}
