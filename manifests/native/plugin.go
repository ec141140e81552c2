package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Name is what a profile calls the plug-in.
const Name = "GangPlan"

// gangLabel marks the pods whose gang is not that of their PodGroup; they start by their scheduling gate.
const gangLabel = "arnold.dev/gang"

// planned puts each pod of a PodGroup on the node of its rank, once the group has a plan.
type planned struct {
	handle fwk.Handle
	plans  plans
}

var (
	_ fwk.EnqueueExtensions       = &planned{}
	_ fwk.PreEnqueuePlugin        = &planned{}
	_ fwk.PreFilterPlugin         = &planned{}
	_ fwk.PlacementGeneratePlugin = &planned{}
)

// New follows the GangPlans of all namespaces and returns the plug-in that heeds them.
func New(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	plugin := &planned{handle: handle, plans: plans{byGang: map[types.NamespacedName]plan{}}}
	client, err := dynamic.NewForConfig(handle.KubeConfig())
	if err != nil {
		return nil, fmt.Errorf("following GangPlans: %w", err)
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	logger := klog.FromContext(ctx)
	_, err = factory.ForResource(gangPlans).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { plugin.heed(logger, object) },
		UpdateFunc: func(_, object any) { plugin.heed(logger, object) },
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			plugin.plans.drop(object.(*unstructured.Unstructured))
		},
	})
	if err != nil {
		return nil, fmt.Errorf("following GangPlans: %w", err)
	}
	factory.Start(ctx.Done())
	return plugin, nil
}

// heed takes up a plan, and has the scheduler look again at the group's pods that wait when nodes are promised anew.
func (p *planned) heed(logger klog.Logger, object any) {
	gang, changed, err := p.plans.put(object.(*unstructured.Unstructured))
	if err != nil {
		logger.Error(err, "GangPlan is not one that Arnold wrote; to fix: delete it", "gang", gang)
		return
	}
	if !changed || p.plans.of(gang) == nil {
		return
	}
	if group, err := p.handle.PodGroupManager().PodGroupStates().Get(gang.Namespace, gang.Name); err == nil {
		p.handle.Activate(logger, group.UnscheduledPods())
	}
}

// Name implements fwk.Plugin.
func (p *planned) Name() string {
	return Name
}

// gang returns the PodGroup of a pod that is to start by its plan, or false: it has none, or no policy of a gang.
func (p *planned) gang(pod *v1.Pod) (types.NamespacedName, bool) {
	group := pod.Spec.SchedulingGroup
	if group == nil || group.PodGroupName == nil || pod.Labels[gangLabel] != "" {
		return types.NamespacedName{}, false
	}
	gang := types.NamespacedName{Namespace: pod.Namespace, Name: *group.PodGroupName}
	return gang, isGang(p.handle, gang)
}

// EventsToRegister has the scheduler look again at a pod that was refused when its group's plan changes, and by nothing
// else: all that wait would be looked at for each pod of their group that comes, the square of their number.
func (p *planned) EventsToRegister(_ context.Context) ([]fwk.ClusterEventWithHint, error) {
	resource := fwk.EventResource(fmt.Sprintf("%s.%s.%s", gangPlans.Resource, gangPlans.Version, gangPlans.Group))
	return []fwk.ClusterEventWithHint{{
		Event:          fwk.ClusterEvent{Resource: resource, ActionType: fwk.Add | fwk.Update},
		QueueingHintFn: p.concerns,
	}}, nil
}

// concerns tells whether a GangPlan is that of a pod's group.
func (p *planned) concerns(_ klog.Logger, pod *v1.Pod, _, object any) (fwk.QueueingHint, error) {
	plan, ok := object.(*unstructured.Unstructured)
	if gang, grouped := p.gang(pod); ok && grouped && gang == gangOf(plan) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// PreEnqueue holds the pods of a group that has no nodes; nothing is written into them meanwhile.
func (p *planned) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if gang, ok := p.gang(pod); ok && p.plans.of(gang) == nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "its group has no plan yet; kubectl get gangplans")
	}
	return nil
}

// PreFilter leaves the node of the pod's rank.
func (p *planned) PreFilter(
	_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	gang, ok := p.gang(pod)
	if !ok {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	node, ok := p.plans.of(gang)[pod.UID]
	if !ok {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the plan of its group does not name this pod")
	}
	return &fwk.PreFilterResult{NodeNames: sets.New(node)}, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (p *planned) PreFilterExtensions() fwk.PreFilterExtensions {
	return nil
}

// GeneratePlacements proposes exactly the nodes of the plan.  As the only proposal it needs no score.
func (p *planned) GeneratePlacements(
	_ context.Context, _ fwk.PodGroupCycleState, group fwk.PodGroupInfo, parent *fwk.Placement,
) (*fwk.GeneratePlacementsResult, *fwk.Status) {
	nodes := p.plans.of(types.NamespacedName{Namespace: group.GetNamespace(), Name: group.GetName()})
	if nodes == nil {
		return &fwk.GeneratePlacementsResult{Placements: []*fwk.Placement{parent}}, nil
	}
	names := sets.New[string]()
	for _, name := range nodes {
		names.Insert(name)
	}
	placement := &fwk.Placement{Name: "plan"}
	for _, node := range parent.Nodes {
		if names.Has(node.Node().Name) {
			placement.Nodes = append(placement.Nodes, node)
		}
	}
	return &fwk.GeneratePlacementsResult{Placements: []*fwk.Placement{placement}}, nil
}
