package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/sitejob"
	"github.com/drupdate/drupdate/internal/update"
)

// logPoll is how often a Job, or its pod, is looked for that is not there yet.
const logPoll = time.Second

func logsCommand(cfg Config) *cobra.Command {
	s := newSession(cfg)
	var l logReader
	c := &cobra.Command{
		Use:   "logs SITE",
		Short: "Show what the database operation prints, and go on as it does",
		Long: "Show the log of the newest operation of a site, which is a Job: update, restore, lift, install, preflight, backup or rewind. It follows until the Job ends,\n" +
			"and waits for one while a run is open. Jobs and their logs stay for three days.",
		Args:              exactly("SITE"),
		ValidArgsFunction: s.completeSites,
	}
	s.clusterFlags(c)
	c.Flags().StringVar(&l.operation, "operation", "", "only operations of this kind: update, restore, lift, install, preflight, backup or rewind")
	c.Flags().BoolVarP(&l.follow, "follow", "f", true, "go on until the operation ends; --follow=false shows what there is")
	s.complete(c, "operation", func(context.Context) []string { return operations })
	c.RunE = s.does(func(ctx context.Context, args []string) error {
		if l.operation != "" && !slices.Contains(operations, l.operation) {
			return Usage(fmt.Errorf("--operation is one of %s, not %q", strings.Join(operations, ", "), l.operation))
		}
		return s.logs(ctx, args[0], l)
	})
	return c
}

var operations = []string{
	string(update.OperationUpdate), string(update.OperationRestore), string(update.OperationLift), string(update.OperationInstall),
	string(update.OperationPreflight), string(update.OperationBackup), string(update.OperationRewind),
}

// logReader reads the log of one operation.
type logReader struct {
	operation string
	follow    bool

	client kube.Client
	core   kubernetes.Interface
	site   *v1alpha1.DrupalSite
}

func (s *session) logs(ctx context.Context, name string, l logReader) error {
	config, err := s.restConfig()
	if err != nil {
		return err
	}
	if l.client, err = s.kube(); err != nil {
		return err
	}
	if l.core, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if l.site, err = s.site(ctx, l.client, name); err != nil {
		return err
	}
	job, err := s.job(ctx, &l)
	if err != nil {
		return err
	}
	kind := job.Labels[sitejob.LabelOperation]
	s.note("operation %s, job/%s, begun %s ago", kind, job.Name, age(s.now().Sub(job.CreationTimestamp.Time)))
	pod, err := s.pod(ctx, &l, job)
	if err != nil {
		return err
	}
	if err := l.copy(ctx, s.out, pod); err != nil {
		return err
	}
	return s.verdictOf(ctx, &l, job)
}

// note is a line beside the log, which is left alone for other programs.
func (s *session) note(format string, args ...any) {
	_, _ = fmt.Fprintf(s.cmd.ErrOrStderr(), format+"\n", args...) // Nobody is left to be told.
}

