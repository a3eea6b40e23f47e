package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

func updateCommand(cfg Config) *cobra.Command {
	s := newSession(cfg)
	var to string
	var retry bool
	var wait patience
	c := &cobra.Command{
		Use:   "update SITE --to RELEASE",
		Short: "Ask for a release",
		Long: "Ask for a release: an image tag or a digest (sha256:…). This writes spec.release; the watcher does the rest.\n\n" +
			"A release that failed on the site is not tried again unless --retry says so, and neither is any on a site that needs a person.",
		Args:              exactly("SITE"),
		ValidArgsFunction: s.completeSites,
	}
	s.clusterFlags(c)
	c.Flags().StringVar(&to, "to", "", "the release (required)")
	c.Flags().BoolVar(&retry, "retry", false, "ask for another attempt too: the release failed before, or a mended site is in order again")
	wait.flags(c, "the update has ended")
	s.complete(c, "to", s.releases)
	c.RunE = s.does(func(ctx context.Context, args []string) error {
		if to == "" {
			return Usage(fmt.Errorf("%s needs --to RELEASE: see %s --help", words(c), c.CommandPath()))
		}
		return s.update(ctx, args[0], to, retry, wait)
	})
	return c
}

func (s *session) update(ctx context.Context, name, to string, retry bool, wait patience) error {
	c, site, err := s.open(ctx, name)
	if err != nil {
		return err
	}
	if !retry {
		if err := s.refuse(site, to); err != nil {
			return err
		}
	}
	body := map[string]any{"spec": map[string]any{"release": to}}
	if retry {
		body["metadata"] = annotation(v1alpha1.AnnotationRetry, s.wish())
	}
	if err := patch(ctx, c, site, body); err != nil {
		return err
	}
	s.asked(site, to)
	if !wait.wait {
		return nil
	}
	end, err := s.until(ctx, wait, kube.ObjectKeyFromObject(site), ended(site))
	if err != nil {
		return err
	}
	return s.outcome(end, to)
}

// refuse says what keeps the watcher from trying a release. Nothing is written then: it would only look as if it helped.
func (s *session) refuse(site *v1alpha1.DrupalSite, to string) error {
	if site.RetryAsked() {
		return nil
	}
	again := s.command(site, "update", "--to", to, "--retry")
	if v, found := personNeeded(site); found {
		return fmt.Errorf("%s/%s needs a person (%s); when it is in order: %s", site.Namespace, site.Name, v.state, again)
	}
	if site.Status.Release.Failed == to {
		return fmt.Errorf("%s failed on %s/%s and is not tried again by itself; to try it all the same: %s", short(to), site.Namespace, site.Name, again)
	}
	return nil
}

// asked says what was written and what comes of it. site is as it was after the write.
func (s *session) asked(site *v1alpha1.DrupalSite, to string) {
	name := site.Namespace + "/" + site.Name
	if site.Status.Release.Serving == to && !site.InProgress() && site.Status.Release.Failed == "" && !site.RetryAsked() {
		s.out.say("%s serves %s already.", name, short(to))
	} else {
		s.out.say("%s is asked to move from %s to %s.", name, short(site.Status.Release.Serving), short(to))
	}
	for _, obstacle := range s.obstacles(site) {
		s.out.say("%s %s", s.out.paint("·", yellow), obstacle)
	}
}

// obstacles are what an update waits for, and who may take the wish back.
func (s *session) obstacles(site *v1alpha1.DrupalSite) []string {
	var list []string
	if keeper := keptBy(site); keeper != "" {
		list = append(list, fmt.Sprintf("The resource is kept by %s, which will put spec.release back: change it at the source too.", keeper))
	}
	if site.InProgress() {
		return list
	}
	if site.Spec.Update.Paused {
		list = append(list, "Updates are paused: "+s.command(site, "resume"))
	}
	if w := site.Spec.Update.Window; w != nil {
		list = append(list, fmt.Sprintf("It starts in the window %s.", windowOf(w)))
	}
	if holds(site, v1alpha1.ConditionOrchestratorUnavailable) {
		list = append(list, "Temporal cannot be reached; it starts when that is back.")
	}
	return list
}

// keptBy names the GitOps controller that applies the site, by the marks that it leaves.
func keptBy(site *v1alpha1.DrupalSite) string {
	for _, mark := range []struct{ prefix, name string }{
		{"kustomize.toolkit.fluxcd.io/", "Flux"}, {"helm.toolkit.fluxcd.io/", "Flux"}, {"argocd.argoproj.io/", "Argo CD"},
	} {
		for _, marks := range []map[string]string{site.Labels, site.Annotations} {
			for key := range marks {
				if strings.HasPrefix(key, mark.prefix) {
					return mark.name
				}
			}
		}
	}
	return ""
}

// wish is a value of an annotation that is new.
func (s *session) wish() string { return s.now().UTC().Format("2006-01-02T15:04:05.000Z") }

func annotation(name, value string) map[string]any {
	return map[string]any{"annotations": map[string]any{name: value}}
}

// patch merges into a site, and only into the very one that was read.
func patch(ctx context.Context, c kube.Client, site *v1alpha1.DrupalSite, body map[string]any) error {
	meta, ok := body["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		body["metadata"] = meta
	}
	meta["uid"] = string(site.UID)
	raw, err := json.Marshal(body)
	if err != nil {
		return errors.Join(errors.New("encode the patch"), err)
	}
	return c.Patch(ctx, site, kube.RawPatch(types.MergePatchType, raw), kube.FieldOwner(fieldOwner))
}
