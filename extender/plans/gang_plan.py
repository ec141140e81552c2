"""A plan: what was asked, the node and the pod of each rank of a gang, what the placement is worth, and how long it
waits for its pods.  Where pods share nodes, ranks in turn have the same node (:mod:`extender.gangs.job`).

A plan is stored as a ``GangPlan``, the only durable state there is, and promises its nodes from the moment it is
written until its gang is gone, in the phases of :data:`HOLDING`.  Beyond the fields of the struct the stored form has
``spec.gang`` and ``status.assignment``: its ``nodes`` are base64 of zlib of the node names in the order of ranks, one a
line, its ``pods`` base64 of 16 bytes a rank, the UID of its pod (all zero: none).  12,500 ranks take some 300 kB; etcd
takes 1.5 MB.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Self
from uuid import UUID

import msgspec

from extender.gangs.annotations import format_parallelism, parse_parallelism
from extender.gangs.job import nodes_of_pods, pod_count, ranks_by_node
from extender.gangs.types import Gang, GangKey
from extender.kubernetes_names import KIND
from extender.plans.custom_resource import (
    CustomResource,
    Instant,
    StoredObject,
    StoredPart,
    decode_resource,
    encode_resource,
    written,
)
from ground.quantities import duration
from scheduler.job import DEFAULT_SPREAD_COST, Avoid, Count, Hold, Job
from scheduler.queue.run_times import Prediction

if TYPE_CHECKING:
    from scheduler.objective import Evaluation
    from scheduler.outcome import Outcome
    from scheduler.repair import Repair

ASKED = ("alpha", "avoid", "counts", "gpu_types", "mix_types", "microbatches", "spread_cost")
OF_JOB = (*ASKED, "level", "tp_level", "holds")
"""Fields that a job has too, under the same names; first those that are taken over as they are asked."""


class PlanSpec(StoredPart, frozen=True):
    """What was asked: all it takes to make the same :class:`~scheduler.job.Job` again."""

    dialect: str = ""
    size: int | None = None  # pods of the gang; None = no pod says
    # of each pod, 0 while the gang is not understood; it is called after the nodes since each pod had one
    gpus_per_pod: int = msgspec.field(default=0, name="gpusPerNode")
    # degrees, tp=8,cp=1,ep=1,dp=12,pp=8; None while the gang is not understood, as the rest
    parallelism: str | None = None
    order: str | None = None  # dimensions from the fastest running rank to the slowest
    alpha: float | None = None
    level: str | None = None
    tp_level: str | None = None  # whose domains hold a TP group of several nodes; None = no group takes several
    avoid: Avoid | None = None
    holds: tuple[Hold, ...] | None = None
    counts: tuple[Count, ...] = ()
    gpu_types: tuple[str, ...] | None = None  # that its nodes may have; None = any
    mix_types: bool = False  # whether they may have several of these
    microbatches: int | None = None
    spread_cost: float = DEFAULT_SPREAD_COST
    priority: int = written(0)

    @cached_property
    def gpus(self) -> int:
        """GPUs of the gang in all; 0 while it is not understood."""
        return parse_parallelism(self.parallelism).gpus if self.parallelism else 0

    @classmethod
    def of(cls, job: Job, *, dialect: str, priority: int) -> PlanSpec:
        """Return the spec that makes this job, whose cells are pods."""
        return cls(
            dialect=dialect,
            size=pod_count(job.parallelism, job.gpus_per_node),
            gpus_per_pod=job.gpus_per_node,
            parallelism=format_parallelism(job.parallelism),
            order=job.parallelism.order,
            priority=priority,
            **{name: getattr(job, name) for name in OF_JOB},
        )

    def more_replicas(self, other: PlanSpec) -> bool:
        """Return whether another spec wants as many GPUs in each pod, and more or fewer groups of the same ranks.

        Then the rank of each pod that is in both means the same place in the grid.
        """
        if not self.parallelism or not other.parallelism or self.gpus_per_pod != other.gpus_per_pod:
            return False
        here = parse_parallelism(self.parallelism, order=self.order)
        there = parse_parallelism(other.parallelism, order=other.order)
        # ranks of the slowest running dimension are added at the end
        numbered = [name for name in here.order.split("-") if name != "ep"]
        slowest = [name for name in numbered if here.degree(name) > 1 or there.degree(name) > 1][-1:]
        degrees: dict[str, Any] = {name: here.degree(name) for name in slowest}
        return replace(there, **degrees) == here

    def job(self, name: str) -> Job | None:
        """Return the job that was asked for, a cell for each pod; ``None`` while the gang is not understood."""
        if not self.parallelism or not self.gpus_per_pod:
            return None
        degrees = parse_parallelism(self.parallelism, order=self.order)
        given: dict[str, Any] = {name: value for name in OF_JOB if (value := getattr(self, name)) is not None}
        return Job(name=name, parallelism=degrees, gpus_per_node=self.gpus_per_pod, **given)


CHECKED = "Checked"  # condition: whether plans look at all that pods ask for; absent where they always did
HINTS_READ = "HintsRead"  # condition: whether hints to the queue policy can be read; absent where they always could
WEIGHED = "Weighed"  # condition: whether the worth of its nodes is known, False while some are gone; absent where it is
NO_PLAN = "CannotBePlanned"  # reason of a queued gang that can use no node, or of which the solver can make nothing
IN_LINE = "InLine"  # reason of a queued gang that the solver was not asked about yet


class PlanPhase(StrEnum):
    """How far a gang has come."""

    WAITING = "Waiting"  # pods are missing
    QUEUED = "Queued"  # complete, and no room, or others are before it
    PLANNED = "Planned"  # every rank has a node; the gates are still on
    RELEASED = "Released"  # gates come off; the scheduler binds the pods
    BOUND = "Bound"  # every pod is on its node, or has been
    EXPIRED = "Expired"  # the pods did not bind in time; the nodes are given back and the gang is planned again
    INVALID = "Invalid"  # the pods contradict each other or themselves


HOLDING = frozenset({PlanPhase.PLANNED, PlanPhase.RELEASED, PlanPhase.BOUND})
"""Phases in which the plan's nodes are promised to the gang, and its pods may go there."""


