// Package v1alpha1 declares the DrupalSite resource: its types, conditions,
// reasons, labels and annotations.
//
// +kubebuilder:object:generate=true
// +groupName=drupdate.dev
package v1alpha1
