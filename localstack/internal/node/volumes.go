package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/localstack/internal/container"
)

// tokenSeconds is the lifetime of a mounted token. It is not renewed, so it is
// as long as a local stack is likely to run.
const tokenSeconds = 7 * 24 * 60 * 60

// volumes makes the volumes of a pod and returns where each is on the host.
// Calling it again writes the same volumes again.
func (r resolver) volumes(ctx context.Context, root string) (map[string]string, error) {
	paths := map[string]string{}
	for _, v := range r.pod.Spec.Volumes {
		path, err := r.volume(ctx, filepath.Join(root, v.Name), v)
		if err != nil {
			return nil, fmt.Errorf("mount volume: %q: %w", v.Name, err)
		}
		paths[v.Name] = path
	}
	return paths, nil
}

func (r resolver) volume(ctx context.Context, dir string, v corev1.Volume) (string, error) {
	switch {
	case v.PersistentVolumeClaim != nil:
		return r.claim(ctx, v.PersistentVolumeClaim.ClaimName)
	case v.HostPath != nil:
		return v.HostPath.Path, os.MkdirAll(v.HostPath.Path, 0o755)
	}
	mode := os.FileMode(0o777)
	if err := os.MkdirAll(dir, mode); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, mode); err != nil {
		return "", err
	}
	switch {
	case v.EmptyDir != nil:
		return dir, nil
	case v.Secret != nil:
		data, found, err := r.secret(ctx, v.Secret.SecretName, v.Secret.Optional)
		return dir, write(dir, data, v.Secret.Items, found, err)
	case v.ConfigMap != nil:
		data, found, err := r.configMap(ctx, v.ConfigMap.Name, v.ConfigMap.Optional)
		return dir, write(dir, data, v.ConfigMap.Items, found, err)
	case v.DownwardAPI != nil:
		return dir, r.downward(dir, v.DownwardAPI.Items)
	case v.Projected != nil:
		return dir, r.projected(ctx, dir, v.Projected.Sources)
	default:
		return "", errors.New("this kind of volume is not supported by localstack")
	}
}

// claim finds the folder behind a bound claim.
func (r resolver) claim(ctx context.Context, name string) (string, error) {
	claim, err := r.client.CoreV1().PersistentVolumeClaims(r.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return "", fmt.Errorf("claim %q is not bound", name)
	}
	volume, err := r.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	switch {
	case volume.Spec.HostPath != nil:
		return volume.Spec.HostPath.Path, nil
	case volume.Spec.Local != nil:
		return volume.Spec.Local.Path, nil
	default:
		return "", fmt.Errorf("volume %q is neither a host path nor local", volume.Name)
	}
}

func (r resolver) projected(ctx context.Context, dir string, sources []corev1.VolumeProjection) error {
	for _, s := range sources {
		var err error
		switch {
		case s.Secret != nil:
			data, found, readErr := r.secret(ctx, s.Secret.Name, s.Secret.Optional)
			err = write(dir, data, s.Secret.Items, found, readErr)
		case s.ConfigMap != nil:
			data, found, readErr := r.configMap(ctx, s.ConfigMap.Name, s.ConfigMap.Optional)
			err = write(dir, data, s.ConfigMap.Items, found, readErr)
		case s.DownwardAPI != nil:
			err = r.downward(dir, s.DownwardAPI.Items)
		case s.ServiceAccountToken != nil:
			err = r.token(ctx, dir, s.ServiceAccountToken)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r resolver) downward(dir string, items []corev1.DownwardAPIVolumeFile) error {
	for _, item := range items {
		if item.FieldRef == nil {
			continue // resource limits mean nothing here.
		}
		value, err := field(r.pod, item.FieldRef.FieldPath)
		if err != nil {
			return err
		}
		if err := writeFile(dir, item.Path, value); err != nil {
			return err
		}
	}
	return nil
}

// token asks for a real token of the pod's service account.
func (r resolver) token(ctx context.Context, dir string, t *corev1.ServiceAccountTokenProjection) error {
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: r.pod.Name, UID: r.pod.UID},
	}}
	if t.Audience != "" {
		request.Spec.Audiences = []string{t.Audience}
	}
	reply, err := r.client.CoreV1().ServiceAccounts(r.pod.Namespace).CreateToken(ctx, r.pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return writeFile(dir, t.Path, reply.Status.Token)
}

// write puts the keys of a source into a folder: all of them, or the items.
func write(dir string, data map[string]string, items []corev1.KeyToPath, found bool, err error) error {
	if err != nil || !found {
		return err
	}
	if len(items) == 0 {
		for key := range data {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			return fmt.Errorf("references non-existent key: %s", item.Key)
		}
		if err := writeFile(dir, item.Path, value); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(dir, path, value string) error {
	path = filepath.Join(dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(value), 0o644)
}

// mounts says what a container sees of the volumes. Folders that a subPath
// names are made, as a kubelet makes them.
func mounts(c corev1.Container, paths, env map[string]string) ([]container.Mount, error) {
	var list []container.Mount
	for _, m := range c.VolumeMounts {
		root, ok := paths[m.Name]
		if !ok {
			return nil, fmt.Errorf("mount volume: %q: the pod has no such volume", m.Name)
		}
		sub := m.SubPath
		if m.SubPathExpr != "" {
			sub = expand([]string{m.SubPathExpr}, env)[0]
		}
		source := filepath.Join(root, sub)
		if strings.Contains(sub, "..") {
			return nil, fmt.Errorf("mount volume: %q: sub-path %q leads out of it", m.Name, sub)
		}
		if _, err := os.Stat(source); errors.Is(err, os.ErrNotExist) {
			if err := os.MkdirAll(source, 0o777); err != nil {
				return nil, fmt.Errorf("mount volume: %w", err)
			}
		}
		list = append(list, container.Mount{Source: source, Target: m.MountPath, ReadOnly: m.ReadOnly})
	}
	return list, nil
}