class GangPlan(CustomResource, frozen=True):
    """What was decided about a gang.

    Conditions: ``Complete``, ``Planned``, ``Released``, ``Bound``, ``Healthy``, ``Valid``, ``HintsRead``, ``Checked``,
    ``Weighed``.
    """

    key: GangKey
    phase: PlanPhase = written(PlanPhase.WAITING)
    spec: PlanSpec = written(PlanSpec())
    # names of the nodes by rank of the pods; empty in phases without a placement.  None = the rank is vacant, in a plan
    # that was read off pods until it is repaired
    nodes: tuple[str | None, ...] = ()
    pods_per_node: Annotated[int, msgspec.Meta(ge=1)] = 1  # pods in turn that share a node; the last may have fewer
    # UID of each rank's pod, in the form of canonical_uid; None = the rank has no pod now
    pods: tuple[str | None, ...] = ()
    # ranks whose pod has succeeded, or failed for good: their nodes are given back, though still named
    ended: tuple[int, ...] = ()
    # pods that are not bound by then lose their nodes, those of the plan or those that they were released to; None = it
    # waits for no pod
    expires: Instant | None = None
    bound_pods: int = written(0)  # pods that are on their nodes
    expiries: int = 0  # times in a row that its time ran out with no pod bound, kube-scheduler having refused them
    comes_again: Instant | None = None  # after such an expiry, when it stands in the queue again, as if it came then
    would_fit_if_empty: bool | None = None  # of a queued gang; None = not known
    # gangs and pods, as NAMESPACE/NAME and NAMESPACE/pod/NAME, that are stopped so that it has its nodes, until they
    # have left these; before the plan promises its nodes, those of victims are promised to these still
    victims: tuple[Annotated[str, msgspec.Meta(pattern="/")], ...] = ()
    # how long it will run, as gangs tell that ended before it came; None = its pods say it, or too few have ended
    estimate: Prediction | None = None

    @property
    def holding(self) -> bool:
        """Whether the nodes are promised to the gang."""
        return self.phase in HOLDING and bool(self.nodes)

    @property
    def victim_keys(self) -> tuple[GangKey, ...]:
        """Keys of those that are stopped for it; no gang has a slash in its name."""
        return tuple(GangKey(*name.split("/", 1)) for name in self.victims)

    @property
    def preempting(self) -> bool:
        """Whether others are being stopped for it."""
        return bool(self.victims and self.nodes) and (self.holding or self.phase is PlanPhase.QUEUED)

    @property
    def speaks_for_pods(self) -> bool:
        """Whether it says what became of the nodes that pods were released to: it has them, or they were given back.

        As long as no plan says so, as when theirs was deleted, these nodes are promised to the gang by its pods alone.
        """
        released = self.condition("Released")
        return bool(self.nodes) or (released is not None and released.status == "False")

    @property
    def size(self) -> int:
        """Pods of the gang, as far as they are known."""
        return len(self.nodes) or self.spec.size or 0

    @property
    def promised(self) -> tuple[str, ...]:
        """Names of the nodes that are promised to the gang, each once: those of which a rank has not ended."""
        if not self.holding:
            return ()
        ended = {*self.ended}
        groups = (rank for ranks in self.ranks_by_node for rank in ranks[:1] if not ended.issuperset(ranks))
        return tuple(name for rank in groups if (name := self.nodes[rank]) is not None)

    @cached_property
    def rank_of_pod(self) -> Mapping[str, int]:
        """Canonical UID -> rank."""
        return {uid: rank for rank, uid in enumerate(self.pods) if uid is not None}

    @cached_property
    def node_of_rank(self) -> Mapping[int, str]:
        """Rank -> node; without vacant ranks."""
        return {rank: name for rank, name in enumerate(self.nodes) if name is not None}

    @property
    def rank_of_node(self) -> Mapping[str, int]:
        """Node -> the first rank on it."""
        return {name: rank for rank, name in sorted(self.node_of_rank.items(), reverse=True)}

    @property
    def gpus_per_node(self) -> int:
        """GPUs of each of its nodes; 0 while its gang is not understood."""
        return self.spec.gpus_per_pod * self.pods_per_node

    @property
    def ranks_by_node(self) -> Iterator[range]:
        """Ranks of the pods of each node, by node rank."""
        return ranks_by_node(len(self.nodes), self.pods_per_node)

    @property
    def nodes_by_rank(self) -> tuple[str | None, ...]:
        """The nodes by node rank, each once."""
        return self.nodes[:: self.pods_per_node]

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of the nodes, each once; none of vacant ranks."""
        return tuple(name for name in self.nodes_by_rank if name is not None)

    def moved_to(self, nodes: Sequence[str | None]) -> Self:
        """Return the plan with other nodes, given by node rank."""
        return self.replace(nodes=nodes_of_pods(nodes, len(self.nodes), self.pods_per_node))

    def vacated(self, ranks: Collection[int]) -> Self:
        """Return the plan with the nodes that were given back and some ranks want again given to nobody."""
        pairs = zip(self.ranks_by_node, self.nodes_by_rank, strict=True)
        by_node = [
            None if {*self.ended}.issuperset(group) and not {*ranks}.isdisjoint(group) else name
            for group, name in pairs
        ]
        return self.moved_to(by_node).replace(ended=tuple(rank for rank in self.ended if rank not in ranks))

    def with_worth(self, worth: Evaluation, *, answer: Outcome | Repair) -> Self:
        """Return the plan with what the evaluator says of its nodes, and what an answer proves of them."""
        return super().with_worth(worth, answer=answer).without_condition(WEIGHED)

    def unweighed(self, now: datetime) -> Self:
        """Return the plan without a worth: nodes of it are gone, and nobody knows where they were."""
        return self.without_worth().with_condition(WEIGHED, False, "NodesGone", "nodes of it are gone", now)

    def without_nodes(self) -> Self:
        """Return the plan of a gang that has no nodes."""
        return self.without_worth().replace(nodes=(), pods=(), pods_per_node=1, ended=(), victims=())

    def resting(self, now: datetime) -> bool:
        """Return whether the gang is not to be planned yet, as its pods were refused on their nodes."""
        return self.comes_again is not None and now < self.comes_again

    def expired(self, now: datetime) -> bool:
        """Return whether the time for pods to bind is over."""
        return self.expires is not None and self.expires <= now


_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def canonical_uid(uid: str) -> str:
    """Return a UID as 16 bytes can carry it: a UUID, which the API server always makes, or the UUID of its hash."""
    if _UUID.fullmatch(uid):
        return uid
    return str(UUID(bytes=hashlib.blake2b(uid.encode(), digest_size=16).digest()))


def uids_of(gang: Gang) -> tuple[str | None, ...]:
    """Return the UID of each rank's pod, as plans write them."""
    return tuple(None if member is None else canonical_uid(member.pod.uid) for member in gang.members)