// job is the operation's Job; while a run is open it is waited for.
func (s *session) job(ctx context.Context, l *logReader) (*batchv1.Job, error) {
	said := false
	for {
		job, err := l.newest(ctx)
		if job != nil || err != nil {
			return job, err
		}
		site, err := s.site(ctx, l.client, l.site.Name)
		if err != nil {
			return nil, err
		}
		if !l.follow || !site.InProgress() {
			return nil, fmt.Errorf("there is no Job of an operation of %s/%s: they go three days after their end", site.Namespace, site.Name)
		}
		if !said {
			said = true
			s.note("%s; no operation has begun yet", judge(site).state)
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// newest is the newest Job of the site; while a run is open one of that run, so that nobody reads an old log for a new one.
func (l *logReader) newest(ctx context.Context) (*batchv1.Job, error) {
	labels := kube.MatchingLabels{sitejob.LabelSite: l.site.Name}
	if l.operation != "" {
		labels[sitejob.LabelOperation] = l.operation
	}
	var jobs batchv1.JobList
	if err := l.client.List(ctx, &jobs, kube.InNamespace(l.site.Namespace), labels, kube.HasLabels{sitejob.LabelOperation}); err != nil {
		return nil, err
	}
	var found *batchv1.Job
	for i := range jobs.Items {
		j := &jobs.Items[i]
		if l.isOld(j) {
			continue
		}
		if found == nil || found.CreationTimestamp.Before(&j.CreationTimestamp) {
			found = j
		}
	}
	return found, nil
}

// isOld tells whether a Job is of a run before the one that is followed, which has begun no operation yet.
func (l *logReader) isOld(job *batchv1.Job) bool {
	run := l.site.Status.Run
	return l.follow && l.site.InProgress() && run != nil && run.StartedAt != nil && run.Operation == "" &&
		job.CreationTimestamp.Before(run.StartedAt)
}

// pod is the Job's pod, as soon as its container has a log.
func (s *session) pod(ctx context.Context, l *logReader, job *batchv1.Job) (*corev1.Pod, error) {
	said := ""
	for {
		var pods corev1.PodList
		if err := l.client.List(ctx, &pods, kube.InNamespace(job.Namespace), kube.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
			return nil, err
		}
		why := "its pod is not there yet"
		for i := range pods.Items {
			if pods.Items[i].Status.Phase != corev1.PodPending {
				return &pods.Items[i], nil
			}
			why = waitsFor(&pods.Items[i])
		}
		if !l.follow || finished(job) {
			return nil, fmt.Errorf("job/%s has no log: %s", job.Name, why)
		}
		if said != why {
			said = why
			s.note("waiting: %s", why)
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
		if err := l.client.Get(ctx, kube.ObjectKeyFromObject(job), job); err != nil {
			return nil, err
		}
	}
}

// waitsFor is why a pod has not started.
func waitsFor(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Reason != "" {
			return clean(w.Reason + " " + w.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return clean(c.Message)
		}
	}
	return "its pod is starting"
}

// copy writes the pod's log. A stream that breaks off is taken up again after the last line, for as long as the pod runs.
func (l *logReader) copy(ctx context.Context, out io.Writer, pod *corev1.Pod) error {
	var last time.Time
	for {
		options := &corev1.PodLogOptions{Container: pod.Spec.Containers[0].Name, Follow: l.follow, Timestamps: true}
		if !last.IsZero() {
			options.SinceTime = &metav1.Time{Time: last}
		}
		stream, err := l.core.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
		if err != nil {
			return err
		}
		broken := copyLines(out, stream, &last)
		_ = stream.Close() // it was only read
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := l.client.Get(ctx, kube.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if !l.follow || (broken == nil && pod.Status.Phase != corev1.PodRunning) {
			return broken
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// copyLines writes lines without their time stamps, and none again that was written already.
func copyLines(out io.Writer, in io.Reader, last *time.Time) error {
	lines := bufio.NewReader(in)
	before := *last
	for {
		line, err := lines.ReadString('\n')
		if stamp, rest, ok := cutStamp(line); ok && stamp.After(before) {
			*last = stamp
			if _, err := io.WriteString(out, rest); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func cutStamp(line string) (time.Time, string, bool) {
	for i := range line {
		if line[i] != ' ' {
			continue
		}
		stamp, err := time.Parse(time.RFC3339Nano, line[:i])
		return stamp, line[i+1:], err == nil
	}
	return time.Time{}, "", false
}

// verdictOf says how the operation ended; one that failed fails the command.
func (s *session) verdictOf(ctx context.Context, l *logReader, job *batchv1.Job) error {
	for {
		if err := l.client.Get(ctx, kube.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		for _, c := range job.Status.Conditions {
			if c.Status != corev1.ConditionTrue {
				continue
			}
			switch c.Type {
			case batchv1.JobComplete:
				s.note("job/%s has ended well", job.Name)
				return nil
			case batchv1.JobFailed:
				return fmt.Errorf("job/%s failed", job.Name)
			default:
			}
		}
		if !l.follow {
			return nil
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func finished(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed)
	})
}

// pause waits a moment, or until the context ends.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return errors.New("interrupted")
	case <-time.After(logPoll):
		return nil
	}
}
