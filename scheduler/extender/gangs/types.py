"""What a gang is: pods that start together or not at all, each with a rank."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from scheduler.extender.objects import Pod
from scheduler.job import Job
from topology.errors import InvalidInput


class GangKey(NamedTuple):
    """Who a gang is: its name is unique in its namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class InvalidGang(InvalidInput):
    """Pods that contradict each other or themselves; becomes a condition of their GangPlan.

    :param reason: one word for machines, CamelCase: the ``reason`` of a condition.
    """

    def __init__(self, message: str, *, reason: str, where: str = "", fix: str = "") -> None:
        super().__init__(message, where=where, fix=fix)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Wish:
    """What a peer's dialect asks of the network, read as a level that counts or as one that holds.

    :param level: node label, or ``None`` where the dialect numbers its levels.
    :param tier: Volcano's number of a level, 1 the closest.
    :param hard: all that it concerns lies inside one domain; otherwise that level's domains count.
    :param slice_size: the hard wish concerns each so many consecutive ranks; ``None`` = the whole gang.
    :param source: the annotation that says so.
    """

    level: str | None
    hard: bool
    source: str
    tier: int | None = None
    slice_size: int | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a pod's annotations ask for its gang, as text; members of one gang agree.

    :param size: annotation ``gang-size``.
    :param wishes: peers' dialects, used where our own annotations say nothing.
    """

    size: str | None = None
    parallelism: str | None = None
    alpha: str | None = None
    level: str | None = None
    avoid: str | None = None
    wishes: tuple[Wish, ...] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """One pod's part in a gang.

    :param index: where its controller puts it, to be compared in order: (rank,) or (job, completion), ...; ``None`` =
        nothing numbers it.
    :param size: pods of the gang as its controller or its group says; ``None`` = unknown from there.
    :param dialect: which form of gang this is: ``arnold``, ``jobset``, ``pod-group``, ...
    :param problem: what is wrong with this pod's labels or annotations.
    """

    key: GangKey
    pod: Pod
    dialect: str
    asked: Asked
    index: tuple[int, ...] | None = None
    size: int | None = None
    problem: InvalidGang | None = None


@dataclass(frozen=True)
class Gang:
    """All that is known of a gang from its pods.

    :param size: pods it has when complete; ``None`` = nobody says.
    :param members: by rank, ``None`` where a pod is missing; empty until ranks are known.
    :param pods: all its pods that live, ranked or not.
    :param done: ranks whose pod has succeeded and is not needed any more.
    :param job: what the solver is asked; ``None`` while the gang has a problem.
    :param wishes: what is left to resolve against the levels of the cluster.
    :param asked: the annotations it came from.
    :param priority: highest of its pods.
    :param created: of its oldest pod.
    :param waits: why it is not complete, one sentence; empty when it is.
    :param problem: why it can never be planned as it is.
    """

    key: GangKey
    dialect: str
    size: int | None
    members: tuple[Member | None, ...]
    pods: tuple[Pod, ...]
    asked: Asked
    job: Job | None
    wishes: tuple[Wish, ...] = ()
    done: frozenset[int] = frozenset()
    priority: int = 0
    created: datetime = datetime.min
    waits: str = ""
    problem: InvalidGang | None = None

    @property
    def complete(self) -> bool:
        """Whether every rank has its pod and nothing is wrong."""
        return not self.waits and self.problem is None

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks without a pod, those that have succeeded left out."""
        return tuple(r for r, member in enumerate(self.members) if member is None and r not in self.done)

    @property
    def uids(self) -> tuple[str | None, ...]:
        """UID of each rank's pod."""
        return tuple(None if member is None else member.pod.uid for member in self.members)
