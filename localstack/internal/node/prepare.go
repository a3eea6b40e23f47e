package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drupdate/drupdate/localstack/internal/container"
)

// databases is where a container finds the databases of the simulated sites.
const databases = "/run/simsite"

// retryConfig is how long to wait for a missing Secret or ConfigMap.
const retryConfig = time.Second

// prepare finds everything the container needs, trying until it is there. It
// reports false when the container is to stop instead.
func (c *ctr) prepare() (container.Spec, bool) {
	img, ok := c.pull()
	if !ok {
		return container.Spec{}, false
	}
	for {
		spec, err := c.assemble(c.ctx, img)
		if err == nil {
			return spec, c.ctx.Err() == nil
		}
		if c.ctx.Err() != nil {
			return container.Spec{}, false
		}
		c.waits(reasonConfigError, err.Error())
		c.pod.warn("Failed", "Error: "+err.Error())
		if !c.sleep(retryConfig) {
			return container.Spec{}, false
		}
	}
}

// pull finds the image, with the waits and the words of a kubelet while it is
// not there.
func (c *ctr) pull() (image, bool) {
	var wait backoff
	for {
		img, err := c.pod.node.images.find(c.ctx, c.spec.Image)
		if err == nil {
			c.pod.mu.Lock()
			c.status.ImageID = img.id
			c.pod.mu.Unlock()
			c.pod.note("Pulled", fmt.Sprintf("Container image %q already present on machine", c.spec.Image))
			return img, true
		}
		if c.ctx.Err() != nil {
			return image{}, false
		}
		delay := wait.next(0)
		if errors.Is(err, errImageName) {
			c.waits(reasonBadImage, fmt.Sprintf("Failed to apply default image tag %q: couldn't parse image name: %v", c.spec.Image, err))
			c.pod.warn("InspectFailed", err.Error())
			if !c.sleep(delay) {
				return image{}, false
			}
			continue
		}
		c.waits(reasonPullError, err.Error())
		c.pod.warn("Failed", fmt.Sprintf("Failed to pull image %q: %v", c.spec.Image, err))
		if !c.sleep(delay / 2) {
			return image{}, false
		}
		c.waits(reasonPullBackoff, fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %v", c.spec.Image, err))
		c.pod.note("BackOff", fmt.Sprintf("Back-off pulling image %q", c.spec.Image))
		if !c.sleep(delay) {
			return image{}, false
		}
	}
}

// assemble makes the spec of the process: environment, command and mounts.
func (c *ctr) assemble(ctx context.Context, img image) (container.Spec, error) {
	r := c.pod.resolver()
	env, err := environment(ctx, r.client, r.pod, c.spec, c.base(img))
	if err != nil {
		return container.Spec{}, err
	}
	c.pod.mu.Lock()
	paths := maps.Clone(c.pod.volumes)
	c.pod.mu.Unlock()
	volumes, err := mounts(c.spec, paths, env)
	if err != nil {
		return container.Spec{}, err
	}
	spec := container.Spec{
		Root: filepath.Join(c.dir, "rootfs"), Hostname: hostname(r.pod), Dir: c.spec.WorkingDir,
		Args: expand(command(img, c.spec), env), Env: pairs(env),
		Mounts: append(c.standardMounts(img), volumes...),
	}
	if os.Getuid() == 0 {
		spec.UID, spec.GID = user(r.pod.Spec.SecurityContext, c.spec.SecurityContext)
	}
	return spec, nil
}

// base is the environment before the pod's own: what the image sets, and what
// a program needs to know about where it runs.
func (c *ctr) base(img image) map[string]string {
	env := map[string]string{"HOME": "/root", "HOSTNAME": c.pod.name, "POD_IP": c.pod.ip}
	if api, err := url.Parse(c.pod.node.config.Server); err == nil {
		if host, port, err := net.SplitHostPort(api.Host); err == nil {
			env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"] = host, port
		}
	}
	for _, pair := range img.env {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = expand([]string{value}, env)[0]
	}
	return env
}

func (c *ctr) standardMounts(img image) []container.Mount {
	words := c.spec.TerminationMessagePath
	if words == "" {
		words = corev1.TerminationMessagePathDefault
	}
	list := []container.Mount{
		{Source: c.wordsFile(), Target: words},
		{Source: c.pod.node.config.Databases, Target: databases},
	}
	if img.simsite {
		list = append(list, container.Mount{Source: c.pod.node.images.folder, Target: simsiteFolder, ReadOnly: true})
	}
	if img.program != "" {
		list = append(list, container.Mount{Source: img.program, Target: drupdateFile, ReadOnly: true})
	}
	return list
}

// command is what runs: the pod's words where it gives some, and the image's
// otherwise.
func command(img image, c corev1.Container) []string {
	switch {
	case len(c.Command) > 0:
		return append(append([]string{}, c.Command...), c.Args...)
	case len(c.Args) > 0:
		return append(append([]string{}, img.entrypoint...), c.Args...)
	default:
		return append(append([]string{}, img.entrypoint...), img.command...)
	}
}

// user is the user and the group that the pod asks for; nil is root.
func user(pod *corev1.PodSecurityContext, c *corev1.SecurityContext) (uid, gid *int64) {
	if pod != nil {
		uid, gid = pod.RunAsUser, pod.RunAsGroup
	}
	if c != nil && c.RunAsUser != nil {
		uid = c.RunAsUser
	}
	if c != nil && c.RunAsGroup != nil {
		gid = c.RunAsGroup
	}
	return uid, gid
}

func hostname(pod *corev1.Pod) string {
	if pod.Spec.Hostname != "" {
		return pod.Spec.Hostname
	}
	return pod.Name[:min(len(pod.Name), 63)]
}
