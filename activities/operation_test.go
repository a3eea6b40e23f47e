package activities

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/sitejob"
	"github.com/drupdate/drupdate/internal/update"
)

// testRun is the run that Temporal's test environment gives every activity.
const testRun = "default-test-run-id"

func updateOperation() update.Operation {
	return update.Operation{
		Site: blog, Kind: update.OperationUpdate, RunID: testRun, Release: "2.0", From: "1.0", BackupName: "blog-1.0-r1", Timeout: time.Hour,
	}
}

var jobName = sitejob.Name("blog", testRun, "update")

func (w *world) job() *batchv1.Job {
	w.t.Helper()
	job := &batchv1.Job{}
	err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "sites", Name: jobName}, job)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(w.t, err)
	return job
}

// ends lets the Job end with the script's last words; none means that its pod left nothing.
func (w *world) ends(kind batchv1.JobConditionType, exit int32, words string) {
	w.t.Helper()
	w.endsJob(jobName, kind, exit, words)
}

func (w *world) endsJob(name string, kind batchv1.JobConditionType, exit int32, words string) {
	w.t.Helper()
	job := &batchv1.Job{}
	require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "sites", Name: name}, job))
	job.UID = "job-uid"
	require.NoError(w.t, w.client.Update(w.t.Context(), job))
	job.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue}}
	require.NoError(w.t, w.client.Status().Update(w.t.Context(), job))
	require.NoError(w.t, w.client.Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "sites", Name: name + "-x", Labels: map[string]string{batchv1.JobNameLabel: name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: types.UID("job-uid"), Controller: new(true)}},
		},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "drupal", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exit, Message: words}},
		}}},
	}))
}

const (
	wordsDone = `{"v":1,"operation":"update","ok":true,"step":"done","touched":true,"maintenance":"0","recorded":"0",` +
		`"backup":{"name":"blog-1.0-r1","bytes":7,"sha256":"aa","takenAt":"2026-05-04T12:00:00Z"},"updatedbExit":0,"pendingAfter":0,"error":"","note":""}`
	wordsUntouched = `{"v":1,"operation":"update","ok":false,"step":"backup","touched":false,"maintenance":"1","recorded":"0",` +
		`"backup":{"name":"","bytes":0,"sha256":"","takenAt":""},"updatedbExit":-1,"pendingAfter":-1,"error":"mysqldump: Got error: 1045","note":""}`
	wordsLeft = `{"v":1,"operation":"update","ok":false,"step":"updatedb","touched":true,"maintenance":"1","recorded":"0",` +
		`"backup":{"name":"","bytes":0,"sha256":"","takenAt":""},"updatedbExit":1,"pendingAfter":3,"error":"hook threw","note":""}`
	wordsKilled = `{"v":1,"operation":"update","ok":false,"step":"backup-running","touched":false,"maintenance":"1","recorded":"0",` +
		`"backup":{"name":"","bytes":0,"sha256":"","takenAt":""},"updatedbExit":-1,"pendingAfter":-1,"error":"","note":""}`
)

func TestRunOperationReadsTheVerdictFromTheAPI(t *testing.T) {
	t.Parallel()
	taken := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		end  func(*world)
		want update.OperationResult
	}{
		{"done", func(w *world) { w.ends(batchv1.JobComplete, 0, wordsDone) }, update.OperationResult{
			Outcome: update.Succeeded, Step: "done", Touched: true, Maintenance: "0", Recorded: "0",
			Backup: &update.Backup{Name: "blog-1.0-r1", Release: "1.0", Origin: "Update", TakenAt: taken, Bytes: 7, SHA256: "aa"},
		}},
		{"failed before anything changed", func(w *world) { w.ends(batchv1.JobFailed, 1, wordsUntouched) }, update.OperationResult{
			Outcome: update.Failed, Step: "backup", Maintenance: "1", Recorded: "0", Message: "backup: mysqldump: Got error: 1045",
		}},
		{"failed with updates left", func(w *world) { w.ends(batchv1.JobFailed, 1, wordsLeft) }, update.OperationResult{
			Outcome: update.Failed, Step: "updatedb", Touched: true, Maintenance: "1", Recorded: "0", Message: "updatedb: hook threw", Pending: 3,
		}},
		{"killed: whatever it said last is no proof", func(w *world) { w.ends(batchv1.JobFailed, 137, wordsKilled) }, update.OperationResult{
			Step: "backup-running", Touched: true, Maintenance: "1", Recorded: "0", Message: "the job was ended in step backup",
		}},
		{"ended without a word", func(w *world) { w.ends(batchv1.JobFailed, 137, "") }, update.OperationResult{
			Touched: true, Message: "the job has ended and its pod left no result; it was waiting for a pod",
		}},
		{"vanished", func(w *world) { require.NoError(w.t, w.client.Delete(w.t.Context(), w.job())) }, update.OperationResult{
			Touched: true, Message: "the job is gone; it was waiting for a pod",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testSite(), testDeployment("2.0"))
			w.clock.onWait = func(n int) {
				if n == 3 {
					c.end(w)
				}
			}
			c.want.Job = jobName
			got, err := do(w, update.RunOperation, updateOperation())
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestRunOperationTwiceIsOneJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite(), testDeployment("2.0"))
	creates := 0
	w.funcs.Create = func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		creates++
		require.NoError(t, c.Create(ctx, o, opts...))
		return apierrors.NewServiceUnavailable("the answer is lost")
	}
	_, err := do(w, update.RunOperation, updateOperation())
	requireFailure(t, err, "")
	w.funcs.Create = nil
	w.ends(batchv1.JobComplete, 0, wordsDone)
	require.Equal(t, update.Succeeded, twice(w, update.RunOperation, updateOperation()).Outcome)
	require.Equal(t, 1, creates)
}

