package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

// clockSlack is how far a clock may be off before something looks wrong: windows and deadlines are in minutes.
const clockSlack = 5 * time.Second

// leaseSlack is how long a watcher may be silent: it renews its Lease every few seconds, by a clock of its own.
const leaseSlack = time.Minute

// handOver is how long a Lease may be nobody's when one watcher follows another, as in an upgrade: they look every two seconds.
const handOver = 15 * time.Second

// systemNamespace is where the manifests and the charts put drupdate, unless they are told otherwise.
const systemNamespace = "drupdate-system"

// Names of checks.
const (
	checkCluster    = "cluster"
	checkClock      = "clock"
	checkCRD        = "crd"
	checkRights     = "rights"
	checkWatcher    = "watcher"
	checkTemporal   = "temporal"
	checkNamespace  = "namespace"
	checkAttributes = "attributes"
	checkWorkers    = "workers"
)

func (s *session) checkCluster(ctx context.Context, role string) []finding {
	clock := &serverClock{}
	core, where, err := s.coreClient(clock)
	if err == nil {
		var version interface{ String() string }
		if version, err = core.Discovery().ServerVersion(); err == nil {
			return []finding{
				well(checkCluster, "Kubernetes %s at %s", version, where), clock.finding(),
				s.findCRD(core), s.findRights(ctx, core, role), findWatcher(ctx, core, time.Now()),
			}
		}
	}
	none := "the cluster cannot be reached"
	return []finding{
		wrong(checkCluster, s.explain(err), "choose a cluster that answers: --context, --kubeconfig or KUBECONFIG"),
		skipped(checkClock, none), skipped(checkCRD, none), skipped(checkRights, none), skipped(checkWatcher, none),
	}
}

// findWatcher looks at the Lease of the watcher that works. A watcher that runs without --leader-elect holds none.
func findWatcher(ctx context.Context, core kubernetes.Interface, now time.Time) finding {
	const mend = "kubectl get deploy -A -l app.kubernetes.io/name=drupdate,app.kubernetes.io/component=watcher; see its log"
	named := metav1.ListOptions{FieldSelector: "metadata.name=" + v1alpha1.LeaseWatcher}
	leases, err := core.CoordinationV1().Leases(metav1.NamespaceAll).List(ctx, named)
	if apierrors.IsForbidden(err) {
		leases, err = core.CoordinationV1().Leases(systemNamespace).List(ctx, named)
	}
	switch {
	case apierrors.IsForbidden(err):
		return skipped(checkWatcher, "you may not read Leases, which tell whether a watcher works")
	case err != nil:
		return finding{Check: checkWatcher, Result: resultWarn, Detail: fmt.Sprintf("its Lease could not be read: %v", oneLine(err))}
	case len(leases.Items) == 0:
		return finding{
			Check: checkWatcher, Result: resultWarn, Mend: mend,
			Detail: "no watcher has ever held a Lease here: there is none, or it runs without --leader-elect and cannot be seen from here",
		}
	}
	slices.SortFunc(leases.Items, func(a, b coordinationv1.Lease) int { return renewed(b).Compare(renewed(a)) })
	lease := leases.Items[0]
	ago := lasting(max(0, now.Sub(renewed(lease))))
	free := ptr.Deref(lease.Spec.HolderIdentity, "") == ""
	if free && now.Sub(renewed(lease)) <= handOver {
		return finding{Check: checkWatcher, Result: resultWarn, Detail: fmt.Sprintf("one gave its Lease back %s ago, in the namespace %s; "+
			"if there is another, it takes over within seconds: ask again", ago, lease.Namespace)}
	}
	if free || now.Sub(renewed(lease)) > leaseSlack {
		return wrong(checkWatcher, fmt.Errorf("no watcher works: the last one was heard of %s ago, in the namespace %s", ago, lease.Namespace), mend)
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return well(checkWatcher, "%s works in the namespace %s, heard of %s ago", pod, lease.Namespace, ago)
}

func renewed(lease coordinationv1.Lease) time.Time {
	if lease.Spec.RenewTime == nil {
		return time.Time{}
	}
	return lease.Spec.RenewTime.Time
}

func (s *session) coreClient(clock *serverClock) (core *kubernetes.Clientset, where string, err error) {
	config, err := s.restConfig()
	if err != nil {
		return nil, "", err
	}
	config.Timeout = 10 * time.Second
	config.Wrap(clock.listen)
	core, err = kubernetes.NewForConfig(config)
	return core, host(config.Host), err
}

// serverClock compares the API server's clock with ours, by the Date of its answers.
type serverClock struct {
	mu   sync.Mutex
	skew time.Duration
	told bool
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (c *serverClock) listen(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		before := time.Now()
		response, err := next.RoundTrip(r)
		if err == nil {
			c.compare(response.Header.Get("Date"), before, time.Now())
		}
		return response, err
	})
}

