// Package activities holds the side effects of the workflows: each step is one
// method of Activities, named and typed by package update. Every activity is
// safe to run twice, reads live, and returns through classify.
package activities
