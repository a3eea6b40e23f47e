// Package worker builds one Temporal worker from a Config, registers the
// workflows and activities, and runs it until the context ends.
package worker