// compare keeps the least skew that fits: a Date has whole seconds, and was written some time between before and after.
func (c *serverClock) compare(date string, before, after time.Time) {
	server, err := http.ParseTime(date)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = true
	switch {
	case server.Add(time.Second).Before(before):
		c.skew = server.Add(time.Second).Sub(before)
	case server.After(after):
		c.skew = server.Sub(after)
	default:
		c.skew = 0
	}
}

func (c *serverClock) finding() finding {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch skew := c.skew.Abs(); {
	case !c.told:
		return finding{Check: checkClock, Result: resultWarn, Detail: "the API server does not tell its time"}
	case skew > clockSlack:
		return wrong(checkClock, fmt.Errorf("this machine and the API server are %s apart", lasting(skew)), "let both take their time from NTP: windows and deadlines go by it")
	}
	return well(checkClock, "agrees with the API server's")
}

// findCRD looks whether the resource is served, and whether its schema knows all that this build writes.
func (s *session) findCRD(core kubernetes.Interface) finding {
	const mend = "helm upgrade --install drupdate-crds, or kubectl apply --server-side -k deploy/crd: whichever it was installed with"
	served, err := core.Discovery().ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil || !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == "DrupalSite" }) {
		return wrong(checkCRD, fmt.Errorf("%s is not served", v1alpha1.GroupVersion), mend)
	}
	absent, err := absentFields(core)
	switch {
	case err != nil:
		return finding{Check: checkCRD, Result: resultWarn, Detail: fmt.Sprintf("%s is served; its schema could not be read: %v", v1alpha1.GroupVersion, oneLine(err))}
	case len(absent) > 0:
		return wrong(checkCRD, fmt.Errorf("%s is older than this build: it lacks %s", v1alpha1.GroupVersion, strings.Join(absent, ", ")), mend)
	}
	return well(checkCRD, "%s is served, and knows every field of this build", v1alpha1.GroupVersion)
}

// absentFields are the fields of this build's DrupalSite that the cluster's schema does not have.
func absentFields(core kubernetes.Interface) ([]string, error) {
	paths, err := core.Discovery().OpenAPIV3().Paths()
	if err != nil {
		return nil, err
	}
	path := paths["apis/"+v1alpha1.GroupVersion.String()]
	if path == nil {
		return nil, errors.New("it is not published")
	}
	raw, err := path.Schema("application/json")
	if err != nil {
		return nil, err
	}
	var document struct {
		Components struct {
			Schemas map[string]schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		return nil, err
	}
	for name, s := range document.Components.Schemas {
		if !strings.HasSuffix(name, ".DrupalSite") {
			continue
		}
		var absent []string
		for _, part := range []struct {
			name string
			of   any
		}{{"spec", v1alpha1.DrupalSiteSpec{}}, {"status", v1alpha1.DrupalSiteStatus{}}} {
			absent = append(absent, s.Properties[part.name].lacks(part.name, reflect.TypeOf(part.of))...)
		}
		return absent, nil
	}
	return nil, errors.New("it has no DrupalSite")
}

// schema is what is needed of an OpenAPI schema.
type schema struct {
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
}

// lacks lists the JSON fields of a type that the schema does not have, by path.
func (s schema) lacks(path string, of reflect.Type) []string {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() == reflect.Slice && s.Items != nil {
		return s.Items.lacks(path+"[]", of.Elem())
	}
	if of.Kind() != reflect.Struct || of.PkgPath() != reflect.TypeFor[v1alpha1.DrupalSite]().PkgPath() {
		return nil // Kubernetes' own types are Kubernetes' business
	}
	var absent []string
	for field := range fieldsOf(of) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		known, ok := s.Properties[name]
		if !ok {
			absent = append(absent, path+"."+name)
			continue
		}
		absent = append(absent, known.lacks(path+"."+name, field.Type)...)
	}
	return absent
}

