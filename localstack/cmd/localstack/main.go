// Command localstack starts and stops the embedded Kubernetes and Temporal.
package main

import (
	"os"

	"github.com/drupdate/drupdate/localstack/internal/cli"
)

func main() { os.Exit(cli.Run()) }
