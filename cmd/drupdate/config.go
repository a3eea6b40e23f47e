package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/drupdate/drupdate/internal/cli"
	"github.com/drupdate/drupdate/internal/logging"
	"github.com/drupdate/drupdate/internal/update"
	"github.com/drupdate/drupdate/internal/webhook"
	"github.com/drupdate/drupdate/watcher"
	"github.com/drupdate/drupdate/worker"
)

// envPrefix is the start of every environment variable of ours.
const envPrefix = "DRUPDATE_"

// config is what the process is told: flags over environment over defaults.
type config struct {
	logLevel, logFormat     string
	taskQueue               string
	metricsAddr, healthAddr string
	kubeQPS                 float32
	kubeBurst               int
	apiKeyFile, codecKeys   string
	namespaces              []string
	otlpEndpoint            string
	// trace is set where something says where spans go: the flag, or OpenTelemetry's own variables.
	trace bool

	// watcher
	leaderElect     bool
	leaderNamespace string
	concurrency     int

	// worker
	activities                    int
	buildID                       string
	verifyHTTP                    bool
	webhookURL, webhookSecretFile string
	temporalUI                    string
}

func (c *config) commonFlags(f *pflag.FlagSet) {
	f.StringVar(&c.logLevel, "log-level", "info", "least level of log entries: debug, info, warn or error")
	f.StringVar(&c.logFormat, "log-format", logging.JSON, "format of log entries: json or console")
	f.StringVar(&c.taskQueue, "task-queue", update.TaskQueue, "Temporal task queue")
	f.StringVar(&c.metricsAddr, "metrics-addr", ":8080", "address of /metrics; 0 turns it off")
	f.StringVar(&c.healthAddr, "health-addr", ":8081", "address of /healthz and /readyz; 0 turns it off")
	f.Float32Var(&c.kubeQPS, "kube-qps", 100, "requests a second to the API server")
	f.IntVar(&c.kubeBurst, "kube-burst", 200, "requests to the API server that may be sent at once")
	f.StringVar(&c.apiKeyFile, "temporal-api-key-file", "", "file with the API key for Temporal; it may be replaced at any time")
	f.StringVar(&c.codecKeys, "codec-keys", "", "file, or folder of files, with the keys that encrypt payloads; none means that histories are readable")
	f.StringSliceVar(&c.namespaces, "watch-namespaces", nil, "namespaces whose sites are served; none means all of them")
	f.StringVar(&c.otlpEndpoint, "otlp-endpoint", "", "URL of the OpenTelemetry collector that traces go to, by OTLP over gRPC; empty leaves that to OTEL_EXPORTER_OTLP_ENDPOINT")
	f.AddGoFlag(flag.CommandLine.Lookup(ctrlconfig.KubeconfigFlagName))
}

func (c *config) watcherFlags(f *pflag.FlagSet) {
	f.BoolVar(&c.leaderElect, "leader-elect", false, "let one of several watchers work; needed for more than one replica")
	f.StringVar(&c.leaderNamespace, "leader-elect-namespace", "", "namespace of the lease; empty means the pod's own")
	f.IntVar(&c.concurrency, "concurrent-reconciles", watcher.DefaultConcurrency, "sites that are reconciled at once")
}

func (c *config) workerFlags(f *pflag.FlagSet) {
	f.IntVar(&c.activities, "concurrent-activities", worker.DefaultActivities, "activities that run at once")
	f.StringVar(&c.buildID, "build-id", "", "build id in histories; empty means the binary's commit")
	f.BoolVar(&c.verifyHTTP, "verify-http", false, "ask a site for a page at spec.runtime.uri before an update counts as done")
	f.StringVar(&c.temporalUI, "temporal-ui-url", "", "address of Temporal's Web UI, for links to runs in status and Events; empty means none")
	f.StringVar(&c.webhookURL, "webhook-url", "", "address that is told when an update starts, ends, fails or waits for a person; empty means nobody")
	f.StringVar(&c.webhookSecretFile, "webhook-secret-file", "", "file with the secret that signs what is sent to --webhook-url")
}

