// Command localstack starts and stops the embedded Kubernetes and Temporal.
package main

import (
	"os"

	"github.com/drupdate/drupdate/localstack/internal/cli"
	"github.com/drupdate/drupdate/localstack/internal/container"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == container.Subcommand {
		container.Init()
	}
	os.Exit(cli.Run())
}
