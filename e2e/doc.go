// Package e2e tests the whole system on the embedded stack: a real Kubernetes
// API server and controller-manager, a real Temporal server, drupdate as a
// process, pods run by a virtual node, and simulated sites whose Drush answers
// as recorded. Its tests need the build tag e2e and the stack's environment;
// `make e2e` gives them both.
package e2e
