"""What a decision about one gang has at hand, and the questions that several decisions ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from extender.controller.actions import Action, Decision, Recreate, Say, Write
from extender.controller.obstacles import Obstacles
from extender.controller.sight import Sight
from extender.controller.terms import Terms
from extender.fleet import Fleet
from extender.gangs import Gang, GangKey
from extender.names import GATE
from extender.objects import Pod
from extender.plans import Phase, Plan, Spec, canonical_uid


@dataclass(slots=True)
class Unfit:
    """Ranks that are not bound, by what is wrong with their nodes.

    :param move: those to be moved, each with the reason.
    :param doubtful: those whose node is not Ready, and not lost yet.
    """

    move: dict[int, str] = field(default_factory=dict)
    doubtful: set[int] = field(default_factory=set)

    @property
    def why(self) -> str:
        """The first of the reasons."""
        return next(iter(self.move.values()), "")


@dataclass(frozen=True, slots=True)
class Context:
    """One gang, and what is known of the world when it is decided about.

    :param plans: of all gangs.
    :param decision: what was decided so far, about all gangs.
    """

    key: GangKey
    fleet: Fleet
    plans: Mapping[GangKey, Plan]
    now: datetime
    terms: Terms
    decision: Decision

    def do(self, *actions: Action) -> None:
        """Decide on actions."""
        self.decision.actions += actions

    def unfit(self, sight: Sight) -> Unfit:
        """Ranks that are not bound and cannot have their node, or perhaps not.

        A pod that is pinned there and has no controller to make it anew stays as it is, and with it its rank.
        """
        found = Unfit()
        pods = {rank: pod for rank, pod, _ in sight.pods}
        obstacles = Obstacles(self.fleet, sight.gang, sight.plan.spec.gpus_per_node, self.now, self.terms.lost)
        for rank, node in enumerate(sight.plan.nodes):
            if rank in sight.bound:
                continue
            why, until = obstacles.at(node)
            if until is not None:
                self.decision.wake_by(until)
                found.doubtful.add(rank)
            if not why:
                continue
            pod = pods.get(rank)
            if pod is not None and pod.owner is None and is_pinned(pod, node):
                self.do(Recreate(self.key, pod, why))
            else:
                found.move[rank] = why
        return found

    def renewed(self, plan: Plan, gang: Gang) -> Plan:
        """A plan whose pods get their time once more."""
        new = plan.replace(
            phase=Phase.PLANNED,
            pods=uids_of(gang),
            expires=self.now + self.terms.bind,
            spec=spec_of(gang, plan.spec),
            reason="Planned",
            message="",
        )
        return self._undone(new, "Planned", "").with_condition("Planned", True, "Planned", "", self.now)

    def give_back(self, plan: Plan, phase: Phase, reason: str, message: str) -> None:
        """Promise the nodes to nobody; an expired plan remembers them."""
        new = plan.replace(phase=phase, reason=reason, message=message, expires=None)
        if phase is Phase.QUEUED:
            new = new.replace(nodes=(), pods=(), spread=None, objective=None, bound=None, gap=None)
        new = self._undone(new, reason, message).with_condition("Planned", False, reason, message, self.now)
        self.do(Write(new, events=(Say(reason, message, "Warning"),)))

    def _undone(self, plan: Plan, reason: str, message: str) -> Plan:
        """A plan that does not say any more that its pods are released or bound."""
        for kind in ("Released", "Bound"):
            if plan.condition(kind) is not None:
                plan = plan.with_condition(kind, False, reason, message, self.now)
        return plan


def is_pinned(pod: Pod, node: str) -> bool:
    """Whether a pod was released to a node and waits for it: a pin cannot be taken off."""
    return pod.node is None and not pod.gated_by(GATE) and pod.pin == node


def spec_of(gang: Gang, before: Spec) -> Spec:
    """What is asked now; while it cannot be understood, as much as can be told."""
    if gang.job is not None:
        return Spec.of(gang.job, dialect=gang.dialect, priority=gang.priority)
    return Spec(dialect=gang.dialect, size=gang.size or before.size, priority=gang.priority)


def uids_of(gang: Gang) -> tuple[str | None, ...]:
    """UID of each rank's pod, as plans write them."""
    return tuple(None if member is None else canonical_uid(member.pod.uid) for member in gang.members)


def nodes_of(plan: Plan, ranks: Iterable[int]) -> tuple[str, ...]:
    """The nodes of some ranks."""
    return tuple(plan.nodes[rank] for rank in ranks)
