//go:build e2e && !fault

package e2e

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// TestARunCanBeUnderstoodFromItsPageAlone reads what a browser shows of a run that ended well, of one that rolled back and
// of one that waits. It needs Chromium, and is skipped where there is none.
func TestARunCanBeUnderstoodFromItsPageAlone(t *testing.T) {
	t.Parallel()
	chromium := startBrowser(t)

	t.Run("a success", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		w.want(updating)
		page := w.ends(updating, update.PhaseSucceeded).Status.Run.URL
		require.Contains(t, page, "/workflows/site%2F"+w.ns+"%2Fblog/")
		w.pageTells(chromium, page, "Completed", "site/"+w.ns+"/blog",
			"wait for the pods of 10.3.6, at most "+rolloutLimit.String(), "drush cache:rebuild, attempt 1 of 2", "drush updatedb:status",
			"UpdatingDatabase: Updating the database under maintenance mode.",
			"back up, then drush updatedb of 10.3.6, under maintenance mode, at most "+databaseLimit.String(),
			"Succeeded: The site runs 10.3.6.")
		w.detailsTell("10.3.1 → 10.3.6", "The site runs 10.3.6.", "kubectl -n "+w.ns+" logs job/blog-update-")
		require.True(t, slices.ContainsFunc(w.workerEvents(), func(e corev1.Event) bool {
			return e.Reason == "UpdateSucceeded" && strings.HasSuffix(e.Message, page)
		}), "the Event leads to the page")
	})

	t.Run("a rollback", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		w.want(broken)
		page := w.ends(broken, update.PhaseRolledBack).Status.Run.URL
		w.pageTells(chromium, page, "Failed", "drush cache:rebuild, attempt 2 of 2",
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
		w.pageTells(chromium, page, "Running", "The update window is closed; it opens at "+opens)
		w.detailsTell("10.3.1 → "+updating, "Waiting", "opens at "+opens, "Signal `abort` gives it up.")
		require.Empty(t, w.site().Annotations[v1alpha1.AnnotationUpdateInProgress], "nothing is marked while a run waits")
	})
}

// browser is Chromium without a window.
type browser struct {
	// tab opens a page to run actions on; the returned function closes it.
	tab func() (context.Context, context.CancelFunc)
}

func startBrowser(t *testing.T) *browser {
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
	first, closed := chromedp.NewContext(allocator)
	t.Cleanup(closed)
	_, err := chromedp.Run(first, chromedp.Navigate("about:blank"))
	require.NoError(t, err)
	return &browser{tab: func() (context.Context, context.CancelFunc) { return chromedp.NewContext(first) }}
}

// open shows a page in a tab of its own. What it returns reads the page as it is then, on one line.
func (b *browser) open(t *testing.T, page string) (read func() (string, error)) {
	t.Helper()
	tab, done := b.tab()
	t.Cleanup(done)
	_, err := chromedp.Run(tab, chromedp.Navigate("about:blank")) // the first action must have no limit: that would be the browser's
	require.NoError(t, err)
	_, err = limited(tab, chromedp.Navigate(page))
	require.NoError(t, err, page)
	return func() (string, error) {
		shown, err := limited(tab, chromedp.Text("body"))
		return strings.Join(strings.Fields(shown), " "), err
	}
}

// limited runs an action with a limit of its own: one for all looks at a page would end the last of them, which is the one
// that says what is missing.
func limited[T any](tab context.Context, action chromedp.Action[T]) (T, error) {
	limited, cancel := context.WithTimeout(tab, time.Minute)
	defer cancel()
	return chromedp.Run(limited, action)
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
		return showsAll(metadata.GetCurrentDetails(), texts)
	})
}

// pageTells asserts that a page shows texts. The UI loads its parts one by one, so they are waited for.
func (w *world) pageTells(b *browser, page string, texts ...string) {
	w.Helper()
	read := b.open(w.T, page)
	w.eventually(page, func() error {
		shown, err := read()
		if err != nil {
			return err
		}
		return showsAll(shown, texts)
	})
}

// showsAll is an error that names the texts which are not shown.
func showsAll(shown string, texts []string) error {
	missing := slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return strings.Contains(shown, text) })
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("it does not show %s; it shows %s", strings.Join(missing, " | "), shown)
}
