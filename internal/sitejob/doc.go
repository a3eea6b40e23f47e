// Package sitejob makes the Jobs that do what must happen once on a site: back up and update its database, restore
// it, install it, lift its maintenance mode; and it reads their verdicts.
//
// The package is pure save for the constant script that the Jobs run. A Job is made from the site's own live pod
// template, its name follows from site, run and step, and its verdict is read from the API: from the Job's conditions
// and the termination message that the script writes at each step.
package sitejob
