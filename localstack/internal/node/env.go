package node

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

// environment resolves the variables of one container: first the base, then
// envFrom, then env, each winning over the one before.
func environment(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, c corev1.Container, base map[string]string) (map[string]string, error) {
	r := resolver{client: client, pod: pod}
	env := maps.Clone(base)
	for _, source := range c.EnvFrom {
		data, err := r.all(ctx, source)
		if err != nil {
			return nil, err
		}
		for key, value := range data {
			if name := source.Prefix + key; len(validation.IsEnvVarName(name)) == 0 {
				env[name] = value
			}
		}
	}
	for _, v := range c.Env {
		value, found, err := r.value(ctx, v, env)
		if err != nil {
			return nil, err
		}
		if found {
			env[v.Name] = value
		}
	}
	return env, nil
}

// resolver reads what the variables of one pod refer to.
type resolver struct {
	client kubernetes.Interface
	pod    *corev1.Pod
}

func (r resolver) all(ctx context.Context, source corev1.EnvFromSource) (map[string]string, error) {
	switch {
	case source.ConfigMapRef != nil:
		data, _, err := r.configMap(ctx, source.ConfigMapRef.Name, source.ConfigMapRef.Optional)
		return data, err
	case source.SecretRef != nil:
		data, _, err := r.secret(ctx, source.SecretRef.Name, source.SecretRef.Optional)
		return data, err
	default:
		return nil, nil
	}
}

// value resolves one variable. It is not found when an optional source is
// missing.
func (r resolver) value(ctx context.Context, v corev1.EnvVar, env map[string]string) (value string, found bool, err error) {
	if v.ValueFrom == nil {
		return expansion.Expand(v.Value, expansion.MappingFuncFor(env)), true, nil
	}
	switch from := v.ValueFrom; {
	case from.FieldRef != nil:
		value, err := field(r.pod, from.FieldRef.FieldPath)
		return value, err == nil, err
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		data, found, err := r.secret(ctx, ref.Name, ref.Optional)
		return pick("secret", ref.Name, ref.Key, data, found, optional(ref.Optional), err)
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		data, found, err := r.configMap(ctx, ref.Name, ref.Optional)
		return pick("configmap", ref.Name, ref.Key, data, found, optional(ref.Optional), err)
	default:
		return "", true, nil // resource limits mean nothing here.
	}
}

// pick takes a key out of a source that was read.
func pick(kind, name, key string, data map[string]string, found, optional bool, err error) (string, bool, error) {
	if err != nil || !found {
		return "", false, err
	}
	value, ok := data[key]
	if !ok && !optional {
		return "", false, fmt.Errorf("couldn't find key %s in %s %s", key, kind, name)
	}
	return value, ok, nil
}

func (r resolver) secret(ctx context.Context, name string, opt *bool) (map[string]string, bool, error) {
	secret, err := r.client.CoreV1().Secrets(r.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, false, absent(err, opt)
	}
	data := make(map[string]string, len(secret.Data))
	for key, value := range secret.Data {
		data[key] = string(value)
	}
	return data, true, nil
}

func (r resolver) configMap(ctx context.Context, name string, opt *bool) (map[string]string, bool, error) {
	config, err := r.client.CoreV1().ConfigMaps(r.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, false, absent(err, opt)
	}
	data := make(map[string]string, len(config.Data)+len(config.BinaryData))
	maps.Copy(data, config.Data)
	for key, value := range config.BinaryData {
		data[key] = string(value)
	}
	return data, true, nil
}

// absent forgives a missing object that is optional. The server's own words
// are what a kubelet shows: secrets "x" not found.
func absent(err error, opt *bool) error {
	if apierrors.IsNotFound(err) && optional(opt) {
		return nil
	}
	return err
}

func optional(b *bool) bool { return b != nil && *b }

// field reads a downward API field of the pod.
func field(pod *corev1.Pod, path string) (string, error) {
	switch path {
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return pod.Status.PodIP, nil
	case "status.hostIP", "status.hostIPs":
		return pod.Status.HostIP, nil
	default:
		return fieldpath.ExtractFieldPathAsString(pod, path)
	}
}

// pairs is the environment as a process takes it, sorted.
func pairs(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// expand replaces $(NAME) in the words of a command.
func expand(words []string, env map[string]string) []string {
	mapping := expansion.MappingFuncFor(env)
	expanded := make([]string, len(words))
	for i, word := range words {
		expanded[i] = expansion.Expand(word, mapping)
	}
	return expanded
}
