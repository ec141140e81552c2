"""What a queue policy is told, and what it answers: plain values that a controller and a simulator both have; and what
policies are made from.

Nodes are numbers into arrays.  GPUs are counted in *units*, whatever the caller counts in (GPUs, or hundredths of one
where jobs share a GPU).  Times are seconds on the caller's clock.  A job asks for ``nodes`` nodes with
``gpus`` units on each.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from ground.errors import InvalidInput
from ground.plugins import PluginGroup
from topology.cluster import BoolArray, IntArray

Key = TypeVar("Key", bound=Hashable)

Keep = IntArray | None
"""Shape [nodes]: units that a candidate must leave free on each node; ``None`` = it may take all that is free."""

Rank = tuple[Any, ...]
"""Place in the queue: the least is asked first.  It does not change while a job waits, so a queue can stay sorted."""


class QueueMember(Protocol):
    """What is known of a job, whether it waits or runs."""

    @property
    def key(self) -> Hashable:
        """Unique, and comparable with the keys of the others."""

    @property
    def priority(self) -> int:
        """Higher first."""

    @property
    def gpus(self) -> int:
        """Units on each of its nodes."""

    @property
    def preemptible(self) -> bool:
        """Whether it may be stopped and queued again."""


class Waiting(QueueMember, Protocol):
    """A job in the queue."""

    @property
    def namespace(self) -> str:
        """Whose it is, where namespaces share the cluster; empty = nobody's in particular."""

    @property
    def submitted(self) -> float:
        """When it was."""

    @property
    def nodes(self) -> int:
        """Nodes that it needs."""

    @property
    def predicted(self) -> float | None:
        """Seconds that it is expected to run; ``None`` = unknown."""

    @property
    def predicted_high(self) -> float | None:
        """Seconds that it will hardly exceed: the upper end of the band; ``None`` = unknown."""

    @property
    def reservation(self) -> str:
        """Name of the reservation that was made for it; empty = none was."""

    @property
    def gpu_types(self) -> tuple[str, ...] | None:
        """Types of GPU that its nodes may have; ``None`` = any."""

    @property
    def mix_types(self) -> bool:
        """Whether its nodes may have several types of GPU."""


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job in the queue as plain values; fields as in :class:`Waiting`."""

    key: Hashable
    priority: int
    submitted: float
    nodes: int
    gpus: int
    predicted: float | None = None
    predicted_high: float | None = None
    preemptible: bool = False
    reservation: str = ""
    gpu_types: tuple[str, ...] | None = None
    mix_types: bool = False
    namespace: str = ""

    @classmethod
    def of(cls, job: Waiting, **changes: Any) -> Self:
        """Return a job as a policy is to see it, where that differs from what it is."""
        return cls(**{field.name: getattr(job, field.name) for field in fields(cls)} | changes)


class Running(QueueMember, Protocol):
    """A job that has nodes."""

    @property
    def places(self) -> Sequence[int]:
        """Its nodes."""

    @property
    def started(self) -> float:
        """When it started."""

    @property
    def ends(self) -> float:
        """When it is expected to end; ``inf`` = unknown."""

    @property
    def leaving(self) -> bool:
        """Whether it was stopped, and only has not given its nodes back yet."""


@dataclass(frozen=True, slots=True)
class RunningEntry(Generic[Key]):
    """A job that has nodes as plain values; fields as in :class:`Running`."""

    key: Key
    priority: int
    preemptible: bool
    gpus: int
    places: tuple[int, ...]
    started: float
    ends: float
    leaving: bool = False
    protected: bool = False  # whether it is not to be stopped, whatever the priority of the other


@dataclass(frozen=True, slots=True, eq=False)
class CapacityReservation:
    """Room kept for a large job that was announced before it arrives."""

    name: str  # unique; the job names it
    nodes: int  # how many it needs
    gpus: int  # units on each
    announced: float  # when it was
    arrives: float  # when the job will be submitted
    # its nodes, on the cluster as if empty (scheduler.queue.arnold.place_zone); empty = there is none that would do
    zone: tuple[int, ...] = ()
    claimed: bool = False  # whether the job is here and waits for its nodes


class ClusterState(Protocol):
    """The cluster as it is now."""

    @property
    def version(self) -> int:
        """Counts changes of anything that a decision could depend on."""

    @property
    def now(self) -> float:
        """The time."""

    @property
    def total(self) -> IntArray:
        """Shape [nodes], units that jobs may use; 0 for a node that none may."""

    @property
    def free(self) -> IntArray:
        """Shape [nodes], units that no job holds."""

    @property
    def running(self) -> Iterable[Running]:
        """Jobs that have nodes, by expected end."""

    @property
    def reservations(self) -> Sequence[CapacityReservation]:
        """Those announced whose job has not started, by time of arrival."""

    def compartments(self, *, mix_types: bool) -> IntArray | None:
        """Shape [nodes], the compartment of each (type of GPU, unless a job may mix them; trunk), where a job must lie
        in one of them; ``None`` = it may span the cluster.
        """

    def usable(self, job: Waiting) -> BoolArray:
        """Shape [nodes], which could host a part of the job if the cluster were empty."""

    def may_fit(self, job: Any) -> bool:
        """Return whether enough is free for a job that waits; quick, true more often than there is a placement."""

    @property
    def domains(self) -> Sequence[IntArray]:
        """For each level from broad to close: shape [nodes], the domain of each node."""

    def unsaved(self, running: Running) -> float:
        """Return the seconds of work that a running job would lose if it were stopped now."""

    def share(self, namespace: str) -> float:
        """Return the GPUs that a namespace has in use or is promised, divided by its weight; asked of policies with
        :attr:`QueuePolicy.sharing` alone.
        """


@dataclass(frozen=True, slots=True, eq=False)
class HeldNodes:
    """What is kept for a job that waits, from a moment on."""

    until: float  # a job that ends by then takes nothing away, since it will be free again; -inf = none does
    keep: IntArray  # shape [nodes], units that all others leave free
    # nodes on which they need not, whichever these are: so many more than are needed will have room then
    spare: int = 0

    def against(self, job: Waiting, cluster: ClusterState) -> IntArray:
        """Return what is kept from a job that does not end in time; as many nodes as are spare are let go.

        They are the last of those that the job could use and would miss.
        """
        if not self.spare:
            return self.keep
        free = cluster.free
        contested = np.flatnonzero(cluster.usable(job) & (free >= job.gpus) & (free - self.keep < job.gpus))
        left: IntArray = self.keep.copy()
        left[contested[-self.spare :]] = 0
        return left


class QueuePolicy(Protocol):
    """Which job is asked first, which may pass which, and on what.  It decides nothing about nodes: placement does.

    Registered as an entry point in the group ``arnold.queue``: a class (or any callable without arguments) that makes
    an object with this face.  It remembers nothing between calls.
    """

    name: str  # on the command line
    summary: str  # one line for people
    passing: bool  # whether those behind a blocked job are asked at all
    claims: int | None  # how many of the blocked ones, first in rank first, something is kept for; None = all
    claims_of_equals: bool  # whether also for each of several with the same need, so that all are asked
    # whether namespaces take turns, the one with the smallest share first, and rank is the order inside each
    sharing: bool
    reserving: bool  # whether zones are to be found for announced jobs
    stops_any_time: bool  # whether it stops jobs for any other, not only for one announced: for simulation alone
    # seconds of its rounds, where it decides at their ends alone (scheduler.queue.rounds); None = at any time
    round_seconds: float | None

    def rank(self, job: Waiting) -> Rank:
        """Return the job's place in the queue."""

    def holds(self, blocked: Sequence[Waiting], cluster: ClusterState) -> Sequence[HeldNodes]:
        """Return what is kept for those that were asked and have no room.

        :param blocked: the first :attr:`claims` of them by rank, at least one; of several with the same need, later
            ones may be missing, but for :attr:`claims_of_equals`.
        """

    def offers(self, job: Waiting, cluster: ClusterState, holds: Sequence[HeldNodes]) -> Iterable[Keep]:
        """Return where the job may go, the first offer that has room for it counts; nothing = it waits.

        Of the job it looks at what it needs, its predicted times, ``preemptible`` and ``reservation`` alone.  One that
        is predicted to run longer, all else being equal, is offered no more.

        :param holds: for those blocked before it.
        """

    def victims(self, job: Waiting, cluster: ClusterState) -> Sequence[Sequence[Running]]:
        """Return sets of running jobs, one to be stopped so that a job without room has room; none = it waits.

        Of several that counts which gives the best place, of places of the same objective the first.
        """


