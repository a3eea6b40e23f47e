package worker

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.uber.org/zap"

	"github.com/drupdate/drupdate/activities"
	"github.com/drupdate/drupdate/internal/update"
)

// Limits of concurrent work, where Config does not say.
const (
	// DefaultActivities is how many activities run at once: most of them wait for the cluster, and each that waits
	// costs a few reads every three seconds.
	DefaultActivities = 200
	// mostActivities is the largest number that Config accepts.
	mostActivities = 10_000
)

// stopTimeout is how long activities may go on once the worker is told to stop. The pod's grace period is longer.
const stopTimeout = 30 * time.Second

// deploymentName is the worker's name in Temporal's list of deployments.
const deploymentName = "drupdate"

// Config is what the worker is told.
type Config struct {
	// Client is connected lazily: Temporal need not be up.
	Client client.Client
	// Activities are the steps to register.
	Activities *activities.Activities
	// TaskQueue is the queue to poll; empty means update.TaskQueue.
	TaskQueue string
	// BuildID names the build in histories; empty leaves that to the SDK. It does not turn on versioned routing: an
	// open run goes on with whichever worker there is, and workflow.GetVersion keeps it replayable.
	BuildID string
	// MaxConcurrentActivities is how many activities run at once; zero means DefaultActivities.
	MaxConcurrentActivities int
	// Log is nil for none.
	Log *zap.Logger
}

// Validate lists every problem of the configuration in one error, or returns nil.
func (c Config) Validate() error {
	var problems []error
	if c.Client == nil {
		problems = append(problems, errors.New("worker: a Temporal client is required"))
	}
	if c.Activities == nil {
		problems = append(problems, errors.New("worker: the activities are required"))
	}
	if len(c.TaskQueue) > 200 {
		problems = append(problems, fmt.Errorf("worker: task queue: %d characters: at most 200", len(c.TaskQueue)))
	}
	if c.MaxConcurrentActivities < 0 || c.MaxConcurrentActivities > mostActivities {
		problems = append(problems, fmt.Errorf("worker: concurrent activities: %d: must be 1 to %d", c.MaxConcurrentActivities, mostActivities))
	}
	return errors.Join(problems...)
}

func (c Config) taskQueue() string {
	if c.TaskQueue == "" {
		return update.TaskQueue
	}
	return c.TaskQueue
}

func (c Config) options() sdkworker.Options {
	o := sdkworker.Options{
		MaxConcurrentActivityExecutionSize: c.MaxConcurrentActivities,
		WorkerStopTimeout:                  stopTimeout,
		DisableRegistrationAliasing:        true,
	}
	if o.MaxConcurrentActivityExecutionSize == 0 {
		o.MaxConcurrentActivityExecutionSize = DefaultActivities
	}
	if c.BuildID != "" {
		o.DeploymentOptions.Version = sdkworker.WorkerDeploymentVersion{DeploymentName: deploymentName, BuildID: c.BuildID}
	}
	return o
}
