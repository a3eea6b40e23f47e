package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/drupdate/drupdate/internal/update"
)

// searchAttributes are those that runs carry.
var searchAttributes = []string{update.SearchSite, update.SearchNamespace, update.SearchTarget, update.SearchPhase}

// pollSlack is how long ago the last poll of a living worker may have begun: a poll's minute, and clocks that differ.
const pollSlack = 90 * time.Second

func (s *session) checkTemporal(ctx context.Context) []finding {
	t, err := s.temporal(ctx)
	if err != nil {
		none := "Temporal cannot be reached"
		return []finding{
			wrong(checkTemporal, err, "start Temporal, or say where it is: TEMPORAL_ADDRESS, TEMPORAL_PROFILE; from outside of a cluster: kubectl port-forward"),
			skipped(checkNamespace, none), skipped(checkAttributes, none), skipped(checkWorkers, none),
		}
	}
	defer t.Close()
	ctx, cancel := context.WithTimeout(ctx, 4*temporalPatience)
	defer cancel()
	found := []finding{s.findTemporal(ctx, t)}
	ns, there := s.findNamespace(ctx, t)
	found = append(found, ns)
	if !there {
		none := "there is no namespace"
		return append(found, skipped(checkAttributes, none), skipped(checkWorkers, none))
	}
	return append(found, s.findAttributes(ctx, t), s.findWorkers(ctx, t))
}

func (s *session) findTemporal(ctx context.Context, t client.Client) finding {
	options, err := s.cfg.Temporal()
	if err != nil {
		return wrong(checkTemporal, err, "mend Temporal's settings")
	}
	info, err := t.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	if err != nil {
		return wrong(checkTemporal, s.temporalFault(err), "see Temporal's own log")
	}
	return well(checkTemporal, "Temporal %s at %s", info.GetServerVersion(), address(options))
}

func (s *session) findNamespace(ctx context.Context, t client.Client) (finding, bool) {
	name := s.temporalNamespace()
	found, err := t.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: name})
	if err != nil {
		return wrong(checkNamespace, s.temporalFault(err), s.program()+" setup temporal"), false
	}
	retention := found.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	return well(checkNamespace, "%q; runs that have ended are kept for %s", name, lasting(retention)), true
}

func (s *session) findAttributes(ctx context.Context, t client.Client) finding {
	known, err := s.knownAttributes(ctx, t)
	if err != nil {
		return wrong(checkAttributes, s.temporalFault(err), "see whether the server lets you read its search attributes")
	}
	absent, mistyped := missingAttributes(known)
	switch {
	case len(mistyped) > 0:
		return wrong(checkAttributes, fmt.Errorf("not of the type Keyword: %s", strings.Join(mistyped, ", ")), "remove them and run "+s.program()+" setup temporal")
	case len(absent) > 0:
		return wrong(checkAttributes, fmt.Errorf("not registered: %s", strings.Join(absent, ", ")), s.program()+" setup temporal")
	}
	return well(checkAttributes, "%s are registered", strings.Join(searchAttributes, ", "))
}

// knownAttributes are the search attributes of the namespace.
func (s *session) knownAttributes(ctx context.Context, t client.Client) (map[string]enumspb.IndexedValueType, error) {
	answer, err := t.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: s.temporalNamespace()})
	return answer.GetCustomAttributes(), err
}

func missingAttributes(known map[string]enumspb.IndexedValueType) (absent, mistyped []string) {
	for _, name := range searchAttributes {
		switch kind, there := known[name]; {
		case !there:
			absent = append(absent, name)
		case kind != enumspb.INDEXED_VALUE_TYPE_KEYWORD:
			mistyped = append(mistyped, name)
		}
	}
	return absent, mistyped
}

func (s *session) findWorkers(ctx context.Context, t client.Client) finding {
	var idle []string
	var builds []string
	for _, q := range []struct {
		kind enumspb.TaskQueueType
		name string
	}{{enumspb.TASK_QUEUE_TYPE_WORKFLOW, "workflows"}, {enumspb.TASK_QUEUE_TYPE_ACTIVITY, "activities"}} {
		answer, err := t.DescribeTaskQueue(ctx, s.taskQueue, q.kind)
		if err != nil {
			return wrong(checkWorkers, s.temporalFault(err), "see Temporal's own log")
		}
		pollers := polling(answer.GetPollers(), time.Now())
		if len(pollers) == 0 {
			idle = append(idle, q.name)
		}
		builds = append(builds, buildsOf(pollers)...)
	}
	if len(idle) > 0 {
		return wrong(checkWorkers, fmt.Errorf("nobody polls the task queue %q for %s", s.taskQueue, strings.Join(idle, " and ")),
			"start the worker: kubectl -n "+systemNamespace+" rollout status deploy/drupdate-worker; does it use this namespace and task queue?")
	}
	slices.Sort(builds)
	builds = slices.Compact(builds)
	detail := fmt.Sprintf("the task queue %q is polled", s.taskQueue)
	if len(builds) > 0 {
		detail += " by build " + strings.Join(builds, ", ")
	}
	return well(checkWorkers, "%s", detail)
}

// polling are those that are there still. Temporal remembers a poller for minutes after its last poll, and a poll that finds
// nothing to do lasts a minute.
func polling(pollers []*taskqueuepb.PollerInfo, now time.Time) []*taskqueuepb.PollerInfo {
	return slices.DeleteFunc(slices.Clone(pollers), func(p *taskqueuepb.PollerInfo) bool {
		return p.GetLastAccessTime() != nil && now.Sub(p.GetLastAccessTime().AsTime()) > pollSlack
	})
}

func buildsOf(pollers []*taskqueuepb.PollerInfo) []string {
	var builds []string
	for _, p := range pollers {
		build := p.GetDeploymentOptions().GetBuildId()
		if build != "" {
			builds = append(builds, cut(build, 12))
		}
	}
	return builds
}