POLICIES: PluginGroup[QueuePolicy] = PluginGroup("arnold.queue", unknown="no queue policy is called", where="--policy")
"""All installed queue policies."""


def live_policy(name: str) -> QueuePolicy:
    """Return a policy, or raise ``InvalidInput``: for simulation alone; ``UnknownName``: no package offers it."""
    policy = POLICIES.load(name, where="--policy")
    if policy.stops_any_time:
        raise InvalidInput(
            f"the queue policy {name} is for simulation alone: it stops jobs at any time, and on a cluster the nodes "
            "that one gives back come free one by one, minutes apart: others would take them before the job for which "
            "it was stopped",
            where="--policy",
            fix="choose priority-age, and let the cluster's own scheduler preempt others; or arnold, which stops "
            "preemptible ones for jobs that were announced",
        )
    return policy


def ends_by(job: Waiting, now: float, until: float) -> bool:
    """Return whether a job that starts now is expected to end by a moment."""
    return job.predicted is not None and now + job.predicted <= until


def kept(holds: Sequence[HeldNodes], job: Waiting, cluster: ClusterState) -> Keep:
    """Return what several holds keep together from a job; ``None`` = nothing."""
    if not holds:
        return None
    arrays = [hold.against(job, cluster) for hold in holds]
    return arrays[0] if len(arrays) == 1 else np.sum(arrays, axis=0, dtype=np.int32)


