package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.temporal.io/sdk/client"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
	"github.com/drupdate/drupdate/internal/version"
)

// fieldOwner is the field manager of what people write with these commands.
const fieldOwner = "drupdate-cli"

// temporalPatience limits one call to Temporal: a person waits for the answer.
const temporalPatience = 5 * time.Second

// session is one command at work: its flags, and the connections that it makes when it needs them.
type session struct {
	cfg Config
	cmd *cobra.Command
	out *terminal
	now func() time.Time

	kubeconfig string
	overrides  clientcmd.ConfigOverrides
	everywhere bool
	output     string
	forms      []string
	taskQueue  string
}

func newSession(cfg Config) *session { return &session{cfg: cfg, now: time.Now} }

// clusterFlags are those of a command that reads or writes resources; their names are kubectl's.
func (s *session) clusterFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig to use instead of KUBECONFIG or ~/.kube/config")
	f.StringVar(&s.overrides.CurrentContext, "context", "", "context of the kubeconfig")
	f.StringVarP(&s.overrides.Context.Namespace, "namespace", "n", "", "namespace of the sites; empty means the context's own")
	f.StringVar(&s.overrides.AuthInfo.Impersonate, "as", "", "user to act as, for example system:serviceaccount:NS:NAME")
	s.complete(c, "context", s.contexts)
	s.complete(c, "namespace", s.namespaces)
}

func (s *session) everywhereFlag(f *pflag.FlagSet) {
	f.BoolVarP(&s.everywhere, "all-namespaces", "A", false, "sites of all namespaces")
}

// Forms of output.
const (
	asText = ""
	asWide = "wide"
	asJSON = "json"
	asYAML = "yaml"
)

func (s *session) outputFlag(c *cobra.Command, forms ...string) {
	c.Flags().StringVarP(&s.output, "output", "o", asText, "form of the output: "+strings.Join(forms, ", ")+"; empty means a table")
	s.complete(c, "output", func(context.Context) []string { return forms })
	s.forms = forms
}

// outputKnown refuses a form of output that the command does not have, whether a flag or a variable asks for it.
func (s *session) outputKnown() error {
	if s.output == asText || slices.Contains(s.forms, s.output) {
		return nil
	}
	return Usage(fmt.Errorf("--output is one of %s, not %q", strings.Join(s.forms, ", "), s.output))
}

func (s *session) queueFlag(f *pflag.FlagSet) {
	f.StringVar(&s.taskQueue, "task-queue", update.TaskQueue, "Temporal task queue of the workers")
}

// does makes the function of a command: flags completed, errors told as a person would.
func (s *session) does(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := s.begin(c); err != nil {
			return err
		}
		return s.explain(work(c.Context(), args))
	}
}

func (s *session) begin(c *cobra.Command) error {
	s.cmd = c
	// What libraries log is not for whoever asked for a table.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	if err := s.cfg.Prepare(c); err != nil {
		return Usage(err)
	}
	s.out = newTerminal(c.OutOrStdout(), s.cfg.Env)
	return s.outputKnown()
}

// loader finds the cluster as kubectl does: flag, KUBECONFIG, ~/.kube/config, and in a pod its own cluster.
func (s *session) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &s.overrides)
}

func (s *session) restConfig() (*rest.Config, error) {
	config, err := s.loader().ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no cluster is configured: set --kubeconfig or KUBECONFIG")
	}
	if err != nil {
		return nil, fmt.Errorf("no cluster can be found (%w): set --kubeconfig or KUBECONFIG, or choose a --context", oneLine(err))
	}
	config.UserAgent = "drupdate-cli/" + version.Read().Version
	config.QPS, config.Burst = 50, 100
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

// namespace is the one that the command is about.
func (s *session) namespace() (string, error) {
	ns, _, err := s.loader().Namespace()
	if err != nil {
		return "", fmt.Errorf("no namespace can be found: %w", oneLine(err))
	}
	return ns, nil
}

func scheme() *runtime.Scheme {
	all := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(all))
	utilruntime.Must(v1alpha1.AddToScheme(all))
	return all
}

func (s *session) kube() (kube.Client, error) {
	config, err := s.restConfig()
	if err != nil {
		return nil, err
	}
	return kube.New(config, kube.Options{Scheme: scheme()})
}

// siteKey is the full name of the site that an argument names.
func (s *session) siteKey(name string) (kube.ObjectKey, error) {
	ns, err := s.namespace()
	return kube.ObjectKey{Namespace: ns, Name: name}, err
}

// site reads the site that an argument names.
func (s *session) site(ctx context.Context, c kube.Client, name string) (*v1alpha1.DrupalSite, error) {
	key, err := s.siteKey(name)
	if err != nil {
		return nil, err
	}
	site := &v1alpha1.DrupalSite{}
	err = c.Get(ctx, key, site)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no site %q in the namespace %q", key.Name, key.Namespace)
	}
	return site, err
}

// open reads a site, and returns the client that it was read by beside it.
func (s *session) open(ctx context.Context, name string) (kube.Client, *v1alpha1.DrupalSite, error) {
	c, err := s.kube()
	if err != nil {
		return nil, nil, err
	}
	site, err := s.site(ctx, c, name)
	return c, site, err
}

// temporal connects to Temporal. The caller closes the client.
func (s *session) temporal(ctx context.Context) (client.Client, error) {
	options, err := s.cfg.Temporal()
	if err != nil {
		return nil, err
	}
	options.Logger = silent{}
	ctx, cancel := context.WithTimeout(ctx, temporalPatience)
	defer cancel()
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, s.temporalFault(err)
	}
	return c, nil
}

// command is a command line of this program about a site, as the person at the terminal would have to write it.
func (s *session) command(site *v1alpha1.DrupalSite, verb string, rest ...string) string {
	words := append([]string{s.cmd.Root().CommandPath(), verb, site.Name}, rest...)
	if s.overrides.CurrentContext != "" {
		words = append(words, "--context", s.overrides.CurrentContext)
	}
	if s.overrides.Context.Namespace != "" || s.everywhere {
		words = append(words, "-n", site.Namespace)
	}
	return strings.Join(words, " ")
}

// silent drops what Temporal's client logs.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}
