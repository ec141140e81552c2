// Command control-plane is a Kubernetes control plane in one file: etcd, kube-apiserver, kube-scheduler and
// kube-controller-manager as subcommands, each with the flags of the program of that name.
//
// The tests of Arnold build it from Go modules, as there is no other way to get all four parts on any machine with a Go
// toolchain alone.  It is for tests only.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var parts = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func main() {
	if len(os.Args) < 2 {
		fail("name a part: etcd, kube-apiserver, kube-controller-manager or kube-scheduler")
	}
	part := os.Args[1]
	os.Args = append([]string{part}, os.Args[2:]...) // each part reads its own flags from here
	if part == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	command, known := parts[part]
	if !known {
		fail(fmt.Sprintf("no part is called %q", part))
	}
	os.Exit(cli.Run(command()))
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, "control-plane:", message)
	os.Exit(2)
}
