"""What a decision about one gang has at hand, and the questions that several decisions ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

from extender.controller.actions import Action, Decision, EventNote, Recreate, Write
from extender.controller.obstacles import Obstacles
from extender.controller.plan_progress import PlanProgress
from extender.controller.timeouts import Timeouts
from extender.fleet.fleet import Fleet
from extender.gangs.types import Gang, GangKey
from extender.kubernetes_names import GATE
from extender.plans.gang_plan import GangPlan, PlanPhase, PlanSpec, uids_of
from topology.readers.kubernetes_pods import Pod


@dataclass(frozen=True, slots=True)
class UnfitRanks:
    """Ranks that are not bound, by what is wrong with their nodes."""

    move: Mapping[int, str]  # ranks to be moved, each with the reason
    # ranks with a pod that is pinned to the node and has no controller to make it anew, with the reason
    stuck: Mapping[int, tuple[Pod, str]]
    doubtful: AbstractSet[int]  # ranks on nodes that are not Ready and not lost yet
    wake: datetime | None  # when the first of these nodes will be lost

    @property
    def why(self) -> str:
        """The first of the reasons."""
        return next(iter(self.move.values()), "")


@dataclass(frozen=True, slots=True)
class Context:
    """One gang, the plans of all, and what was decided so far about any."""

    key: GangKey
    fleet: Fleet
    plans: Mapping[GangKey, GangPlan]
    now: datetime
    terms: Timeouts
    decision: Decision

    def do(self, *actions: Action) -> None:
        """Decide on actions."""
        self.decision.actions += actions

    def unfit_ranks(self, sight: PlanProgress) -> UnfitRanks:
        """Return the ranks that are not bound and cannot have their node, or perhaps not."""
        move, stuck, lost_at = dict[int, str](), dict[int, tuple[Pod, str]](), dict[int, datetime]()
        pods = {rank: pod for rank, pod, _ in sight.pods}
        obstacles = Obstacles(self.fleet, sight.gang, sight.plan.spec.gpus_per_node, self.now, self.terms.lost)
        for rank, node in enumerate(sight.plan.nodes):
            if rank in sight.bound:
                continue
            why, until = obstacles.at(node)
            if until is not None:
                lost_at[rank] = until
            pod = pods.get(rank)
            if why and pod is not None and pod.owner is None and is_pinned(pod, node):
                stuck[rank] = (pod, why)
            elif why:
                move[rank] = why
        return UnfitRanks(move, stuck, lost_at.keys(), min(lost_at.values(), default=None))

    def watch(self, unfit: UnfitRanks) -> None:
        """Tell the owners of pods that are stuck, and decide again when the next node will be lost."""
        self.do(*(Recreate(self.key, pod, why) for pod, why in unfit.stuck.values()))
        if unfit.wake is not None:
            self.decision.wake_by(unfit.wake)

    def renewed(self, plan: GangPlan, gang: Gang) -> GangPlan:
        """Return the plan with its time to bind once more."""
        new = plan.replace(
            phase=PlanPhase.PLANNED,
            pods=uids_of(gang),
            expires=self.now + self.terms.bind,
            spec=spec_of(gang, plan.spec),
            reason="Planned",
            message="",
        )
        return self._undone(new, "Planned", "").with_condition("Planned", True, "Planned", "", self.now)

    def give_back(self, plan: GangPlan, phase: PlanPhase, reason: str, message: str) -> None:
        """Promise the nodes no more; an expired plan remembers them."""
        new = plan.replace(phase=phase, reason=reason, message=message, expires=None)
        if phase is PlanPhase.QUEUED:
            new = new.without_worth().replace(nodes=(), pods=())
        new = self._undone(new, reason, message).with_condition("Planned", False, reason, message, self.now)
        self.do(Write(new, events=(EventNote(reason, message, "Warning"),)))

    def _undone(self, plan: GangPlan, reason: str, message: str) -> GangPlan:
        """Return a plan that does not say any more that its pods are released or bound."""
        for kind in ("Released", "Bound"):
            if plan.condition(kind) is not None:
                plan = plan.with_condition(kind, False, reason, message, self.now)
        return plan


def is_pinned(pod: Pod, node: str) -> bool:
    """Return whether a pod was released to a node and waits for it: a pin cannot be taken off."""
    return pod.node is None and not pod.gated_by(GATE) and pod.pin == node


def spec_of(gang: Gang, before: PlanSpec) -> PlanSpec:
    """Return what is asked now; while it cannot be understood, as much as can be told."""
    if gang.job is not None:
        return PlanSpec.of(gang.job, dialect=gang.dialect, priority=gang.priority)
    return PlanSpec(dialect=gang.dialect, size=gang.size or before.size, priority=gang.priority)


def nodes_of(plan: GangPlan, ranks: Iterable[int]) -> tuple[str, ...]:
    """Return the nodes of some ranks."""
    return tuple(plan.nodes[rank] for rank in ranks)
