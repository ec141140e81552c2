//go:build v1.37

package main

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/featuregate"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
)

// groupFeatures is that by which a scheduler of 1.37 knows PodGroups and binds one in a cycle of its own.
var groupFeatures = []featuregate.Feature{features.GenericWorkload}

// isGang reports whether a PodGroup's pods are to start together.  The scheduler of 1.37 knows whichever version is served.
func isGang(handle fwk.Handle, group types.NamespacedName) bool {
	object, err := handle.PodGroupManager().PodGroups().Get(group.Namespace, group.Name)
	return err == nil && object.Spec.SchedulingPolicy.Gang != nil
}
