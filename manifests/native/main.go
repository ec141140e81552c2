// Command arnold-scheduler is kube-scheduler with a plug-in that puts the pods of a native PodGroup on the nodes of
// its GangPlan, all of them in the group's one scheduling cycle.
//
// The pods need no scheduling gate and no nomination, so that the binding is the only write to each.  What is planned,
// and whether a plan still holds, the extender decides, as for all other gangs.
//
// It is built for 1.36 by "go build .", for 1.37 by "go build -modfile v1.37.mod -tags v1.37 ."; Containerfile makes an
// image of it, which the component native of the manifests runs.
package main

import (
	"fmt"
	"os"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	// Off by default in its release; --feature-gates has the last word.
	for _, feature := range groupFeatures {
		if err := utilfeature.DefaultMutableFeatureGate.OverrideDefault(feature, true); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(Name, New))))
}
