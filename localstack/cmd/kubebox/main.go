// Command kubebox is the embedded Kubernetes control plane as one multi-call
// binary: the name it is called by, or its first argument, picks the component.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // cron schedules name time zones, and a bare machine may have none.

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"          // the log format flag of the components.
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics of the components.
	_ "k8s.io/component-base/metrics/prometheus/version"  // build metrics of the components.
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var components = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          func() { run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() { run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() { run(scheduler.NewSchedulerCommand()) },
	"kubectl":                 kubectl,
}

func run(c *cobra.Command) { os.Exit(cli.Run(c)) }

func kubectl() {
	if _, err := logs.GlogSetter(kubectlcmd.GetLogVerbosity(os.Args)); err != nil {
		fmt.Fprintln(os.Stderr, "kubectl: log verbosity:", err)
	}
	if err := cli.RunNoErrOutput(kubectlcmd.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}

func main() {
	if component, ok := components[filepath.Base(os.Args[0])]; ok {
		component()
		return
	}
	if len(os.Args) > 1 {
		if component, ok := components[os.Args[1]]; ok {
			os.Args = os.Args[1:]
			component()
			return
		}
	}
	names := make([]string, 0, len(components))
	for name := range components {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintln(os.Stderr, "usage: kubebox COMPONENT [flags]; components:", strings.Join(names, ", "))
	os.Exit(2)
}
