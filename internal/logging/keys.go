package logging

import (
	"regexp"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Keys of log entries. Every entry about a site has KeyNamespace and KeySite, every entry about a run KeyWorkflowID and
// KeyRunID besides, whichever library wrote it.
const (
	KeyNamespace  = "namespace"
	KeySite       = "site"
	KeyRelease    = "release"
	KeyPhase      = "phase"
	KeyReason     = "reason"
	KeyOperation  = "operation"
	KeyJob        = "job"
	KeyOutcome    = "outcome"
	KeyActivity   = "activity"
	KeyStep       = "step"
	KeyCause      = "cause"
	KeyWorkflowID = "workflow_id"
	KeyRunID      = "run_id"
	KeyTaskQueue  = "task_queue"
	KeyError      = "error"
)

// temporalKeys are the SDK's names where they are not ours in another case. Its namespace is not a site's.
var temporalKeys = map[string]string{"Namespace": "temporal_namespace", "ActivityType": KeyActivity}

// controllerKeys are controller-runtime's. The object of a reconcile is a site, which it names twice.
var controllerKeys = map[string]string{"name": KeySite, "DrupalSite": "", "err": KeyError}

// kubernetesKeys are client-go's.
var kubernetesKeys = map[string]string{"err": KeyError}

// keyed is a core that gives the fields of a library our keys: names that are mapped get their own, those that are
// mapped to the empty name are left out, and all others are written in snake case.
type keyed struct {
	zapcore.Core
	names map[string]string
	// sites adds the site that a workflow's id tells.
	sites bool
}

func (k keyed) With(fields []zapcore.Field) zapcore.Core {
	return keyed{Core: k.Core.With(k.rename(fields)), names: k.names, sites: k.sites}
}

func (k keyed) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if k.Enabled(e.Level) {
		return ce.AddCore(e, k)
	}
	return ce
}

func (k keyed) Write(e zapcore.Entry, fields []zapcore.Field) error {
	return k.Core.Write(e, k.rename(fields))
}

func (k keyed) rename(fields []zapcore.Field) []zapcore.Field {
	out := make([]zapcore.Field, 0, len(fields)+2)
	for _, f := range fields {
		name, mapped := k.names[f.Key]
		switch {
		case mapped && name == "":
			continue
		case mapped:
			f.Key = name
		default:
			f.Key = snake(f.Key)
		}
		if k.sites && f.Key == KeyWorkflowID && f.Type == zapcore.StringType {
			out = append(out, siteOf(f.String)...)
		}
		out = append(out, f)
	}
	return out
}

// siteOf are the fields of the site that a workflow id belongs to: "site/NAMESPACE/NAME" and its like.
func siteOf(workflowID string) []zapcore.Field {
	parts := strings.SplitN(workflowID, "/", 4)
	if len(parts) < 3 {
		return nil
	}
	return []zapcore.Field{zap.String(KeyNamespace, parts[1]), zap.String(KeySite, parts[2])}
}

// Where a word ends in a name: before a capital after a small letter, and before the last of several capitals.
var (
	wordEnd    = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	acronymEnd = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
	separators = strings.NewReplacer("-", "_", ".", "_", " ", "_", "/", "_")
)

// snake writes a name in snake case: RunID is run_id.
func snake(name string) string {
	name = acronymEnd.ReplaceAllString(wordEnd.ReplaceAllString(name, "${1}_${2}"), "${1}_${2}")
	return strings.ToLower(separators.Replace(name))
}
