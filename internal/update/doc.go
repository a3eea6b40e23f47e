// Package update is the contract between workflows, activities and watcher:
// requests, results, activity names and their types, failure types, workflow
// ids, signal and query names. It imports the standard library only. What it
// names is stored in workflow histories: fields and constants are added, and
// never renamed or retyped.
package update
