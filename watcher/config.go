package watcher

import (
	"errors"
	"fmt"
	"time"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/drupdate/drupdate/internal/update"
)

// How long the watcher waits, and why.
const (
	// resendAfter is when drift that persists after a signal is looked at again; it doubles with each signal that changed nothing, up to resendMost.
	resendAfter = time.Minute
	resendMost  = 10 * time.Minute
	// askRunEvery is how often Temporal is asked whether the run of a site in progress is still open: a terminated run is noticed within a minute.
	askRunEvery = 30 * time.Second
	// secretPoll is how often a missing Secret is looked for: Secrets are not watched, since a cache would hold all of them.
	secretPoll = 30 * time.Second
	// conflictPoll is how often the loser of a conflict looks again; a deleted Deployment wakes it earlier.
	conflictPoll = time.Minute
	// refusedRetry is how often a child that the API server refused is tried again: quotas and admission rules change without an event here.
	refusedRetry = 2 * time.Minute
	// staleRetry is when a decision that the live objects did not confirm is made again; the cache has caught up long before.
	staleRetry = 5 * time.Second
	// outageFirst and outageMost bound the back-off while Temporal cannot be reached.
	outageFirst = 5 * time.Second
	outageMost  = 2 * time.Minute
	// scheduleLook is how often Temporal is told a site's schedule again: a database that was lost must not end backups unnoticed.
	scheduleLook = time.Hour
	// callTimeout limits one call to Temporal: a reconcile must not wait for an orchestrator in trouble.
	callTimeout = 3 * time.Second
	// reconcileTimeout limits a whole reconcile.
	reconcileTimeout = 30 * time.Second
	// failureFirst and failureMost bound the rate limiter of reconciles that return an error: its run must be asked about in time all the same.
	failureFirst = time.Second
	failureMost  = askRunEvery
)

// DefaultConcurrency is how many sites are reconciled at once unless configured otherwise.
const DefaultConcurrency = 4

// Config is what the watcher is told. The zero value is valid: every namespace, the default task queue.
type Config struct {
	// TaskQueue is the queue that runs are put on; empty means update.TaskQueue.
	TaskQueue string
	// Namespaces are the namespaces to watch; none means all of them.
	Namespaces []string
	// Concurrency is how many sites are reconciled at once, 1 to 64; zero means DefaultConcurrency.
	Concurrency int
}

// Validate lists every problem of the configuration in one error, or returns nil.
func (c Config) Validate() error {
	var problems []error
	if len(c.TaskQueue) > 200 {
		problems = append(problems, fmt.Errorf("task queue: %d characters: at most 200", len(c.TaskQueue)))
	}
	if c.Concurrency < 0 || c.Concurrency > 64 {
		problems = append(problems, fmt.Errorf("concurrency: %d: must be 1 to 64", c.Concurrency))
	}
	seen := map[string]bool{}
	for _, ns := range c.Namespaces {
		if errs := utilvalidation.IsDNS1123Label(ns); len(errs) > 0 {
			problems = append(problems, fmt.Errorf("namespace: %q: %s", ns, errs[0]))
		}
		if seen[ns] {
			problems = append(problems, fmt.Errorf("namespace: %q: named twice", ns))
		}
		seen[ns] = true
	}
	return errors.Join(problems...)
}

func (c Config) taskQueue() string {
	if c.TaskQueue == "" {
		return update.TaskQueue
	}
	return c.TaskQueue
}

func (c Config) concurrency() int {
	if c.Concurrency == 0 {
		return DefaultConcurrency
	}
	return c.Concurrency
}