_LABEL_AS_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")


def object_name(key: GangKey) -> str:
    """Return the name of the GangPlan of a gang: the gang's, without what label values may have and names may not."""
    if _LABEL_AS_NAME.fullmatch(key.name) and ".." not in key.name:
        return key.name
    plain = re.sub(r"[^a-z0-9]+", "-", key.name.lower()).strip("-")[:200] or "gang"
    return f"{plain}-{hashlib.blake2b(key.name.encode(), digest_size=4).hexdigest()}"


MOST_BYTES = 64_000_000  # names of the nodes of one plan, unpacked; a million nodes with long names

_NONE = bytes(16)


class _Assignment(msgspec.Struct, omit_defaults=True):
    """Nodes and pods by rank, packed; bytes are base64 in JSON."""

    nodes: bytes = b""
    pods: bytes = b""


def encode_plan(plan: GangPlan) -> dict[str, Any]:
    """Return the GangPlan, ready to be written as JSON."""
    estimate = None
    if plan.estimate is not None:
        seconds, low, high = map(duration, (plan.estimate.seconds, plan.estimate.low, plan.estimate.high))
        estimate = f"{seconds} ({low} to {high})"
    document = encode_resource(
        plan.replace(nodes=(), pods=()),
        KIND,
        object_name(plan.key),
        plan.key.namespace,
        gap=None if plan.gap is None else f"{plan.gap:.1%}",
        pods=f"{plan.bound_pods}/{plan.size}" if plan.size else None,
        estimate=estimate,
    )
    document["spec"] = {"gang": plan.key.name, **document["spec"]}
    if plan.nodes or plan.pods:
        names = zlib.compress("\n".join(name or "" for name in plan.nodes).encode(), 6) if plan.nodes else b""
        uids = b"".join(_NONE if uid is None else UUID(uid).bytes for uid in plan.pods)
        document["status"]["assignment"] = msgspec.to_builtins(_Assignment(names, uids))
    return document