// Validate lists every problem at once, one sentence each.
func (c *config) Validate() error {
	problems := []error{logging.Check(c.logLevel, c.logFormat)}
	for _, a := range []struct{ flag, value string }{{"metrics-addr", c.metricsAddr}, {"health-addr", c.healthAddr}} {
		if _, _, err := net.SplitHostPort(a.value); err != nil && a.value != "0" {
			problems = append(problems, fmt.Errorf("--%s: %q is no address: use host:port, :port or 0", a.flag, a.value))
		}
	}
	if c.metricsAddr == c.healthAddr && c.metricsAddr != "0" {
		problems = append(problems, fmt.Errorf("--metrics-addr and --health-addr are the same address %q", c.metricsAddr))
	}
	if c.taskQueue == "" {
		problems = append(problems, errors.New("--task-queue must not be empty"))
	}
	if c.kubeQPS <= 0 || c.kubeBurst < 1 {
		problems = append(problems, fmt.Errorf("--kube-qps and --kube-burst must be above 0, not %v and %d", c.kubeQPS, c.kubeBurst))
	}
	if c.activities < 0 {
		problems = append(problems, fmt.Errorf("--concurrent-activities must be above 0, not %d", c.activities))
	}
	return errors.Join(append(problems, c.validateOutlets(), c.watcher().Validate())...)
}

// validateOutlets checks where traces and notifications go. Addresses may hold tokens, and are not repeated.
func (c *config) validateOutlets() error {
	var problems []error
	if c.otlpEndpoint != "" && parseHTTP(c.otlpEndpoint) == nil {
		problems = append(problems, errors.New("--otlp-endpoint must be like http://host:4317"))
	}
	if u := parseHTTP(c.temporalUI); c.temporalUI != "" && (u == nil || u.RawQuery != "") {
		problems = append(problems, errors.New("--temporal-ui-url must be like https://temporal.example.org"))
	}
	switch {
	case c.webhookURL == "" && c.webhookSecretFile != "":
		problems = append(problems, errors.New("--webhook-secret-file is of no use without --webhook-url"))
	case c.webhookURL != "" && c.webhookSecretFile == "":
		problems = append(problems, errors.New("--webhook-url needs --webhook-secret-file: notifications are signed"))
	case c.webhookURL != "":
		problems = append(problems, webhook.Check(c.webhookURL, c.webhookSecretFile))
	}
	return errors.Join(problems...)
}

// parseHTTP is nil for what is no address of a web server.
func parseHTTP(address string) *url.URL {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil
	}
	return u
}

func (c *config) watcher() watcher.Config {
	return watcher.Config{TaskQueue: c.taskQueue, Namespaces: c.namespaces, Concurrency: c.concurrency}
}

// fromEnvironment sets every flag that was not given from its variable. It returns every problem at once.
func fromEnvironment(c *cobra.Command, env lookup) error {
	var problems []error
	c.Flags().VisitAll(func(f *pflag.Flag) {
		name := envPrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, set := env(name)
		if !set || f.Changed || f.Name == "help" {
			return
		}
		if err := c.Flags().Set(f.Name, value); err != nil {
			problems = append(problems, fmt.Errorf("%s: %q is not valid for --%s", name, value, f.Name))
			_ = f.Value.Set(f.DefValue) // Else the zero that is left would be a second problem.
		}
	})
	return errors.Join(problems...)
}

// load completes the configuration and checks it.
func (c *config) load(cmd *cobra.Command, env lookup) error {
	err := cli.Usage(errors.Join(fromEnvironment(cmd, env), c.Validate()))
	c.trace = c.otlpEndpoint != "" || tracingAsked(env)
	return err
}

// tracingAsked tells whether OpenTelemetry's own variables say where spans go.
func tracingAsked(env lookup) bool {
	if off, _ := env("OTEL_SDK_DISABLED"); strings.EqualFold(off, "true") {
		return false
	}
	if exporter, _ := env("OTEL_TRACES_EXPORTER"); exporter == "none" {
		return false
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		if endpoint, _ := env(name); endpoint != "" {
			return true
		}
	}
	return false
}
