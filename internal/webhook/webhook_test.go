package webhook

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drupdate/drupdate/internal/update"
)

var told = update.Notification{
	ID: "r1-5", Kind: update.NotifyFailed, Time: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC),
	Site: update.Site{Namespace: "sites", Name: "blog", UID: "u"}, Release: "2.0", From: "1.0", Phase: update.PhaseRolledBack,
	Reason: "CrashLoopBackOff", Message: "It crashed.", WorkflowID: "site/sites/blog", RunID: "r1",
}

func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestARequestIsASignedCloudEvent(t *testing.T) {
	t.Parallel()
	var request *http.Request
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request = r
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	s, err := New(server.URL+"/hook?token=t0ken", secretFile(t, "k3y\n"))
	require.NoError(t, err)
	s.now = func() time.Time { return time.Unix(1777896000, 0) }
	require.NoError(t, s.Send(t.Context(), told))

	require.Equal(t, http.MethodPost, request.Method)
	require.Equal(t, "/hook?token=t0ken", request.URL.String())
	require.Equal(t, "application/cloudevents+json; charset=utf-8", request.Header.Get("Content-Type"))
	require.JSONEq(t, `{
		"specversion": "1.0", "id": "r1-5", "type": "dev.drupdate.update.failed", "subject": "sites/blog",
		"source": "/apis/drupdate.dev/v1alpha1/namespaces/sites/drupalsites/blog", "time": "2026-05-04T12:00:00Z",
		"datacontenttype": "application/json",
		"data": {"namespace": "sites", "site": "blog", "uid": "u", "release": "2.0", "failsafe": "1.0", "phase": "RolledBack",
			"reason": "CrashLoopBackOff", "message": "It crashed.", "workflowID": "site/sites/blog", "runID": "r1"}
	}`, string(body))
	require.Equal(t, "1777896000", request.Header.Get(HeaderTimestamp))
	require.Equal(t, Sign([]byte("k3y"), "1777896000", body), request.Header.Get(HeaderSignature))
	require.NotEqual(t, Sign([]byte("k3y"), "1777896001", body), request.Header.Get(HeaderSignature), "the time is part of what is signed")
}

// The example of docs/operations.md, computed by openssl.
func TestTheSignatureIsTheDocumentedOne(t *testing.T) {
	t.Parallel()
	require.Equal(t, "sha256=42fb5df0ae33355150a04367ce739c89a3d2e9f633456e9c4a7fb77502b55288", Sign([]byte("k3y"), "1777896000", []byte(`{"id":"r1-5"}`)))
}

func TestNoErrorTellsTheAddressOrTheSecret(t *testing.T) {
	t.Parallel()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere.example/t0ken", http.StatusFound)
	}))
	defer refusing.Close()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for want, address := range map[string]string{
		"webhook: it answers with status 302":             refusing.URL + "/t0ken",
		"webhook: no answer: connect: connection refused": closed.URL + "/t0ken",
	} {
		s, err := New(address, secretFile(t, "k3y"))
		require.NoError(t, err)
		require.EqualError(t, s.Send(t.Context(), told), want)
	}
	s, err := New(refusing.URL, secretFile(t, "k3y"))
	require.NoError(t, err)
	s.secretFile = "/nowhere/k3y"
	require.ErrorIs(t, s.Send(t.Context(), told), errSecret)
	require.EqualError(t, Check("ftp://t0ken", "x"), "webhook: the address is not one of http or https")
	require.ErrorIs(t, Check("https://hook.example", secretFile(t, "\n")), errSecret)
}

func TestASecretThatWasChangedIsTaken(t *testing.T) {
	t.Parallel()
	var signature, stamp string
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		signature, stamp = r.Header.Get(HeaderSignature), r.Header.Get(HeaderTimestamp)
		body, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	file := secretFile(t, "old")
	s, err := New(server.URL, file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte("new"), 0o600))
	require.NoError(t, s.Send(t.Context(), told))
	require.True(t, json.Valid(body))
	require.Equal(t, Sign([]byte("new"), stamp, body), signature)
}
