//go:build !v1.37

package main

import (
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// isGang reports whether a PodGroup's pods are to start together.  1.36 has the kind as v1alpha2.
func isGang(handle fwk.Handle, group types.NamespacedName) bool {
	groups := handle.SharedInformerFactory().Scheduling().V1alpha2().PodGroups().Lister()
	object, err := groups.PodGroups(group.Namespace).Get(group.Name)
	return err == nil && object.Spec.SchedulingPolicy.Gang != nil
}
