// Package workflows holds deterministic code only: UpdateSite moves one site to
// its wanted release, CheckSite asks whether a site is installed and which
// database updates are pending. It calls activities by the names and types that
// package update declares, and imports neither them nor Kubernetes.
package workflows
