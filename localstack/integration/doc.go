// Package integration holds the tests that need a running stack. They have the
// build tag integration.
package integration
