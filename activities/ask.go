package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/drush"
	"github.com/drupdate/drupdate/internal/metrics"
	"github.com/drupdate/drupdate/internal/podexec"
	"github.com/drupdate/drupdate/internal/siteimage"
	"github.com/drupdate/drupdate/internal/update"
)

// How long one question may take. Drush answers in seconds; a cache rebuild of a large site in a minute or two.
const (
	statusTimeout  = time.Minute
	queryTimeout   = time.Minute
	pendingTimeout = 2 * time.Minute
	cacheTimeout   = 5 * time.Minute
)

// Exit codes of a shell that could not run a program.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// errIncomplete is an answer without its end. Questions may be repeated, so it is transient.
var errIncomplete = errors.New("the answer did not arrive whole")

// partner is the container that is asked, and how Drush is called there.
type partner struct {
	exec    Executor
	metrics Metrics
	clock   Clock
	drush   drush.Command
	request podexec.Request
	// waited is what is known of the site's silence.
	waited *silence
}

// partner chooses the container for a question, anew at each attempt: a running pod of the newest ReplicaSet, which
// must be of the question's release.
func (a *Activities) partner(ctx context.Context, q update.Question) (*partner, error) {
	waited := a.listen(ctx)
	site, err := a.site(ctx, q.Site)
	if err != nil {
		return nil, err
	}
	d, err := a.deployment(ctx, site)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return nil, waited.tooLong(ctx, errNoDeployment)
	}
	pods, set, err := a.podsToAsk(ctx, waited, site, d, q.Release)
	if err != nil {
		return nil, err
	}
	name := site.Spec.Runtime.Container
	pod, err := podexec.Choose(pods, podexec.Choice{Container: name, ReplicaSet: set.UID, AllowNotReady: q.AllowNotReady})
	switch {
	case errors.Is(err, podexec.ErrNoContainer):
		return nil, permanent(update.FailureContainerMissing, "find pods: %w", err)
	case err != nil:
		return nil, waited.tooLong(ctx, fmt.Errorf("find pods: %w", err))
	}
	return &partner{
		exec: a.exec, metrics: a.metrics, clock: a.clock, drush: drushOf(site), waited: waited,
		request: podexec.Request{Namespace: pod.Namespace, Pod: pod.Name, Container: name},
	}, nil
}

// podsToAsk are the pods of the newest ReplicaSet, which must be of the release, unless that is empty.
func (a *Activities) podsToAsk(ctx context.Context, waited *silence, site *v1alpha1.DrupalSite, d *appsv1.Deployment, release string,
) ([]corev1.Pod, *appsv1.ReplicaSet, error) {
	if release != "" {
		if err := carriesRelease(site, d, release); err != nil {
			return nil, nil, fmt.Errorf("find pods: %w", err)
		}
	}
	pods, set, err := podexec.PodsOfRelease(ctx, a.client, d)
	switch {
	case errors.Is(err, podexec.ErrNoReplicaSet):
		return nil, nil, waited.tooLong(ctx, fmt.Errorf("find pods: %w", err))
	case err != nil:
		return nil, nil, fmt.Errorf("find pods: %w", err)
	case release != "" && !siteimage.Carries(site, &set.Spec.Template, release):
		return nil, nil, waited.tooLong(ctx, fmt.Errorf("find pods: the Deployment has no ReplicaSet of %s yet", release))
	}
	return pods, set, nil
}

// carriesRelease is an error where the Deployment's own pod template is of another release than the one that was rolled out.
func carriesRelease(site *v1alpha1.DrupalSite, d *appsv1.Deployment, release string) error {
	if siteimage.Carries(site, &d.Spec.Template, release) {
		return nil
	}
	return permanent(update.FailureReplaced, "the Deployment was made anew, or given another image than that of %s", release)
}

func drushOf(site *v1alpha1.DrupalSite) drush.Command {
	return drush.Command{Prefix: site.Spec.Runtime.Drush, URI: site.Spec.Runtime.URI, Root: site.Spec.Runtime.Root}
}

// ask asks one question and heartbeats meanwhile. The answer is complete: one that is not is a transient error.
func (p *partner) ask(ctx context.Context, what string, argv []string, timeout time.Duration) (drush.Result, error) {
	defer p.waited.beat(ctx, what)()
	result, err := p.run(ctx, what, argv, timeout)
	switch {
	case errors.Is(err, podexec.ErrNoShell):
		return result, permanent(update.FailureDrushMissing, "%s: the container %q has no shell", what, p.request.Container)
	case err != nil:
		return result, p.waited.tooLong(ctx, fmt.Errorf("%s: %w", what, err))
	case !result.Complete:
		return result, p.waited.tooLong(ctx, fmt.Errorf("%s: %w: %s", what, errIncomplete, result.Note))
	}
	return result, nil
}

// run runs one command, times it, and makes it a span of the activity's trace, if there is one.
func (p *partner) run(ctx context.Context, what string, argv []string, timeout time.Duration) (drush.Result, error) {
	ctx, span := trace.SpanFromContext(ctx).TracerProvider().Tracer(tracerName).Start(ctx, what)
	defer span.End()
	r := p.request
	r.Argv, r.Timeout = argv, timeout
	began := p.clock.Now()
	result, err := p.exec.Run(ctx, r)
	if ctx.Err() != nil {
		return result, err // It was cut short: its time says nothing about Drush.
	}
	answered := metrics.Unknown
	if err == nil && result.Complete {
		answered = metrics.Succeeded
		if result.ExitCode != 0 {
			answered = metrics.Failed
		}
	}
	span.SetAttributes(attribute.String("drupdate.result", answered))
	p.metrics.DrushAnswered(command(what), answered, p.clock.Now().Sub(began))
	return result, err
}

// command is the Drush command in what a question is called: its first word after drush.
func command(what string) string {
	words := strings.Fields(what)
	return words[min(1, len(words)-1)]
}

// tracerName is the scope of the activities' spans.
const tracerName = "github.com/drupdate/drupdate/activities"

// noDrush tells whether the shell could not run Drush at all.
func noDrush(r drush.Result) bool {
	return r.Complete && (r.ExitCode == exitNotFound || r.ExitCode == exitNotExecutable)
}

// drushMissing answers for a container without Drush.
func drushMissing(r drush.Result) update.Answer {
	return update.Answer{
		Outcome: update.Failed, Reason: update.FailureDrushMissing,
		Message: clean("Drush cannot be run: " + r.Reason()), Output: lastOutput(r),
	}
}

// lastOutput is the last line of output: of stderr, where Drush reports, else of stdout.
func lastOutput(r drush.Result) string {
	if line := drush.LastLine(r.Stderr); line != "" {
		return clean(line)
	}
	return clean(drush.LastLine(r.Stdout))
}

// outcomeOf is the contract's word for an outcome of package drush.
func outcomeOf(o drush.Outcome) update.Outcome {
	switch o {
	case drush.Succeeded:
		return update.Succeeded
	case drush.Failed:
		return update.Failed
	case drush.Unknown:
	}
	return update.Unknown
}
