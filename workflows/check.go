package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/internal/update"
)

// checkRounds limits one execution's history; the watcher starts another while the site still needs one.
const checkRounds = 20

// CheckSite asks until Drupal is known to be installed, installs it once where the spec asks and the database is provably
// empty, and confirms or removes DBUpdatesPending while no run is open. It never updates anything.
func CheckSite(ctx workflow.Context, req update.CheckRequest) error {
	c := &check{site: req.Site, ctx: ctx}
	pause := 5 * time.Second
	for range checkRounds {
		done, err := c.round()
		if done || siteGone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := workflow.Sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(pause*2, 5*time.Minute)
	}
	return nil
}

type check struct {
	site  update.Site
	ctx   workflow.Context
	state update.State
}

// round looks once; done means that there is nothing more to ask.
func (c *check) round() (done bool, err error) {
	c.state, err = call(c.ctx, quick(), "look at the site", update.Inspect, c.site)
	if err != nil || c.state.Gone || c.state.InProgress {
		return true, err
	}
	c.site = c.state.Site
	if !c.state.Initialized {
		return c.installed()
	}
	if c.state.Pending == "" || c.state.DatabaseFailed != "" {
		return true, nil
	}
	return c.pending()
}

// installed sets Initialized by proof only: what cannot be told stays Unknown and is asked again.
func (c *check) installed() (done bool, err error) {
	question := update.Question{Site: c.site, Release: c.state.Workload.Release, AllowNotReady: true}
	answer, err := call(c.ctx, asking(), "ask whether Drupal is installed", update.CheckInstalled, question)
	if siteGone(err) {
		return true, err
	}
	if err != nil {
		answer = update.Installed{Message: explain(err)}
	}
	switch answer.State {
	case update.InstallDone:
		return true, c.set(update.ConditionInitialized, update.True, update.ReasonInstalled, "Drupal is installed.")
	case update.InstallHalf:
		return false, c.set(update.ConditionInitialized, update.False, update.ReasonHalfInstalled, "An installation was begun and not finished; drupdate does not touch it.")
	case update.InstallEmpty:
		if c.state.InstallProfile == "" {
			return false, c.set(update.ConditionInitialized, update.False, update.ReasonNotInstalled, "The database is empty; set spec.install, or install the site yourself.")
		}
		return c.install()
	default:
		return false, c.set(update.ConditionInitialized, update.Maybe, update.ReasonProbeFailed, "It cannot be told whether Drupal is installed: "+sentence(answer.Message))
	}
}

// install runs site:install once per site and resource: the operation is named after the resource, so a second round finds the first Job.
func (c *check) install() (done bool, err error) {
	limit := c.state.Settings.DatabaseTimeout
	result, err := call(c.ctx, watching(limit), "install Drupal in the empty database", update.RunOperation, update.Operation{
		Site: c.site, Kind: update.OperationInstall, RunID: c.site.UID, Release: c.state.Workload.Release,
		Profile: c.state.InstallProfile, Timeout: limit, BackupName: update.BackupName(c.site, "", c.site.UID),
		Unsecured: !c.state.Settings.Backup,
	})
	if err != nil {
		return false, err
	}
	switch result.Outcome {
	case update.Succeeded:
		return true, c.set(update.ConditionInitialized, update.True, update.ReasonInstalled, "Drupal was installed.")
	case update.Unknown:
		return false, c.set(update.ConditionInitialized, update.Maybe, update.ReasonProbeFailed,
			"It cannot be told whether Drupal was installed: "+sentence(result.Message))
	case update.Failed:
	}
	return false, c.set(update.ConditionInitialized, update.False, update.ReasonInstallFailed, "The installation failed: "+sentence(result.Message))
}

// pending confirms or removes DBUpdatesPending.
func (c *check) pending() (done bool, err error) {
	pending, err := call(c.ctx, asking(), "drush updatedb:status", update.PendingUpdates, update.Question{Site: c.site, Release: c.state.Workload.Release})
	if siteGone(err) {
		return true, err
	}
	if err != nil {
		pending = update.Pending{Message: explain(err)}
	}
	switch pending.State {
	case update.PendingNone:
		report := update.Report{Site: c.site, OnlyIdle: true, Remove: []string{update.ConditionDBUpdatesPending}}
		_, err := call(c.ctx, quick(), "nothing is pending: remove the condition", update.WriteReport, report)
		return true, err
	case update.PendingSome:
		return true, c.set(update.ConditionDBUpdatesPending, update.True, update.ReasonUpdatesConfirmed, "Drush reports pending database updates.")
	case update.PendingAhead:
		return false, c.set(update.ConditionDBUpdatesPending, update.Maybe, update.ReasonDatabaseAhead, sentence(pending.Message))
	default:
		return false, c.set(update.ConditionDBUpdatesPending, update.Maybe, update.ReasonProbeFailed, sentence(pending.Message))
	}
}

func (c *check) set(kind, status, reason, message string) error {
	report := update.Report{
		Site: c.site, OnlyIdle: true,
		Set: []update.Condition{{Type: kind, Status: status, Reason: reason, Message: message}},
	}
	_, err := call(c.ctx, quick(), "write the condition "+kind, update.WriteReport, report)
	return err
}
