//go:build integration

package integration

import (
	"context"
	"strings"
	"testing"
	"time"
)

const site = `
apiVersion: v1
kind: Secret
metadata: {name: db}
stringData: {password: hunter2}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: files}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 5
      initContainers:
      - name: prepare
        image: registry.example/busybox:1
        command: [sh, -c, "echo prepared > /files/prepared"]
        volumeMounts: [{name: files, mountPath: /files}]
      containers:
      - name: web
        image: registry.example/drupal:10.3.1
        env:
        - {name: PASSWORD, valueFrom: {secretKeyRef: {name: db, key: password}}}
        - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1}
        volumeMounts:
        - {name: files, mountPath: /files}
        - {name: db, mountPath: /etc/site/db, readOnly: true}
      volumes:
      - {name: files, persistentVolumeClaim: {claimName: files}}
      - {name: db, secret: {secretName: db}}
`

func pod(name, container string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec: {containers: [" + container + "]}\n"
}

func TestDeployment(t *testing.T) {
	ns := namespace(t)
	must(t, site, "-n", ns, "apply", "-f", "-")
	must(t, "", "-n", ns, "rollout", "status", "deployment/web", "--timeout=60s")
	names := strings.Fields(must(t, "", "-n", ns, "get", "pods", "-l", "app=web", "-o", "name"))
	must(t, "", "-n", ns, "exec", names[0], "-c", "web", "--", "sh", "-c", "echo $PASSWORD-$POD > /files/shared")
	if got, want := must(t, "", "-n", ns, "exec", names[1], "-c", "web", "--", "cat", "/files/shared", "/files/prepared", "/etc/site/db/password"),
		"hunter2-"+strings.TrimPrefix(names[0], "pod/")+"\nprepared\nhunter2"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	if logs := must(t, "", "-n", ns, "logs", names[0], "-c", "web"); logs != "serving 10.3.1\n" {
		t.Fatalf("logs %q", logs)
	}
	must(t, "", "-n", ns, "set", "image", "deployment/web", "web=registry.example/drupal:10.3.2")
	must(t, "", "-n", ns, "rollout", "status", "deployment/web", "--timeout=60s")
	if got := must(t, "", "-n", ns, "exec", "deployment/web", "-c", "web", "--", "drush", "status"); got != "drush 10.3.2 status\n" {
		t.Fatalf("drush says %q", got)
	}
	must(t, "", "-n", ns, "delete", "deployment", "web")
	eventually(t, ns, "pods", "{.items}", `\[\]`)
}

func TestExec(t *testing.T) {
	ns := namespace(t)
	must(t, pod("box", `{name: box, image: "registry.example/busybox:1"}`), "-n", ns, "apply", "-f", "-")
	eventually(t, ns, "pod/box", "{.status.phase}", "Running")
	out, errOut, code := kubectl(t.Context(), "", "-n", ns, "exec", "box", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
	if out != "out\n" || !strings.HasPrefix(errOut, "err\n") || code != 7 {
		t.Fatalf("out %q, err %q, exit code %d", out, errOut, code)
	}
	if out := must(t, "words", "-n", ns, "exec", "-i", "box", "--", "cat"); out != "words" {
		t.Fatalf("cat gave back %q", out)
	}
	_, errOut, code = kubectl(t.Context(), "", "-n", ns, "exec", "box", "--", "nosuch")
	if code != 127 || !strings.Contains(errOut, `exec: "nosuch": executable file not found in $PATH`) {
		t.Fatalf("err %q, exit code %d", errOut, code)
	}
	must(t, "", "-n", ns, "delete", "pod", "box", "--grace-period=1")
}

func TestExecOutlivesItsClient(t *testing.T) {
	ns := namespace(t)
	must(t, pod("box", `{name: box, image: "registry.example/busybox:1"}`), "-n", ns, "apply", "-f", "-")
	eventually(t, ns, "pod/box", "{.status.phase}", "Running")
	client, leave := context.WithCancel(t.Context())
	defer leave()
	go kubectl(client, "", "-n", ns, "exec", "box", "--", "sh", "-c", "touch /tmp/begun; sleep 3; touch /tmp/ended")
	inside(t, ns, "/tmp/begun")
	leave()
	inside(t, ns, "/tmp/ended")
	must(t, "", "-n", ns, "delete", "pod", "box", "--grace-period=1")
}

// inside waits until a file is there in the pod "box".
func inside(t *testing.T, ns, file string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if _, _, code := kubectl(t.Context(), "", "-n", ns, "exec", "box", "--", "test", "-f", file); code == 0 {
			return
		}
	}
	t.Fatalf("%s did not appear", file)
}

