// Command simsite plays a Drupal site and the tools around it; see package simsite.
package main

import (
	"os"

	"github.com/drupdate/drupdate/internal/simsite"
)

func main() {
	os.Exit(simsite.Run(os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
