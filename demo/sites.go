package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

const (
	namespace  = "demo"
	repository = "registry.example/drupal"
	// first is the release that every site of the demo begins with.
	first = "10.3.1"
)

// player is one site of the demo: where it goes, and how it is announced to end.
type player struct {
	name, story, target string
	// phase and serving are the announced end; reason is that of the failure condition, empty where the update is to succeed.
	phase           update.Phase
	serving, reason string
	// view is what the table shows of it.
	view row
}

func cast() []*player {
	return []*player{
		{name: "good", story: "a good release", target: "10.3.2", phase: update.PhaseSucceeded, serving: "10.3.2"},
		{name: "database", story: "needs database updates", target: "10.3.6", phase: update.PhaseSucceeded, serving: "10.3.6"},
		{name: "no-image", story: "the image does not exist", target: "10.4.0-missing", phase: update.PhaseRolledBack, serving: first, reason: "ImagePullBackOff"},
		{name: "bad-cache", story: "cache:rebuild always fails", target: "10.4.0-cr-broken", phase: update.PhaseRolledBack, serving: first, reason: update.ReasonCacheRebuildFailed},
		{name: "bad-hook", story: "an update hook throws", target: "10.4.0-hook-exception", phase: update.PhaseRestored, serving: first, reason: update.ReasonRestored},
		{name: "hangs", story: "the new pod never serves", target: "10.4.0-hangs", phase: update.PhaseRolledBack, serving: first, reason: update.ReasonRolloutTimeout},
	}
}

// makeSites makes the sites anew, each with an installed database, and waits until they serve their first release.
func (s *stack) makeSites(ctx context.Context, players []*player) error {
	if err := s.emptyNamespace(ctx); err != nil {
		return err
	}
	fmt.Println("Making six sites, each with a database and an installed Drupal …")
	for _, p := range players {
		if err := s.makeSite(ctx, p); err != nil {
			return fmt.Errorf("make the site %q: %w", p.name, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for _, p := range players {
		if err := s.until(ctx, p, func(site *v1alpha1.DrupalSite) bool { return site.Status.Release.Serving == first }); err != nil {
			return fmt.Errorf("the site %q does not serve %s: %w", p.name, first, err)
		}
	}
	return nil
}

// labelDemo is on the namespace that a demo made: KUBECONFIG may name a cluster that has another one of that name.
const labelDemo = "drupdate.dev/demo"

// emptyNamespace deletes what an earlier demo left, and makes the namespace. One that no demo made is somebody's.
func (s *stack) emptyNamespace(ctx context.Context) error {
	ns := &corev1.Namespace{}
	err := s.kube.Get(ctx, client.ObjectKey{Name: namespace}, ns)
	if err == nil && ns.Labels[labelDemo] == "" {
		return fmt.Errorf("the cluster has a namespace %q that no demo made: delete or rename it, or unset KUBECONFIG for a cluster of the demo's own", namespace)
	}
	if err == nil {
		err = s.kube.Delete(ctx, ns)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the namespace %q of an earlier demo: %w", namespace, err)
	}
	return poll(ctx, time.Minute, func() error {
		fresh := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{labelDemo: "true"}}}
		return s.kube.Create(ctx, fresh)
	})
}

func (s *stack) makeSite(ctx context.Context, p *player) error {
	database := namespace + "-" + p.name
	for _, verb := range []string{"delete", "create"} {
		args := []string{"db", verb, database}
		if verb == "create" {
			args = append(args, "--password=demo-password", "--install")
		}
		command := exec.CommandContext(ctx, filepath.Join(s.state, "bin", "simsite"), args...)
		command.Env = append(os.Environ(), "SIMSITE_DIR="+filepath.Join(s.state, "databases"), "SIMSITE_RELEASE="+first)
		if out, err := command.CombinedOutput(); err != nil && verb == "create" {
			return fmt.Errorf("create the database %q: %w: %s", database, err, out)
		}
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.name + "-db"},
		StringData: map[string]string{
			"DB_DRIVER": "mysql", "DB_HOST": "127.0.0.1", "DB_NAME": database, "DB_USER": "drupal", "DB_PASSWORD": "demo-password",
		},
	}
	if err := s.kube.Create(ctx, secret); err != nil {
		return err
	}
	site := &v1alpha1.DrupalSite{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.name},
		Spec: v1alpha1.DrupalSiteSpec{
			Image: repository, Release: first,
			Database: &v1alpha1.DatabaseSpec{SecretName: secret.Name},
			Update: v1alpha1.UpdateSpec{
				RolloutTimeout: metav1.Duration{Duration: 25 * time.Second}, DatabaseTimeout: metav1.Duration{Duration: 2 * time.Minute},
			},
		},
	}
	return s.kube.Create(ctx, site)
}

func (s *stack) askForTargets(ctx context.Context, players []*player) error {
	for _, p := range players {
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"release":%q}}`, p.target))
		site := &v1alpha1.DrupalSite{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.name}}
		if err := s.kube.Patch(ctx, site, patch); err != nil {
			return fmt.Errorf("ask the site %q for %s: %w", p.name, p.target, err)
		}
	}
	return nil
}

func (s *stack) until(ctx context.Context, p *player, reached func(*v1alpha1.DrupalSite) bool) error {
	return poll(ctx, 3*time.Minute, func() error {
		site, err := s.site(ctx, p)
		if err != nil {
			return err
		}
		if !reached(site) {
			return fmt.Errorf("its phase is %q, its conditions are %s", phase(site), conditions(site))
		}
		return nil
	})
}

func (s *stack) site(ctx context.Context, p *player) (*v1alpha1.DrupalSite, error) {
	site := &v1alpha1.DrupalSite{}
	err := s.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: p.name}, site)
	return site, err
}

// answers asks a pod of the site over HTTP which release it runs.
func (s *stack) answers(ctx context.Context, p *player) (string, error) {
	pods := &corev1.PodList{}
	if err := s.kube.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelSite: p.name}); err != nil {
		return "", err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
			continue
		}
		address := net.JoinHostPort(pod.Status.PodIP, "8080")
		if code, _, err := get(ctx, "http://"+address+"/"); err != nil || code != http.StatusOK {
			return "", fmt.Errorf("the front page answers %d: %w", code, errors.Join(err))
		}
		_, release, err := get(ctx, "http://"+address+"/_simsite/release")
		return release, err
	}
	return "", errors.New("no pod runs")
}

func get(ctx context.Context, url string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 256))
	return response.StatusCode, strings.TrimSpace(string(body)), err
}

// poll calls until there is no error, and returns the last one when the time is up.
func poll(ctx context.Context, limit time.Duration, try func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := try()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(300 * time.Millisecond):
		}
	}
}
