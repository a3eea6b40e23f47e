// Package metrics names what drupdate counts and times, bounds its labels, and
// hands the Temporal SDK's own metrics to the same registry.
package metrics