def usable_together(job: Waiting, cluster: ClusterState) -> Sequence[BoolArray]:
    """Return among which nodes a job could lie if the cluster were empty: all that it could use, or those of each
    compartment.

    :returns: masks of shape [nodes]; no compartment without a node for it.
    """
    usable, compartment_of = cluster.usable(job), cluster.compartments(mix_types=job.mix_types)
    if compartment_of is None:
        return (usable,)
    return [usable & (compartment_of == number) for number in np.unique(compartment_of[usable])]


class BasePolicy:
    """First come, first asked; none passes; none is stopped."""

    passing = False
    claims: int | None = 0
    claims_of_equals = False
    sharing = False
    reserving = False
    stops_any_time = False
    round_seconds: float | None = None

    def rank(self, job: Waiting) -> Rank:
        """Rank by time of submission."""
        return (job.submitted, job.key)

    def holds(self, blocked: Sequence[Waiting], cluster: ClusterState) -> Sequence[HeldNodes]:  # noqa: ARG002
        """Keep nothing."""
        return ()

    def offers(self, job: Waiting, cluster: ClusterState, holds: Sequence[HeldNodes]) -> Iterable[Keep]:
        """Offer everything but what is kept beyond the job's expected end."""
        return (kept([hold for hold in holds if not ends_by(job, cluster.now, hold.until)], job, cluster),)

    def victims(self, job: Waiting, cluster: ClusterState) -> Sequence[Sequence[Running]]:  # noqa: ARG002
        """Stop none."""
        return ()


class PriorityFirst(BasePolicy):
    """Higher priority first, older first among equals."""

    def rank(self, job: Waiting) -> Rank:
        """Rank by priority, submission and key."""
        return (-job.priority, job.submitted, job.key)
