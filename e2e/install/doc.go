// Package install holds the tests of how drupdate is installed, upgraded and taken away: its charts and overlays against a real
// API server, its processes in pods of the embedded stack's node, and every command of the documents about them.
package install
