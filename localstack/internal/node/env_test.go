package node

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func envPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u-1", Labels: map[string]string{"app": "site"}, Annotations: map[string]string{"a": "note"}},
		Spec:       corev1.PodSpec{NodeName: "local"},
		Status:     corev1.PodStatus{PodIP: "127.60.0.1"},
	}
}

func fieldEnv(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

func secretEnv(name, secret, key string, optional bool) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key, Optional: &optional,
	}}}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db"}, Data: map[string][]byte{"password": []byte("p"), "not a name!": nil}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "conf"}, Data: map[string]string{"mode": "fast"}},
	)
	secretRef := &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "db"}}
	configRef := &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}}
	cases := []struct {
		name string
		c    corev1.Container
		want map[string]string
		err  string
	}{
		{name: "nothing but the base", want: map[string]string{"HOME": "/root"}},
		{
			name: "a whole secret, without the keys that are no names",
			c:    corev1.Container{EnvFrom: []corev1.EnvFromSource{{Prefix: "DB_", SecretRef: secretRef}}},
			want: map[string]string{"HOME": "/root", "DB_password": "p"},
		},
		{
			name: "env wins over envFrom and sees it",
			c: corev1.Container{
				EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: configRef}},
				Env:     []corev1.EnvVar{{Name: "line", Value: "$(mode)-$$(x)"}, {Name: "mode", Value: "slow"}},
			},
			want: map[string]string{"HOME": "/root", "line": "fast-$(x)", "mode": "slow"},
		},
		{
			name: "the downward API",
			c: corev1.Container{Env: []corev1.EnvVar{
				fieldEnv("N", "metadata.name"), fieldEnv("I", "status.podIP"), fieldEnv("H", "spec.nodeName"),
				fieldEnv("U", "metadata.uid"), fieldEnv("L", "metadata.labels['app']"), fieldEnv("A", "metadata.annotations['a']"),
			}},
			want: map[string]string{"HOME": "/root", "N": "web", "I": "127.60.0.1", "H": "local", "U": "u-1", "L": "site", "A": "note"},
		},
		{
			name: "a key of a secret", c: corev1.Container{Env: []corev1.EnvVar{secretEnv("P", "db", "password", false)}},
			want: map[string]string{"HOME": "/root", "P": "p"},
		},
		{
			name: "an optional secret that is missing", c: corev1.Container{Env: []corev1.EnvVar{secretEnv("P", "gone", "password", true)}},
			want: map[string]string{"HOME": "/root"},
		},
		{name: "a secret that is missing", c: corev1.Container{Env: []corev1.EnvVar{secretEnv("P", "gone", "password", false)}}, err: `secrets "gone" not found`},
		{name: "a key that is missing", c: corev1.Container{Env: []corev1.EnvVar{secretEnv("P", "db", "user", false)}}, err: "couldn't find key user in secret db"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := environment(t.Context(), client, envPod(), c.c, map[string]string{"HOME": "/root"})
			switch {
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Fatalf("error %v, want %q", err, c.err)
			case c.err == "" && err != nil:
				t.Fatal(err)
			case c.err == "" && !maps.Equal(got, c.want):
				t.Fatalf("got %q, want %q", got, c.want)
			}
		})
	}
}
