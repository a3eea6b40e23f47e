// Command demo shows drupdate at work on the embedded stack: six sites move from
// one release to another that is good, needs database updates, or fails in one
// of four ways, and each ends as announced.
package main