def decode_plan(raw: bytes | dict[str, Any]) -> GangPlan:
    """Return the plan of a GangPlan, or raise ``InvalidInput``: none that Arnold wrote, ``where`` says which."""
    fix = "delete it; the gang is planned again from its pods"
    return decode_resource(raw, GangPlan, _read, name=KIND, fix=fix)


def _read(document: StoredObject) -> dict[str, Any]:
    assignment = msgspec.convert(document.status.get("assignment", {}), _Assignment)
    unpacker, packed = zlib.decompressobj(), assignment.pods
    try:
        plain = unpacker.decompress(assignment.nodes, MOST_BYTES)
    except zlib.error as error:
        raise ValueError(f"assignment.nodes cannot be unpacked: {error}") from None
    if assignment.nodes and not unpacker.eof:
        raise ValueError("assignment.nodes is cut off, or absurdly long")
    nodes = tuple(name or None for name in plain.decode().split("\n")) if assignment.nodes else ()
    if len(packed) % 16:
        raise ValueError("assignment.pods is cut off")
    uids = (packed[i : i + 16] for i in range(0, len(packed), 16))
    pods = tuple(None if uid == _NONE else str(UUID(bytes=uid)) for uid in uids)
    if pods and len(pods) != len(nodes):
        raise ValueError(f"assignment has {len(nodes)} nodes and {len(pods)} pods")
    meta, spec = document.metadata, document.spec
    key = (meta.namespace or "default", spec.get("gang") or meta.name)
    fields: dict[str, Any] = {"key": key, "nodes": nodes, "pods": pods}
    if nodes and "podsPerNode" not in document.status:
        # a definition from before pods shared nodes drops it; the nodes say it too
        fields["podsPerNode"] = max(Counter(filter(None, nodes)).values(), default=1)
    plan_spec = msgspec.convert(spec, PlanSpec)
    if not plan_spec.parallelism:
        return fields
    # However it was written, it is compared as we write it; and that it cannot be read is found out now.
    degrees = parse_parallelism(plan_spec.parallelism, order=plan_spec.order)
    return fields | {"spec": plan_spec.replace(parallelism=format_parallelism(degrees), order=degrees.order)}


def with_doubts(plan: GangPlan, gang: Gang, now: datetime) -> GangPlan:
    """Return the plan with conditions about its gang's hints, and what is left unchecked, if there ever was any."""
    if gang.unchecked or plan.condition(CHECKED) is not None:
        reason = "LeftToScheduler" if gang.unchecked else "Understood"
        plan = plan.with_condition(CHECKED, not gang.unchecked, reason, gang.unchecked, now)
    if gang.doubts:
        return plan.with_condition(HINTS_READ, False, gang.doubts[0].reason, "; ".join(map(str, gang.doubts)), now)
    hints = plan.condition(HINTS_READ)
    return plan if hints is None else plan.with_condition(HINTS_READ, True, "Understood", "", now)
