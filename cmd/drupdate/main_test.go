package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drupdate/drupdate/internal/cli"
)

func noEnv(string) (string, bool) { return "", false }

func TestVersionPrintsOneLine(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"version"}, noEnv, &out, &errs))
	require.Regexp(t, `^drupdate \S+ \(commit \S+, go\S+\)\n$`, out.String())
	require.Empty(t, errs.String())
}

func TestEveryProblemIsOneLineAndNothingElseIsPrinted(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"all", "--log-level=loud", "--metrics-addr=nowhere", "--kube-qps=0", "--watch-namespaces=Bad_Name"}, noEnv, &out, &errs)
	require.Equal(t, cli.ExitUsage, code)
	lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
	require.Len(t, lines, 4)
	for _, line := range lines {
		require.True(t, strings.HasPrefix(line, "drupdate: "), line)
	}
	require.Empty(t, out.String())
}

func TestFlagsWinOverEnvironmentOverDefaults(t *testing.T) {
	t.Parallel()
	env := map[string]string{"DRUPDATE_TASK_QUEUE": "from-env", "DRUPDATE_LOG_LEVEL": "debug", "DRUPDATE_WATCH_NAMESPACES": "a,b", "DRUPDATE_VERIFY_HTTP": "true"}
	var cfg config
	c := allCommand(noEnv)
	c.ResetFlags()
	cfg.commonFlags(c.Flags())
	cfg.watcherFlags(c.Flags())
	cfg.workerFlags(c.Flags())
	require.NoError(t, c.Flags().Parse([]string{"--task-queue=from-flag"}))
	require.NoError(t, cfg.load(c, func(name string) (string, bool) { v, ok := env[name]; return v, ok }))
	require.Equal(t, config{
		logLevel: "debug", logFormat: "json", taskQueue: "from-flag", metricsAddr: ":8080", healthAddr: ":8081",
		kubeQPS: 100, kubeBurst: 200, namespaces: []string{"a", "b"}, concurrency: 4, activities: 200, verifyHTTP: true,
	}, cfg)
}

func TestABadVariableIsNamed(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	env := func(name string) (string, bool) { return "many", name == "DRUPDATE_KUBE_BURST" }
	require.Equal(t, cli.ExitUsage, run(t.Context(), []string{"watcher"}, env, &out, &errs))
	require.Equal(t, "drupdate: DRUPDATE_KUBE_BURST: \"many\" is not valid for --kube-burst\n", errs.String())
}

func TestWhatIsNotUnderstoodIsOneSentenceAndExitCode2(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"stauts":                        `there is no command "stauts": perhaps status`,
		"frobnicate":                    `there is no command "frobnicate": drupdate --help lists them`,
		"update":                        `update needs SITE: see drupdate update --help`,
		"update blog":                   `update needs --to RELEASE: see drupdate update --help`,
		"update blog shop":              `update does not take "shop": see drupdate update --help`,
		"status -o xml":                 `--output is one of wide, json, yaml, not "xml"`,
		"status --frob":                 `unknown flag: --frob: see drupdate status --help`,
		"pause blog --only x":           `--only is run or updates, not "x"`,
		"backup take":                   `backup has no command "take": see drupdate backup --help`,
		"backup create":                 `backup create needs SITE: see drupdate backup create --help`,
		"backup restore blog":           `backup restore needs BACKUP: see drupdate backup restore --help`,
		"logs a --operation b":          `--operation is one of update, restore, lift, install, preflight, backup, rewind, not "b"`,
		"doctor --role boss":            `--role is person, watcher or worker, not "boss"`,
		"setup temporal --retention 1h": `--retention is at least 24h, not 1h0m0s`,
		"watcher here":                  `unknown command "here" for "drupdate watcher"`,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			require.Equal(t, cli.ExitUsage, run(t.Context(), strings.Fields(line), noEnv, &out, &errs))
			require.Equal(t, "drupdate: "+want+"\n", errs.String())
			require.Empty(t, out.String())
		})
	}
}

func TestKubectlFindsThePluginAndItsCompletions(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	require.Zero(t, runAs(t.Context(), "/usr/local/bin/kubectl-drupdate", []string{"status", "--help"}, noEnv, &out, &errs))
	require.Contains(t, out.String(), "kubectl drupdate status [SITE]")
	out.Reset()
	require.Zero(t, runAs(t.Context(), "kubectl_complete-drupdate", []string{"hist"}, noEnv, &out, &errs))
	require.Contains(t, out.String(), "history\t")
}

