package activities

import (
	"context"

	"github.com/drupdate/drupdate/internal/drush"
	"github.com/drupdate/drupdate/internal/update"
)

// CheckInstalled asks whether Drupal is installed. Every state but Unknown rests on proof: a failed question, or a
// database that cannot be reached, never makes a site "not installed".
func (a *Activities) CheckInstalled(ctx context.Context, q update.Question) (update.Installed, error) {
	p, err := a.partner(ctx, q)
	if err != nil {
		return update.Installed{}, err
	}
	status, err := p.ask(ctx, "drush status", p.drush.Status(), statusTimeout)
	if err != nil {
		return update.Installed{}, err
	}
	if noDrush(status) {
		return update.Installed{Message: drushMissing(status).Message}, nil
	}
	record, err := p.ask(ctx, "drush sql:query install_task", p.drush.InstallTask(), queryTimeout)
	if err != nil {
		return update.Installed{}, err
	}
	return p.installed(ctx, drush.ParseBootstrap(status), record)
}

// installed draws the conclusion from the bootstrap and the record of the installation. Only where that record is
// missing does it ask for the number of tables.
func (p *partner) installed(ctx context.Context, bootstrap drush.Bootstrap, record drush.Result) (update.Installed, error) {
	task, why := drush.ParseInstallTask(record)
	var tables drush.Tables
	if task == drush.TaskNoTable || task == drush.TaskNoRow {
		var err error
		if tables, err = p.tables(ctx); err != nil {
			return update.Installed{}, err
		}
	}
	answer := update.Installed{Message: clean(why)}
	switch drush.Classify(bootstrap, task, tables) {
	case drush.Installed:
		answer.State = update.InstallDone
	case drush.Empty:
		answer.State = update.InstallEmpty
	case drush.HalfInstalled:
		answer.State = update.InstallHalf
	case drush.InstallationUnknown:
		if !bootstrap.Healthy {
			answer.Message = clean(bootstrap.Reason + "; " + why)
		}
	}
	return answer, nil
}

// tables counts the tables. A driver that cannot be told leaves the count unknown: the statement would be a guess.
func (p *partner) tables(ctx context.Context) (drush.Tables, error) {
	field, err := p.ask(ctx, "drush status db-driver", p.drush.DriverField(), statusTimeout)
	if err != nil {
		return drush.Tables{}, err
	}
	driver, known := drush.ParseDriver(field)
	if !known {
		return drush.Tables{}, nil
	}
	r, err := p.ask(ctx, "drush sql:query tables", p.drush.TableCount(driver), queryTimeout)
	if err != nil {
		return drush.Tables{}, err
	}
	count, known := drush.ParseTableCount(r)
	return drush.Tables{Count: count, Known: known}, nil
}
