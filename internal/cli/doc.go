// Package cli is what people do with drupdate from a terminal: see how the sites
// are, ask for updates, hold, give up and retry them, read what happened, and
// find out what is wrong with an installation. Nothing here can do what kubectl
// or temporal cannot: a verb reads and patches the resource, or sends the run
// one of its signals. docs/operations.md has them side by side.
//
// Exit codes: 0, it is done; 1, it failed; 2, it was not understood.
package cli
