package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

const (
	storageClass    = "local"
	provisionerName = "localstack.drupdate.dev/folder"
)

// folders makes a folder for every claim. Any pod of the one node can mount
// it, so every access mode is true.
type folders struct{ root string }

// Provision makes the folder of a claim and describes it.
func (f folders) Provision(_ context.Context, o controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	path := filepath.Join(f.root, strings.Join([]string{o.PVC.Namespace, o.PVC.Name, o.PVName}, "-"))
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("provision volume: %w", err)
	}
	if err := os.Chmod(path, 0o777); err != nil { // the umask took bits away.
		return nil, controller.ProvisioningFinished, fmt.Errorf("provision volume: %w", err)
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *o.StorageClass.ReclaimPolicy,
			AccessModes:                   o.PVC.Spec.AccessModes,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: o.PVC.Spec.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}},
		},
	}, controller.ProvisioningFinished, nil
}

// Delete removes the folder of a volume with what is in it.
func (f folders) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	path := volume.Spec.HostPath.Path
	if filepath.Dir(path) != filepath.Clean(f.root) {
		return fmt.Errorf("delete volume: %q: it is not in %q", path, f.root)
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("delete volume: %w", err)
	}
	return nil
}

// provision runs the provisioner and its storage class until the context ends.
func provision(ctx context.Context, client kubernetes.Interface, root string) error {
	immediate, reclaim := storagev1.VolumeBindingImmediate, corev1.PersistentVolumeReclaimDelete
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        storageClass,
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner: provisionerName, VolumeBindingMode: &immediate, ReclaimPolicy: &reclaim,
	}
	if _, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create storage class: %q: %w", storageClass, err)
	}
	go controller.NewProvisionController(ctx, client, provisionerName, folders{root: root},
		controller.LeaderElection(false), controller.Threadiness(8)).Run(ctx)
	return nil
}