func TestJob(t *testing.T) {
	ns := namespace(t)
	must(t, `
apiVersion: batch/v1
kind: Job
metadata: {name: fails}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: "registry.example/busybox:1", command: [sh, -c, "printf gone > /dev/termination-log; exit 9"]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: works}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: "registry.example/busybox:1", command: ["true"]}
`, "-n", ns, "apply", "-f", "-")
	eventually(t, ns, "job/works", "{.status.succeeded}", "1")
	eventually(t, ns, "job/fails", "{.status.failed}", "1")
	ended := "{.items[0].status.containerStatuses[0].state.terminated"
	if got := must(t, "", "-n", ns, "get", "pods", "-l", "job-name=fails", "-o",
		"jsonpath="+ended+".exitCode} "+ended+".message} "+ended+".reason} {.items[0].status.phase}"); got != "9 gone Error Failed" {
		t.Fatalf("got %q", got)
	}
}

func TestWaitingReasons(t *testing.T) {
	ns := namespace(t)
	for name, container := range map[string]string{
		"crash":  `{name: c, image: "registry.example/drupal:10.9.0", terminationMessagePolicy: FallbackToLogsOnError}`,
		"pull":   `{name: c, image: "registry.example/drupal:99"}`,
		"name":   `{name: c, image: "Not::Valid"}`,
		"secret": `{name: c, image: "registry.example/busybox:1", envFrom: [{secretRef: {name: later}}]}`,
	} {
		must(t, pod(name, container), "-n", ns, "apply", "-f", "-")
	}
	waiting := "{.status.containerStatuses[0].state.waiting.reason}"
	eventually(t, ns, "pod/crash", waiting, "CrashLoopBackOff")
	eventually(t, ns, "pod/crash", "{.status.containerStatuses[0].lastState.terminated.message}", "broken\n")
	eventually(t, ns, "pod/crash", "{.status.containerStatuses[0].restartCount}", "[2-9]")
	eventually(t, ns, "pod/pull", waiting, "ImagePullBackOff")
	eventually(t, ns, "pod/name", waiting, "InvalidImageName")
	eventually(t, ns, "pod/secret", waiting, "CreateContainerConfigError")
	must(t, "", "-n", ns, "create", "secret", "generic", "later", "--from-literal=A=b")
	eventually(t, ns, "pod/secret", "{.status.phase}", "Running")
	must(t, "", "-n", ns, "delete", "pod", "--all", "--grace-period=1")
}

func TestProbes(t *testing.T) {
	ns := namespace(t)
	must(t, pod("probed", `{name: c, image: "registry.example/busybox:1", command: [sh, -c, "touch /tmp/live /tmp/ready; sleep infinity"],
    livenessProbe: {exec: {command: [test, -f, /tmp/live]}, initialDelaySeconds: 2, periodSeconds: 1, failureThreshold: 1},
    readinessProbe: {exec: {command: [test, -f, /tmp/ready]}, periodSeconds: 1, failureThreshold: 1}}], terminationGracePeriodSeconds: 1, volumes: [`), "-n", ns, "apply", "-f", "-")
	ready := `{.status.conditions[?(@.type=="Ready")].status}`
	eventually(t, ns, "pod/probed", ready, "True")
	must(t, "", "-n", ns, "exec", "probed", "--", "rm", "/tmp/ready")
	eventually(t, ns, "pod/probed", ready, "False")
	must(t, "", "-n", ns, "exec", "probed", "--", "rm", "/tmp/live")
	eventually(t, ns, "pod/probed", "{.status.containerStatuses[0].restartCount}", "[1-9]")
	eventually(t, ns, "pod/probed", ready, "True")
}

func TestUpTwiceAndCrashOfTheNode(t *testing.T) {
	ns := namespace(t)
	must(t, pod("box", `{name: box, image: "registry.example/busybox:1"}`), "-n", ns, "apply", "-f", "-")
	eventually(t, ns, "pod/box", "{.status.phase}", "Running")
	if out, err := localstack("up"); err != nil || !strings.Contains(out, "already runs") {
		t.Fatalf("up says %q, error %v", out, err)
	}
	if out, err := localstack("kill", "node"); err != nil {
		t.Fatalf("kill says %q, error %v", out, err)
	}
	if _, err := localstack("status"); err == nil {
		t.Fatal("status is content without a node")
	}
	if out, err := localstack("up"); err != nil {
		t.Fatalf("up says %q, error %v", out, err)
	}
	eventually(t, ns, "pod/box", "{.status.containerStatuses[0].restartCount}", "[1-9]")
	eventually(t, ns, "pod/box", "{.status.phase}", "Running")
	must(t, "", "-n", ns, "delete", "pod", "box", "--grace-period=1")
}