func TestTheJobIsMadeFromTheLiveDeployment(t *testing.T) {
	t.Parallel()
	claim := func(name string, mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "sites", Name: name},
			Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{mode}},
		}
	}
	d := testDeployment("2.0")
	for _, name := range []string{"files", "shared"} {
		d.Spec.Template.Spec.Volumes = append(d.Spec.Template.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
		c := &d.Spec.Template.Spec.Containers[1]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	w := newWorld(t, testSite(), d, claim("files", corev1.ReadWriteOnce), claim("shared", corev1.ReadWriteMany))
	name, ended := sitejob.Name("blog", "another-run", "update"), false
	w.clock.onWait = func(int) {
		if !ended {
			w.endsJob(name, batchv1.JobComplete, 0, wordsDone)
		}
		ended = true
	}
	lost := updateOperation() // the operation of a lost run may have another image than the Deployment by now
	lost.Release, lost.RunID = "1.0", "another-run"
	_, err := do(w, update.RunOperation, lost)
	require.NoError(t, err)

	job := &batchv1.Job{}
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Namespace: "sites", Name: name}, job))
	require.Equal(t, []metav1.OwnerReference{{
		APIVersion: "drupdate.dev/v1alpha1", Kind: "DrupalSite", Name: "blog", UID: "site-uid", Controller: new(true),
	}}, job.OwnerReferences)
	require.Equal(t, int32(jobTTL/time.Second), *job.Spec.TTLSecondsAfterFinished)
	spec := job.Spec.Template.Spec
	require.Len(t, spec.Containers, 1)
	require.Equal(t, "registry.example/drupal:1.0", spec.Containers[0].Image)
	require.Contains(t, spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "drupdate-backups", MountPath: defaultBackupPath})
	require.NotNil(t, spec.Affinity.PodAffinity, "a volume that one node mounts keeps the Job there")
}

func TestAnOperationWithoutBackupNeedsNoClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite(), testDeployment("2.0"))
	operation := updateOperation()
	operation.Unsecured = true
	w.clock.onWait = func(n int) {
		if n == 1 {
			w.ends(batchv1.JobComplete, 0, wordsDone)
		}
	}
	_, err := do(w, update.RunOperation, operation)
	require.NoError(t, err)
	spec := w.job().Spec.Template.Spec
	for _, v := range spec.Volumes {
		require.Nil(t, v.PersistentVolumeClaim)
	}
	require.Contains(t, spec.Containers[0].Env, corev1.EnvVar{Name: "DRUPDATE_BACKUP_POLICY", Value: "Never"}, "whatever the spec says by now")
}