// The names are in manifests and in people's heads.
func TestTheFlagsOfTheServersKeepTheirNames(t *testing.T) {
	t.Parallel()
	root := newRoot(noEnv)
	for name, flags := range map[string]string{
		"watcher": "codec-keys concurrent-reconciles health-addr kube-burst kube-qps kubeconfig leader-elect leader-elect-namespace log-format log-level metrics-addr " +
			"otlp-endpoint task-queue temporal-api-key-file watch-namespaces",
		"worker": "build-id codec-keys concurrent-activities health-addr kube-burst kube-qps kubeconfig log-format log-level metrics-addr otlp-endpoint task-queue " +
			"temporal-api-key-file temporal-ui-url verify-http watch-namespaces webhook-secret-file webhook-url",
		"all": "build-id codec-keys concurrent-activities concurrent-reconciles health-addr kube-burst kube-qps kubeconfig leader-elect leader-elect-namespace " +
			"log-format log-level metrics-addr otlp-endpoint task-queue temporal-api-key-file temporal-ui-url verify-http watch-namespaces webhook-secret-file webhook-url",
	} {
		c, _, err := root.Find([]string{name})
		require.NoError(t, err)
		var have []string
		c.Flags().VisitAll(func(f *pflag.Flag) { have = append(have, f.Name) })
		require.Equal(t, flags, strings.Join(have, " "))
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	stopping, stop := context.WithCancel(t.Context())
	stop()
	broken := map[string]check{"worker": func(context.Context) error { return errors.New("not started") }}
	for name, c := range map[string]struct {
		process context.Context
		checks  map[string]check
		path    string
		code    int
		body    string
	}{
		"a process that lives is healthy":             {t.Context(), broken, "/healthz", http.StatusOK, "ok\n"},
		"a part that is not ready says why":           {t.Context(), broken, "/readyz", http.StatusServiceUnavailable, "worker: not started\n"},
		"a process without problems is ready":         {t.Context(), nil, "/readyz", http.StatusOK, "ok\n"},
		"a process that is told to stop is not ready": {stopping, nil, "/readyz", http.StatusServiceUnavailable, "stopping\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			healthHandler(c.process, c.checks).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.path, http.NoBody))
			require.Equal(t, c.code, w.Code)
			require.Equal(t, c.body, w.Body.String())
		})
	}
}

func TestNotificationsAndTracesAreOffUnlessTheirPlaceIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		env  map[string]string
		errs []string
		on   bool
	}{
		{name: "nothing is asked for"},
		{name: "a collector by flag", args: []string{"--otlp-endpoint=http://collector:4317"}, on: true},
		{name: "a collector by OpenTelemetry's variable", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}, on: true},
		{name: "OpenTelemetry is switched off", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317", "OTEL_SDK_DISABLED": "true"}},
		{name: "an endpoint that is no URL", args: []string{"--otlp-endpoint=collector:4317"}, errs: []string{"--otlp-endpoint must be like http://host:4317"}, on: true},
		{name: "a webhook without a secret", args: []string{"--webhook-url=https://hook/t0ken"}, errs: []string{"--webhook-url needs --webhook-secret-file: notifications are signed"}},
		{name: "a secret without a webhook", args: []string{"--webhook-secret-file=x"}, errs: []string{"--webhook-secret-file is of no use without --webhook-url"}},
		{
			name: "a secret that is not there", args: []string{"--webhook-url=https://hook/t0ken", "--webhook-secret-file=/nowhere"},
			errs: []string{"webhook: the secret cannot be read from its file, or is empty"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var cfg config
			cmd := workerCommand(noEnv)
			cmd.ResetFlags()
			cfg.commonFlags(cmd.Flags())
			cfg.workerFlags(cmd.Flags())
			require.NoError(t, cmd.Flags().Parse(c.args))
			err := cfg.load(cmd, func(name string) (string, bool) { v, ok := c.env[name]; return v, ok })
			if c.errs == nil {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, strings.Join(c.errs, "\n"))
			}
			require.Equal(t, c.on, cfg.trace)
		})
	}
}

func TestTheRateOfRequestsIsTheOneThatWasAskedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	kubeconfig.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	kubeconfig.CurrentContext = "c"
	require.NoError(t, clientcmd.WriteToFile(*kubeconfig, path))
	t.Setenv("KUBECONFIG", path)
	c := allCommand(noEnv)
	cfg := config{logLevel: "info", logFormat: "json", kubeQPS: 7, kubeBurst: 9}
	p, err := newProcess(&cfg, c)
	require.NoError(t, err)
	defer p.temporal.Close()
	require.InDelta(t, 7, p.kube.QPS, 0)
	require.Equal(t, 9, p.kube.Burst)
}
