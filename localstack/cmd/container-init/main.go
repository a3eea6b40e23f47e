// Command container-init is the first process of a container. It is a program
// of its own because every container and every exec starts one: localstack
// itself, which holds a Kubernetes client, costs four times as much.
package main

import "github.com/drupdate/drupdate/localstack/internal/container"

func main() { container.Init() }