func TestRunOperationThatCannotBegin(t *testing.T) {
	t.Parallel()
	refuse := func(w *world) {
		w.funcs.Create = func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return apierrors.NewForbidden(batchv1.Resource("jobs"), jobName, errors.New("pod security"))
		}
	}
	must := updateOperation()
	must.MustExist = true
	lost := updateOperation()
	lost.RunID = "another-run"
	second := updateOperation()
	second.Kind, second.Source, second.Attempt = update.OperationRewind, "old", 2
	names := func(operation string) *v1alpha1.DrupalSite {
		return testSite(func(s *v1alpha1.DrupalSite) { s.Status.Run = &v1alpha1.RunStatus{RunID: "r", Operation: operation} })
	}
	for _, c := range []struct {
		name      string
		operation update.Operation
		objects   []client.Object
		prepare   func(*world)
		kind      string
		want      *update.OperationResult
	}{
		{"no site", updateOperation(), nil, nil, update.FailureSiteGone, nil},
		{"no Deployment yet", updateOperation(), []client.Object{testSite()}, nil, "", nil},
		{
			"a Job that must exist and does not", must,
			[]client.Object{testSite(), testDeployment("2.0")},
			nil, "",
			&update.OperationResult{Touched: true, Message: "the job is gone", Job: jobName},
		},
		{
			"refused before there ever was a Job: the database is as it was", updateOperation(),
			[]client.Object{testSite(), testDeployment("2.0")},
			refuse, "",
			&update.OperationResult{Outcome: update.Failed, Step: "parameters", Job: jobName, Message: `create Job "` + jobName + `": jobs.batch "` + jobName + `" is forbidden: pod security`},
		},
		{
			"a Deployment that was made anew with another release", updateOperation(),
			[]client.Object{testSite(), testDeployment("1.0")},
			nil, update.FailureReplaced, nil,
		},
		{"refused after the Job of an attempt before it was lost: nobody knows", second, []client.Object{testSite(), testDeployment("2.0")}, refuse, update.FailureForbidden, nil},
		{"asked for by a run that another one has followed", updateOperation(), []client.Object{names("another"), testDeployment("2.0")}, nil, update.FailureOperationOpen, nil},
		{"asked for by a run whose operation is settled", updateOperation(), []client.Object{names(""), testDeployment("2.0")}, nil, update.FailureOperationOpen, nil},
		{
			"asked for by the run that the site waits for", updateOperation(),
			[]client.Object{names(testRun), testDeployment("2.0")},
			refuse, "",
			&update.OperationResult{Outcome: update.Failed, Step: "parameters", Job: jobName, Message: `create Job "` + jobName + `": jobs.batch "` + jobName + `" is forbidden: pod security`},
		},
		{"refused in the name of a lost run: nobody knows", lost, []client.Object{testSite(), testDeployment("2.0")}, refuse, update.FailureForbidden, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.objects...)
			if c.prepare != nil {
				c.prepare(w)
			}
			got, err := do(w, update.RunOperation, c.operation)
			if c.want == nil {
				requireFailure(t, err, c.kind)
				return
			}
			require.NoError(t, err)
			require.Equal(t, *c.want, got)
		})
	}
}

func TestAJobThatAQuotaRefusesIsWaitedForInTheOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite(), testDeployment("2.0"))
	_, err := do(w, update.WriteReport, update.Report{Site: blog, RunID: "r1", Phase: update.PhaseUpdatingDatabase, Message: "Updating the database.", Operation: new(testRun)})
	require.NoError(t, err)
	w.funcs.Create = func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if _, job := o.(*batchv1.Job); job {
			return apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, o.GetName(), errors.New("exceeded quota: small"))
		}
		return c.Create(ctx, o, opts...)
	}
	_, err = do(w, update.RunOperation, updateOperation())
	requireFailure(t, err, "")
	updating := func() metav1.Condition {
		return *apimeta.FindStatusCondition(w.site().Status.Conditions, v1alpha1.ConditionUpdating)
	}
	require.Equal(t, "UpdatingDatabase", updating().Reason)
	require.Contains(t, updating().Message, "Updating the database. Waiting: create Job")
	require.Contains(t, updating().Message, "exceeded quota: small")

	w.writes = 0
	_, err = do(w, update.RunOperation, updateOperation())
	requireFailure(t, err, "")
	require.Equal(t, 1, w.writes, "only the Job is asked for again")

	w.funcs.Create = func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if job, ok := o.(*batchv1.Job); ok {
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
		}
		return c.Create(ctx, o, opts...)
	}
	_, err = do(w, update.RunOperation, updateOperation())
	require.NoError(t, err)
	require.Equal(t, "Updating the database.", updating().Message)
}

func TestARepeatedOperationHasAJobOfItsOwn(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, attempt := range []int{0, 1, 2, 3} {
		names[jobStep(update.Operation{Kind: update.OperationRestore, Attempt: attempt})] = true
	}
	require.Equal(t, map[string]bool{"restore": true, "restore-2": true, "restore-3": true}, names)
}

func TestAVolumeForOnePodOnlyKeepsTheDatabaseAsItIs(t *testing.T) {
	t.Parallel()
	d := testDeployment("2.0")
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "files", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "files"},
	}}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "sites", Name: "files"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	got, err := do(newWorld(t, testSite(), d, claim), update.RunOperation, updateOperation())
	require.NoError(t, err)
	require.Equal(t, update.Failed, got.Outcome)
	require.False(t, got.Touched)
	require.Contains(t, got.Message, `the volume "files" is for one pod only (ReadWriteOncePod)`)
}

