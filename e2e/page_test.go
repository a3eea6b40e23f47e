//go:build e2e && !fault

package e2e

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// TestARunCanBeUnderstoodFromItsPageAlone reads what a browser shows of a run that ended well, of one that rolled back and
// of one that waits. It needs Chromium, and is skipped where there is none.
func TestARunCanBeUnderstoodFromItsPageAlone(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)

	t.Run("a success", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		w.want(updating)
		page := w.ends(updating, update.PhaseSucceeded).Status.Run.URL
		require.Contains(t, page, "/workflows/site%2F"+w.ns+"%2Fblog/")
		w.pageTells(browser, page, "Completed", "site/"+w.ns+"/blog",
			"wait for the pods of 10.3.6, at most 2m0s", "drush cache:rebuild, attempt 1 of 2", "drush updatedb:status",
			"UpdatingDatabase: Updating the database under maintenance mode.",
			"back up, then drush updatedb of 10.3.6, under maintenance mode, at most 5m0s",
			"Succeeded: The site runs 10.3.6.")
		w.detailsTell("10.3.1 → 10.3.6", "The site runs 10.3.6.", "kubectl -n "+w.ns+" logs job/blog-update-")
		require.Contains(t, w.events("UpdateSucceeded"), page, "the Event leads to the page")
	})

	t.Run("a rollback", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		w.want(broken)
		page := w.ends(broken, update.PhaseRolledBack).Status.Run.URL
		w.pageTells(browser, page, "Failed", "drush cache:rebuild, attempt 2 of 2",
			"RollingBack: The update to "+broken+" failed: drush cache:rebuild failed:",
			"set the Deployment's image to 10.3.1", "RolledBack: The update to "+broken+" failed")
		w.detailsTell("10.3.1 → "+broken, "Rolled back to 10.3.1.", "This release is not tried again until the spec changes",
			"kubectl -n "+w.ns+" describe dsite blog")
	})

	t.Run("a wait", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		// A window that was open an hour ago opens again in a day.
		at := time.Now().UTC().Add(-time.Hour)
		w.patch(w.object(), `{"spec":{"update":{"window":{"schedule":"`+at.Format("4 15")+` * * *","duration":"10m","timeZone":"UTC"}}}}`)
		w.want(updating)
		var run string
		w.eventually("a run waits", func() error {
			found, err := temporal.DescribeWorkflow(w.Context(), update.Site{Namespace: w.ns, Name: w.name}.UpdateID(), "")
			if err == nil && found.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
				err = errors.New("no run is open")
			}
			if err == nil {
				run = found.WorkflowExecution.RunID
			}
			return err
		})
		page := pageOf(update.Site{Namespace: w.ns, Name: w.name}.UpdateID(), run)
		opens := at.Add(24 * time.Hour).Format("2006-01-02 15:04 UTC")
		w.pageTells(browser, page, "Running", "The update window is closed; it opens at "+opens)
		w.detailsTell("10.3.1 → "+updating, "Waiting", "opens at "+opens, "Signal `abort` gives it up.")
		require.Empty(t, w.site().Annotations[v1alpha1.AnnotationUpdateInProgress], "nothing is marked while a run waits")
	})
}

// events are the messages of the site's Events with a reason, one a line.
func (w *world) events(reason string) string {
	w.Helper()
	var list corev1.EventList
	require.NoError(w, cluster.List(w.Context(), &list, kube.InNamespace(w.ns)))
	var said []string
	for i := range list.Items {
		if e := &list.Items[i]; e.InvolvedObject.Kind == "DrupalSite" && e.Reason == reason {
			said = append(said, e.Message)
		}
	}
	return strings.Join(said, "\n")
}

// startBrowser starts Chromium without a window; its tabs are made from the context.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	if !slices.ContainsFunc([]string{"chromium", "chromium-browser", "google-chrome"}, func(name string) bool {
		_, err := exec.LookPath(name)
		return err == nil
	}) {
		t.Skip("no Chromium on this machine")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.NoSandbox, chromedp.WindowSize(1600, 4000),
		chromedp.WSURLReadTimeout(time.Minute))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	browser, closed := chromedp.NewContext(allocator)
	t.Cleanup(closed)
	_, err := chromedp.Run(browser, chromedp.Navigate("about:blank"))
	require.NoError(t, err)
	return browser
}

// pageOf is where the Web UI of the stack shows a run.
func pageOf(workflow, run string) string {
	return os.Getenv("TEMPORAL_UI") + "/namespaces/default/workflows/" + url.PathEscape(workflow) + "/" + run + "/history"
}

// detailsTell asserts what the newest run says of itself: the Markdown that the page shows in a frame of its own.
func (w *world) detailsTell(texts ...string) {
	w.Helper()
	id := update.Site{Namespace: w.ns, Name: w.name}.UpdateID()
	w.eventually("details of "+id, func() error {
		value, err := temporal.QueryWorkflow(w.Context(), id, "", "__temporal_workflow_metadata")
		if err != nil {
			return err
		}
		var metadata sdkpb.WorkflowMetadata
		if err := value.Get(&metadata); err != nil {
			return err
		}
		for _, text := range texts {
			if !strings.Contains(metadata.GetCurrentDetails(), text) {
				return &unseen{[]string{text}, metadata.GetCurrentDetails()}
			}
		}
		return nil
	})
}

// pageTells asserts that a page shows texts. The UI loads its parts one by one, so they are waited for.
func (w *world) pageTells(browser context.Context, page string, texts ...string) {
	w.Helper()
	tab, done := chromedp.NewContext(browser)
	defer done()
	_, err := chromedp.Run(tab, chromedp.Navigate("about:blank"))
	require.NoError(w, err)
	limited, cancel := context.WithTimeout(tab, patience)
	defer cancel()
	_, err = chromedp.Run(limited, chromedp.Navigate(page))
	require.NoError(w, err, page)
	w.eventually(page, func() error {
		shown, err := chromedp.Run(limited, chromedp.Text("body"))
		if err != nil {
			return err
		}
		shown = strings.Join(strings.Fields(shown), " ")
		var missing []string
		for _, text := range texts {
			if !strings.Contains(shown, text) {
				missing = append(missing, text)
			}
		}
		if missing != nil {
			return &unseen{missing, shown}
		}
		return nil
	})
}

// unseen says which texts a page does not show.
type unseen struct {
	texts []string
	shown string
}

func (u *unseen) Error() string {
	return "the page does not show " + strings.Join(u.texts, " | ") + "; it shows " + u.shown
}
