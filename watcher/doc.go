// Package watcher keeps DrupalSites in view: it creates their children, puts
// the image of their containers back, sees that a site drifted from its wanted
// release, and asks Temporal for a run. It never executes anything in a pod and
// never waits for a run.
package watcher
