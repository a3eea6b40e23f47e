package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drupdate/drupdate/activities"
	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/dial"
	"github.com/drupdate/drupdate/internal/logging"
	"github.com/drupdate/drupdate/internal/metrics"
	"github.com/drupdate/drupdate/internal/podexec"
	"github.com/drupdate/drupdate/internal/tracing"
	"github.com/drupdate/drupdate/internal/version"
	"github.com/drupdate/drupdate/internal/webhook"
	"github.com/drupdate/drupdate/watcher"
	"github.com/drupdate/drupdate/worker"
)

// part is something that runs until its context ends.
type part func(ctx context.Context) error

// flushTimeout limits how long the last spans hold up the end of the process.
const flushTimeout = 3 * time.Second

// process is what the parts of one process share.
type process struct {
	cfg      *config
	log      *zap.Logger
	kube     *rest.Config
	temporal client.Client
	// temporalNamespace is the namespace of the client.
	temporalNamespace string
	tracing           *tracing.Tracing
	parts             []part
	checks            map[string]check
}

// serve runs parts until a signal, or the first that fails, ends them all.
func serve(cmd *cobra.Command, cfg *config, env lookup, add ...func(*process) error) error {
	if err := cfg.load(cmd, env); err != nil {
		return err
	}
	p, err := newProcess(cfg, cmd)
	if err != nil {
		return err
	}
	defer p.close()
	for _, with := range add {
		if err := with(p); err != nil {
			return err
		}
	}
	if err := p.addServers(); err != nil {
		return err
	}
	p.log.Info("starting", zap.Stringer("build", version.Read()))
	group, ctx := errgroup.WithContext(cmd.Context())
	for _, run := range p.parts {
		group.Go(func() error { return run(ctx) })
	}
	err = group.Wait()
	p.log.Info("stopped")
	return err
}

func newProcess(cfg *config, cmd *cobra.Command) (*process, error) {
	log, err := logging.New(cmd.ErrOrStderr(), cfg.logLevel, cfg.logFormat)
	if err != nil {
		return nil, err
	}
	ctrl.SetLogger(logging.Controller(log))
	klog.SetLogger(logging.Kubernetes(log))
	kube, err := ctrlconfig.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("find the Kubernetes cluster: %w", err)
	}
	kube.QPS, kube.Burst = cfg.kubeQPS, cfg.kubeBurst
	kube.UserAgent = "drupdate/" + version.Read().Version
	p := &process{cfg: cfg, log: log, kube: kube, tracing: tracing.Off(), checks: map[string]check{}}
	if cfg.trace {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are not sent", zap.String(logging.KeyError, err.Error())) }))
		if p.tracing, err = tracing.New(cmd.Context(), cfg.otlpEndpoint, "drupdate-"+cmd.Name(), version.Read().Version); err != nil {
			return nil, err
		}
	}
	return p, p.connect()
}

// connect makes the Temporal client, with what it is observed by.
func (p *process) connect() error {
	options, err := dial.Options(dial.Settings{Log: p.log, APIKeyFile: p.cfg.apiKeyFile, CodecKeys: p.cfg.codecKeys})
	if err != nil {
		return err
	}
	if options.MetricsHandler, err = metrics.Temporal(ctrlmetrics.Registry); err != nil {
		return err
	}
	if p.cfg.trace {
		traced, err := p.tracing.Interceptor()
		if err != nil {
			return err
		}
		options.Interceptors = append(options.Interceptors, traced)
	}
	p.temporalNamespace = cmp.Or(options.Namespace, client.DefaultNamespace)
	if p.temporal, err = client.NewLazyClient(options); err != nil {
		return fmt.Errorf("read Temporal's settings: %w", err)
	}
	return nil
}

// close ends what the parts shared.
func (p *process) close() {
	p.temporal.Close()
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := p.tracing.Close(ctx); err != nil {
		p.log.Warn("the last traces are not sent", zap.String(logging.KeyError, err.Error()))
	}
}

// temporalOptions are those of the user's commands: Temporal's own settings, and the keys that the processes have.
func temporalOptions(env lookup) (client.Options, error) {
	keys, _ := env(envPrefix + "CODEC_KEYS")
	apiKey, _ := env(envPrefix + "TEMPORAL_API_KEY_FILE")
	return dial.Options(dial.Settings{Log: zap.NewNop(), APIKeyFile: apiKey, CodecKeys: keys})
}

// addWatcher adds the watcher. It alone depends on leadership: a lost lease returns an error, which ends the process.
func (p *process) addWatcher() error {
	options := watcher.ManagerOptions(p.cfg.watcher())
	options.Metrics.BindAddress, options.HealthProbeBindAddress = off, off
	options.LeaderElection = p.cfg.leaderElect
	options.LeaderElectionID = v1alpha1.LeaseWatcher
	options.LeaderElectionNamespace = p.cfg.leaderNamespace
	options.LeaderElectionReleaseOnCancel = true
	mgr, err := ctrl.NewManager(p.kube, options)
	if err != nil {
		return fmt.Errorf("make the watcher: %w", err)
	}
	starter := watcher.NewStarter(p.temporal, p.cfg.watcher(), p.tracing.Tracer("github.com/drupdate/drupdate/watcher"), mgr.GetLogger().WithName("starter"))
	if err := watcher.Setup(mgr, p.cfg.watcher(), starter); err != nil {
		return err
	}
	if err := watcher.Observe(mgr, starter, ctrlmetrics.Registry); err != nil {
		return err
	}
	p.parts = append(p.parts, mgr.Start)
	p.checks["watcher"] = func(ctx context.Context) error {
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errNotSynced
		}
		return nil
	}
	return nil
}

// addWorker adds the worker, which reads live and is never tied to leadership.
func (p *process) addWorker() error {
	live, err := kubeclient.New(p.kube, kubeclient.Options{Scheme: watcher.Scheme()})
	if err != nil {
		return fmt.Errorf("make the worker: %w", err)
	}
	core, err := kubernetes.NewForConfig(p.kube)
	if err != nil {
		return fmt.Errorf("make the worker: %w", err)
	}
	deps := activities.Deps{
		Client: live, Exec: podexec.New(p.kube, core), Metrics: metrics.NewWorker(ctrlmetrics.Registry), Namespaces: p.cfg.namespaces,
		Schedules: worker.NewSchedules(p.temporal),
	}
	if p.cfg.temporalUI != "" {
		deps.RunsURL = strings.TrimSuffix(p.cfg.temporalUI, "/") + "/namespaces/" + url.PathEscape(p.temporalNamespace)
	}
	if p.cfg.webhookURL != "" {
		if deps.Webhook, err = webhook.New(p.cfg.webhookURL, p.cfg.webhookSecretFile); err != nil {
			return err
		}
		deps.Notifier = worker.NewNotifier(p.temporal, p.cfg.taskQueue)
	}
	if p.cfg.verifyHTTP {
		deps.Prober = activities.NewHTTPProber()
	}
	build := p.cfg.buildID
	if build == "" {
		build = version.Read().Commit
	}
	w, err := worker.New(worker.Config{
		Client: p.temporal, Activities: activities.New(deps), TaskQueue: p.cfg.taskQueue,
		BuildID: build, MaxConcurrentActivities: p.cfg.activities, Log: p.log,
	})
	if err != nil {
		return err
	}
	p.parts = append(p.parts, w.Run)
	p.checks["worker"] = w.Ready
	return nil
}