func TestTheHeartbeatSaysWhatHoldsThePod(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "sites", Name: "p", UID: "p", OwnerReferences: []metav1.OwnerReference{owner("Job", "j", "j")}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "sites", Name: "e"}, InvolvedObject: corev1.ObjectReference{UID: "p"},
		Reason: "FailedScheduling", Message: "insufficient memory",
	}
	w := newWorld(t, pod, event)
	a := New(Deps{Client: w.client, Clock: w.clock})
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "sites", Name: "j", UID: "j"}}
	text := a.jobText(t.Context(), job, []corev1.Pod{*pod})
	require.True(t, strings.HasSuffix(text, "; FailedScheduling: insufficient memory"), text)
}

const (
	preflightDone = `{"v":1,"operation":"preflight","ok":true,"step":"done","touched":false,"maintenance":"unknown","recorded":"",` +
		`"backup":{"name":"b","bytes":0,"sha256":"","takenAt":""},"updatedbExit":-1,"pendingAfter":2,"error":"","note":"a_update_1, b_update_2"}`
	preflightFailed = `{"v":1,"operation":"preflight","ok":false,"step":"preflight","touched":false,"maintenance":"unknown","recorded":"",` +
		`"backup":{"name":"b","bytes":0,"sha256":"","takenAt":""},"updatedbExit":-1,"pendingAfter":-1,"error":"Drupal does not bootstrap","note":""}`
)

func TestAPreflightTellsWhatDrushSaid(t *testing.T) {
	t.Parallel()
	name := sitejob.Name("blog", testRun, "preflight")
	waits := func(w *world, reason string) {
		job := &batchv1.Job{}
		require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "sites", Name: name}, job))
		require.NoError(w.t, w.client.Create(w.t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "sites", Name: name + "-x", Labels: map[string]string{batchv1.JobNameLabel: name},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: job.UID, Controller: new(true)}},
			},
			Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
				Name: "drupal", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
			}}},
		}))
	}
	for _, c := range []struct {
		name string
		end  func(*world)
		want update.OperationResult
	}{
		{"passed", func(w *world) { w.endsJob(name, batchv1.JobComplete, 0, preflightDone) }, update.OperationResult{
			Outcome: update.Succeeded, Step: "done", Message: "a_update_1, b_update_2", Pending: 2, Job: name,
		}},
		{"failed", func(w *world) { w.endsJob(name, batchv1.JobFailed, 1, preflightFailed) }, update.OperationResult{
			Outcome: update.Failed, Step: "preflight", Message: "preflight: Drupal does not bootstrap", Job: name,
		}},
		{"an image that cannot be pulled is an answer", func(w *world) { waits(w, "ImagePullBackOff") }, update.OperationResult{
			Outcome: update.Failed, Step: "preflight", Message: "waiting: ImagePullBackOff", Job: name,
		}},
		{"vanished: nobody knows", func(w *world) {
			require.NoError(w.t, w.client.Delete(w.t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "sites", Name: name}}))
		}, update.OperationResult{Touched: true, Message: "the job is gone; it was waiting for a pod", Job: name}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testSite(), testDeployment("1.0"))
			w.clock.onWait = func(n int) {
				if n == 3 {
					c.end(w)
				}
			}
			got, err := do(w, update.RunOperation, update.Operation{
				Site: blog, Kind: update.OperationPreflight, RunID: testRun, Release: "2.0", From: "1.0", Timeout: 10 * time.Minute,
			})
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			job := &batchv1.Job{}
			if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "sites", Name: name}, job); apierrors.IsNotFound(err) {
				return
			}
			require.Equal(t, "registry.example/drupal:2.0", job.Spec.Template.Spec.Containers[0].Image, "the target's image, beside pods of another")
			for _, v := range job.Spec.Template.Spec.Volumes {
				require.Nil(t, v.PersistentVolumeClaim, "no backups are mounted")
			}
		})
	}
}

// The workflows may not import the package of the script.
func TestTheStepsThatWorkflowsKnowAreTheScripts(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		sitejob.StepPreflight, sitejob.StepMaintenance, sitejob.StepBackup, sitejob.StepRestore, sitejob.StepVerify, sitejob.StepLift,
		sitejob.StepNothingToRestore, sitejob.StepNothingRecorded, sitejob.StepTooLate, sitejob.StepParameters, sitejob.StepAlreadyStarted,
	}, []string{
		update.StepPreflight, update.StepMaintenance, update.StepBackup, update.StepRestore, update.StepVerify, update.StepLift,
		update.StepNothingToRestore, update.StepNothingRecorded, update.StepTooLate, update.StepParameters, update.StepAlreadyStarted,
	})
}
