"""A cluster in which decisions are carried out at once, by hand: no client, no loop, a clock that moves when told."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Any

from extender.cluster_cache import ClusterCache
from extender.controller.actions import (
    Decision,
    Forget,
    Learn,
    NotifyPod,
    Release,
    RepairAction,
    Write,
    release_patch,
)
from extender.controller.decide import decide
from extender.controller.loop import without_spare
from extender.controller.pacing import Timeouts
from extender.gangs.types import GangKey
from extender.kubernetes_names import GATE, PLANNED
from extender.objects import decode_pod
from extender.planner.question import repair_question
from extender.planner.round import PlanningRound
from extender.planner.solve import answer_to, weigh
from extender.plans.gang_history import GangHistory
from extender.plans.gang_plan import GangPlan, PlanPhase
from tests.extender.fake_cluster import merged
from tests.extender.things import LIMITS, MINIPOD, NOW, RACK, Json, key, member_json, minipods, uid
from topology.kubernetes.objects import NodeObject
from topology.kubernetes.pods import NODE, RELEASED

TERMS = Timeouts(bind=timedelta(seconds=300), lost=timedelta(seconds=30), gather=timedelta(seconds=2))


class World:
    """Two minipods of four nodes, and whatever a test adds."""

    def __init__(self, nodes: Iterable[NodeObject] | None = None) -> None:
        self.now = NOW
        self.state = ClusterCache([MINIPOD, RACK])
        self.pods: dict[str, Json] = {}
        self.version = 10
        self.anew = 0
        for one in minipods(4, 4) if nodes is None else nodes:
            self.state.put_node(one)

    # What happens

    def add(self, document: Json) -> str:
        """A pod appears.

        :returns: its name.
        """
        name: str = document["metadata"]["name"]
        self.pods[name] = document
        self._see(name)
        return name

    def gang(self, name: str, size: int, annotations: dict[str, str] | None = None, **more: Any) -> list[str]:
        """The pods of a gang appear."""
        return [self.add(member_json(name, rank, size, annotations, **more)) for rank in range(size)]

    def change(self, name: str, change: Callable[[Json], object]) -> None:
        """A pod changes."""
        change(self.pods[name])
        self._see(name)

    def bind(self, *names: str, node: str | None = None) -> None:
        """The scheduler binds released pods to their nodes."""
        for name in names:
            self.pods[name]["spec"]["nodeName"] = node or self.node_of(name)
            self._see(name)

    def delete(self, *names: str) -> None:
        """Pods go."""
        for name in names:
            self.state.drop_pod(self.pods.pop(name)["metadata"]["uid"])

    def refuse(self, *names: str, message: str = "") -> None:
        """The scheduler has tried released pods, and found that they fit nowhere."""
        tried = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        for name in names:
            self.change(name, lambda pod: pod["status"].update(conditions=[tried]))

    def recreate(self, name: str) -> None:
        """A pod goes and its controller makes it again, behind its gate, with another UID."""
        document = copy.deepcopy(self.pods[name])
        self.delete(name)
        self.anew += 1
        document["metadata"]["uid"] = uid(f"{name}-again-{self.anew}")
        for field in ("nodeName", "affinity"):
            document["spec"].pop(field, None)
        document["metadata"]["labels"].pop(RELEASED, None)
        document["metadata"]["annotations"].pop(NODE, None)
        document["spec"]["schedulingGates"] = [{"name": GATE}]
        self.add(document)

    def later(self, seconds: float) -> None:
        """Time passes."""
        self.now += timedelta(seconds=seconds)

    def _see(self, name: str) -> None:
        self.version += 1
        self.pods[name]["metadata"]["resourceVersion"] = str(self.version)
        self.state.put_pod(decode_pod(copy.deepcopy(self.pods[name])))

    # What is there

    def plan(self, name: str) -> GangPlan:
        """The plan of a gang, which must be there."""
        return self.state.plans[key(name)]

    def phase(self, name: str) -> PlanPhase | None:
        """The phase of a gang's plan, if it has one."""
        found = self.state.plans.get(key(name))
        return None if found is None else found.phase

    def node_of(self, name: str) -> str:
        """The node that a pod was released to, as it must have been."""
        return str(self.pods[name]["metadata"]["annotations"][NODE])

    def gated(self, name: str) -> bool:
        """Whether a pod waits behind our gate."""
        return bool(self.pods[name]["spec"].get("schedulingGates"))

    # Deciding and doing

    def decide(self) -> Decision:
        """What the controller would do now."""
        return decide(self.state, self.now, TERMS)

    def do(self, decision: Decision) -> None:
        """Carry a decision out, as the loop does."""
        for action in decision.actions:
            match action:
                case Write(plan):
                    if action.weigh:
                        plan = weigh(repair_question(self.state, plan, plan.node_names[:1], self.now), LIMITS)
                    if plan != self.state.plans.get(plan.key):
                        self.write(plan)
                case Learn(run):
                    before = self.state.histories.get(run.key.namespace) or GangHistory(namespace=run.key.namespace)
                    self.state.put_history(before.learnt(run))
                case Forget(plan):
                    self.state.drop_plan(plan.key)
                case Release(pod, node, mark):
                    change = release_patch(pod, node, mark, version=pod.metadata.resource_version)
                    self.pods[pod.name] = merged(self.pods[pod.name], change)
                    self._see(pod.name)
                case NotifyPod(pod, node):
                    self.change(pod.name, partial(self._tell, node=node))
                case RepairAction():
                    self._repair(action)
        if decision.unplaced:
            self._place(decision.unplaced)

    def settle(self, *, turns: int = 20) -> None:
        """Decide and do until there is nothing left to do."""
        for _ in range(turns):
            decision = self.decide()
            before = (dict(self.state.plans), self.version)  # which every change of a pod moves on
            self.do(decision)
            if before == (dict(self.state.plans), self.version):
                return
        raise AssertionError(f"still something to do after {turns} turns: {self.decide()}")

    def write(self, plan: GangPlan) -> None:
        """Store a plan, as the API server does."""
        self.version += 1
        self.state.put_plan(plan.replace(uid=plan.uid or uid(str(plan.key)), resource_version=str(self.version)))

    def _place(self, unplaced: Iterable[GangKey]) -> None:
        queue, wanted = PlanningRound(), set(unplaced)
        while (question := queue.next(self.state, self.now)) is not None:
            if question.case.gang.key in wanted:
                answer = answer_to(question, LIMITS)
                queue.tell(answer)
                expires = self.now + TERMS.bind if answer.placed else None
                before, plan = self.state.plans.get(answer.key), self.state.definitions.kept(answer.plan)
                if before is None or (before.phase, before.message) != (plan.phase, plan.message):
                    plan = plan.with_condition("Valid", True, "Consistent", "", self.now)
                    self.write(plan.replace(expires=expires))

    def _tell(self, pod: Json, *, node: str) -> None:
        if RELEASED in pod["metadata"].get("labels", {}):
            pod["metadata"]["annotations"][NODE] = node
        others = [one for one in pod["status"].get("conditions", []) if one["type"] != PLANNED]
        pod["status"]["conditions"] = [*others, {"type": PLANNED, "lastProbeTime": self.now.isoformat()}]

    def _repair(self, action: RepairAction) -> None:
        answer = answer_to(repair_question(self.state, action.plan, action.lost, self.now), LIMITS)
        if answer.placed:
            phase = action.plan.phase if action.plan.holding else PlanPhase.PLANNED
            expires = None if phase is PlanPhase.BOUND else self.now + TERMS.bind
            self.write(answer.plan.replace(phase=phase, expires=expires))
        elif action.else_keep is not None:
            self.write(action.else_keep)
        else:
            why = f"{action.why}, and no other node can be had"
            told = without_spare(action.plan, self.state.plans.get(action.plan.key), why, self.now)
            if told != self.state.plans.get(action.plan.key):
                self.write(told)
