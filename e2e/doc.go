// Package e2e tests the whole system on the embedded stack: a real Kubernetes
// API server and controller-manager, a real Temporal server, drupdate as a
// process, pods run by a virtual node, and simulated sites whose Drush answers
// as recorded. Its tests need the build tag e2e and the stack's environment;
// `make e2e` gives them both.
//
// With the build tag fault it is the fault suite instead, `make fault`: waves of
// sites are updated while processes are killed, streams cut and objects deleted
// as a seed draws it, and afterwards the world is compared with what must hold
// whatever happened. SEED=n repeats the wave n as it was drawn.
package e2e
