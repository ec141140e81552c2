//go:build !v1.37

package main

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/featuregate"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
)

// groupFeatures are those by which a scheduler of 1.36 knows PodGroups and binds one in a cycle of its own.
var groupFeatures = []featuregate.Feature{features.GenericWorkload, features.GangScheduling}

// isGang reports whether a PodGroup's pods are to start together.  1.36 has the kind as v1alpha2.
func isGang(handle fwk.Handle, group types.NamespacedName) bool {
	groups := handle.SharedInformerFactory().Scheduling().V1alpha2().PodGroups().Lister()
	object, err := groups.PodGroups(group.Namespace).Get(group.Name)
	return err == nil && object.Spec.SchedulingPolicy.Gang != nil
}