func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// right is what one rule of RBAC has to allow.
type right struct {
	group, resource string
	verbs           []string
}

// rights are those that a person needs for these commands, and those of deploy/rbac. A test compares.
var rights = map[string][]right{
	rolePerson: {
		{"drupdate.dev", "drupalsites", []string{"get", "list", "watch", "patch"}},
		{"batch", "jobs", []string{"get", "list"}},
		{"", "pods", []string{"get", "list"}},
		{"", "pods/log", []string{"get"}},
	},
	roleWatcher: {
		{"drupdate.dev", "drupalsites", []string{"get", "list", "watch"}},
		{"drupdate.dev", "drupalsites/status", []string{"patch"}},
		{"apps", "deployments", []string{"get", "list", "watch", "create", "patch"}},
		{"", "services", []string{"list", "watch", "create"}},
		{"", "persistentvolumeclaims", []string{"list", "watch", "create"}},
		{"", "configmaps", []string{"list", "watch", "create"}},
		{"", "secrets", []string{"get"}},
		{"events.k8s.io", "events", []string{"create", "patch"}},
	},
	roleWorker: {
		{"drupdate.dev", "drupalsites", []string{"get", "patch"}},
		{"drupdate.dev", "drupalsites/status", []string{"patch"}},
		{"apps", "deployments", []string{"get", "patch"}},
		{"apps", "replicasets", []string{"list"}},
		{"", "pods", []string{"list"}},
		{"", "pods/exec", []string{"get", "create"}},
		{"batch", "jobs", []string{"get", "list", "create"}},
		{"", "persistentvolumeclaims", []string{"get"}},
		{"batch", "cronjobs", []string{"list", "patch"}},
		{"", "events", []string{"list", "create"}},
	},
}

// findRights asks the API server what it would allow.
func (s *session) findRights(ctx context.Context, core kubernetes.Interface, role string) finding {
	ns, err := s.scope()
	if err != nil {
		return wrong(checkRights, err, "")
	}
	var lacking []string
	count := 0
	for _, r := range rights[role] {
		for _, verb := range r.verbs {
			count++
			allowed, err := allows(ctx, core, ns, r, verb)
			if err != nil {
				return wrong(checkRights, s.explain(err), "ask whoever runs the cluster: SelfSubjectAccessReviews are for everybody")
			}
			if !allowed {
				lacking = append(lacking, verb+" "+r.resource)
			}
		}
	}
	where := "in all namespaces"
	if ns != "" {
		where = "in the namespace " + ns
	}
	if len(lacking) > 0 {
		return wrong(checkRights, fmt.Errorf("lacking %s: %s", where, strings.Join(lacking, ", ")), rightsMend(role))
	}
	return well(checkRights, "all %d that a %s needs, %s", count, role, where)
}

func allows(ctx context.Context, core kubernetes.Interface, ns string, r right, verb string) (bool, error) {
	resource, sub, _ := strings.Cut(r.resource, "/")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: ns, Group: r.group, Resource: resource, Subresource: sub, Verb: verb},
	}}
	answer, err := core.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

func rightsMend(role string) string {
	if role == rolePerson {
		return "ask for the role edit in the namespace of the sites (view is enough for looking)"
	}
	return "kubectl apply -k deploy/rbac, and check that the ClusterRoleBinding names the account"
}
