//go:build e2e && !fault

package e2e

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	payloads "go.temporal.io/api/proxy"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/e2e/rights"
	"github.com/drupdate/drupdate/internal/codec"
	"github.com/drupdate/drupdate/internal/update"
)

// apartNamespace is where a drupdate is that serves one namespace only.
const apartNamespace = "drupdate-apart"

// apart runs a scene with a drupdate that has deploy/overlays/namespaced for the world's namespace and no rights
// elsewhere, and a key for its payloads. The one of the suite stands still meanwhile.
func (w *world) apart(keys string, scene func()) {
	w.Helper()
	_, err := installAs(w.Context(), "../deploy/overlays/namespaced", apartNamespace, "drupal-sites", w.ns)
	require.NoError(w, err)
	require.NoError(w, watcher.stop())
	require.NoError(w, worker.stop())
	var apart []*process
	for role, port := range map[string]int{"watcher": watcherPort, "worker": workerPort} {
		p := newProcess(port, kubeconfigOf(apartNamespace, "drupdate-"+role), role,
			"--watch-namespaces", w.ns, "--codec-keys", keys, "--task-queue", "apart")
		require.NoError(w, p.run())
		apart = append(apart, p)
	}
	defer func() {
		for _, p := range apart {
			require.NoError(w, p.stop())
		}
		var err error
		watcher, err = startWatcher()
		require.NoError(w, err)
		worker, err = startWorker()
		require.NoError(w, err)
	}()
	scene()
}

// Not parallel: the suite's own drupdate, which serves every namespace and has no key, is stopped.
func TestSitesOfOtherNamespacesAreLeftAloneAndHistoriesAreEncrypted(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	keys := t.TempDir()
	key := make([]byte, 32)
	_, err := rand.Read(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(keys, "2026-01"), []byte(base64.StdEncoding.EncodeToString(key)), 0o600))
	w.install()
	w.apart(keys, func() {
		other.create()
		w.create()
		w.ends(baseline, update.PhaseSucceeded)
		w.want("10.3.6")
		w.ends("10.3.6", update.PhaseSucceeded)
		w.serves("10.3.6")
		w.want("10.4.0-cr-broken")
		failed := w.ends("10.4.0-cr-broken", update.PhaseRolledBack).Status.Run

		left := other.site()
		require.Empty(t, left.Status.Conditions)
		_, err := other.deployment()
		require.True(t, apierrors.IsNotFound(err), "nothing was made for it: %v", err)

		w.closes(failed, enums.WORKFLOW_EXECUTION_STATUS_FAILED)
		requireEncrypted(t, failed)
		w.decrypts(keys, failed)
	})
	w.askedOnlyItsNamespaces()
}

// requireEncrypted reads a history as the server has it: without a key.
func requireEncrypted(t *testing.T, run *v1alpha1.RunStatus) {
	t.Helper()
	h := rawHistory(t, run)
	raw, err := protojson.Marshal(h)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "no_such.service", "what Drush said is in a failure, and failures are encrypted")
	count := 0
	err = payloads.VisitPayloads(t.Context(), h, payloads.VisitPayloadsOptions{
		SkipSearchAttributes: true,
		Visitor: func(_ *payloads.VisitPayloadsContext, payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
			for _, p := range payloads {
				count++
				require.Equal(t, codec.Encoding, string(p.Metadata[converter.MetadataEncoding]))
				for _, word := range []string{"blog", "10.4.0", "registry.example"} {
					require.NotContains(t, string(p.Data), word)
				}
			}
			return payloads, nil
		},
	})
	require.NoError(t, err)
	require.Greater(t, count, 20)
}

func rawHistory(t *testing.T, run *v1alpha1.RunStatus) *history.History {
	t.Helper()
	h := &history.History{}
	events := temporal.GetWorkflowHistory(t.Context(), run.WorkflowID, run.RunID, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(t, err)
		h.Events = append(h.Events, event)
	}
	return h
}

// decrypts reads the history as an operator does, who has the key.
func (w *world) decrypts(keys string, run *v1alpha1.RunStatus) {
	w.Helper()
	const address = "127.0.0.1:18095"
	server := newProcess(0, "", "codec-server")
	server.command.Args = append(server.command.Args[:2], "--codec-keys", keys, "--addr", address)
	server.ready = func() error {
		request, err := http.NewRequestWithContext(w.Context(), http.MethodOptions, "http://"+address+"/decode", http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	require.NoError(w, server.run())
	show := []string{"workflow", "show", "--workflow-id", run.WorkflowID, "--run-id", run.RunID, "-o", "json"}
	require.False(w, tells(w.cli(show...), "no_such.service"))
	require.True(w, tells(w.cli(append(show, "--codec-endpoint", "http://"+address)...), "no_such.service"))
	require.NoError(w, server.stop())
}

var payload = regexp.MustCompile(`"data": "([A-Za-z0-9+/=]+)"`)

// tells looks for a word in a history as the temporal command prints it: payloads are in base64.
func tells(history, word string) bool {
	for _, found := range payload.FindAllStringSubmatch(history, -1) {
		if raw, err := base64.StdEncoding.DecodeString(found[1]); err == nil && strings.Contains(string(raw), word) {
			return true
		}
	}
	return strings.Contains(history, word)
}

// askedOnlyItsNamespaces looks the requests of the drupdate that served one namespace up in the audit log.
func (w *world) askedOnlyItsNamespaces() {
	w.Helper()
	requests, err := requestsOf(rights.Account(apartNamespace, ""))
	require.NoError(w, err)
	require.NotEmpty(w, requests)
	watched := 0
	for r, n := range requests {
		if r.Resource.Group == "" && r.Namespace == "" && (r.Resource.Name == "/api" || r.Resource.Name == "/apis") {
			continue // Which kinds there are.
		}
		require.Contains(w, []string{w.ns, apartNamespace}, r.Namespace, "%d times: %+v", n, r)
		require.Empty(w, r.Refused)
		if r.Verb == "watch" {
			watched++
		}
	}
	require.Positive(w, watched)
}
