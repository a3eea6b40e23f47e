//go:build e2e || fault

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/e2e/rights"
)

// systemNamespace is where deploy/ puts drupdate.
const systemNamespace = "drupdate-system"

// installed is what the suite took from deploy/.
var installed []*unstructured.Unstructured

// install applies deploy/ as it is, but for the Deployments: the processes run beside the cluster, with credentials of the
// service accounts that it makes.
func install() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) //nolint:forbidigo // TestMain has no test whose context could be used
	defer cancel()
	var err error
	if installed, err = installAs(ctx, "../deploy", systemNamespace); err != nil {
		return err
	}
	return try(30*time.Second, func() error { return cluster.List(ctx, &v1alpha1.DrupalSiteList{}) })
}

// installAs applies what a folder renders to, into a namespace and with other names replaced, old and new in turn. It
// returns what it applied, when the rights are in force.
func installAs(ctx context.Context, folder, namespace string, oldnew ...string) ([]*unstructured.Unstructured, error) {
	objects, err := render(ctx, folder, append(oldnew, "drupdate-system", namespace)...)
	if err != nil {
		return nil, err
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
	if err := apply(ctx, objects); err != nil {
		return nil, err
	}
	for _, account := range []string{"drupdate-watcher", "drupdate-worker"} {
		if err := writeKubeconfig(ctx, namespace, account); err != nil {
			return nil, err
		}
	}
	return objects, try(30*time.Second, func() error { return inForce(ctx, objects) })
}

// render is "kubectl kustomize", with names replaced.
func render(ctx context.Context, folder string, oldnew ...string) ([]*unstructured.Unstructured, error) {
	command := exec.CommandContext(ctx, filepath.Join(state, "bin", "kubectl"), "kustomize", folder)
	command.Stderr = os.Stderr
	raw, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("render %q: %w", folder, err)
	}
	var objects []*unstructured.Unstructured
	text := strings.NewReplacer(oldnew...).Replace(string(raw))
	for documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("render %q: %w", folder, err)
		}
		objects = append(objects, o)
	}
}

func apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		err := cluster.Apply(ctx, kube.ApplyConfigurationFromUnstructured(o.DeepCopy()), kube.FieldOwner("drupdate-install"), kube.ForceOwnership)
		if err != nil {
			return fmt.Errorf("apply %s %q: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

func kubeconfigOf(namespace, account string) string {
	return filepath.Join(state, "run", namespace+"-"+account+".kubeconfig")
}

// writeKubeconfig asks for a token of a service account, as the kubelet does for a pod, and writes a kubeconfig with it.
func writeKubeconfig(ctx context.Context, namespace, account string) error {
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](4 * 3600)}}
	if err := cluster.SubResource("token").Create(ctx, sa, token); err != nil {
		return fmt.Errorf("token of %q: %w", account, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["stack"] = &clientcmdapi.Cluster{Server: restConf.Host, CertificateAuthorityData: restConf.CAData}
	config.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts[account] = &clientcmdapi.Context{Cluster: "stack", AuthInfo: account, Namespace: namespace}
	config.CurrentContext = account
	return clientcmd.WriteToFile(*config, kubeconfigOf(namespace, account))
}

// inForce asks the API server about every right: a role that was made a moment ago is not known to it yet.
func inForce(ctx context.Context, objects []*unstructured.Unstructured) error {
	grants, err := rights.Grants(objects)
	if err != nil {
		return err
	}
	for _, g := range grants {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: g.Account, ResourceAttributes: g.Attributes(),
		}}
		if err := cluster.Create(ctx, review); err != nil {
			return fmt.Errorf("review %q: %w", g, err)
		}
		if !review.Status.Allowed {
			return fmt.Errorf("%s may not %s", g.Account, g)
		}
	}
	return nil
}
