"""What a gang is: pods that start together or not at all, each with a rank."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Self

from ground.errors import InvalidInput
from scheduler.job import Job
from topology.kubernetes.objects import START_OF_TIME
from topology.kubernetes.pods import Pod


class NamespacedName(NamedTuple):
    """What tells one of our objects from others of its kind: a name is unique in its namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class GangKey(NamespacedName):
    """What tells a gang from others."""

    __slots__ = ()


class InvalidGang(InvalidInput):
    """Pods that contradict each other or themselves; the reason of a condition of their GangPlan is one word."""

    def __init__(self, message: str, *, reason: str, where: str = "", fix: str = "") -> None:
        super().__init__(message, where=where, fix=fix)
        self.reason = reason

    @classmethod
    def of_pod(cls, pod: Pod, message: str, *, reason: str, fix: str) -> Self:
        """Return what is wrong with one pod."""
        return cls(message, reason=reason, where=f"pod {pod.namespace}/{pod.name}", fix=fix)


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """What a peer's dialect asks of the network."""

    level: str | None
    hard: bool  # what it concerns lies inside one domain of the level; otherwise that level's domains count
    source: str  # the annotation that says so
    tier: int | None = None  # number of a level, 1 the closest, where the dialect numbers its levels and level is None
    slice_size: int | None = None  # the request concerns each so many consecutive ranks; None = the whole gang
    unread: str = ""  # why it cannot be heeded, of the source; empty = it is


@dataclass(frozen=True, slots=True)
class GangRequest:
    """What the annotations of a pod ask for its gang, as written; members of one gang agree."""

    size: str | None = None
    parallelism: str | None = None
    order: str | None = None
    alpha: str | None = None
    model: str | None = None
    microbatches: str | None = None
    constraints: str | None = None
    gpu_types: str | None = None
    level: str | None = None
    tp_level: str | None = None
    avoid: str | None = None
    peak_watts: str | None = None
    requests: tuple[TopologyRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class GangMember:
    """One pod's part in a gang."""

    key: GangKey
    pod: Pod
    dialect: str  # which form of gang this is: arnold, jobset, pod-group, ...
    asked: GangRequest
    # where its controller puts it: (rank,) where that is the rank, else numbers in the order of the ranks, (job,
    # completion); None = nothing numbers it
    index: tuple[int, ...] | None = None
    # UID of the controller that does; empty where our label does, or a group of several controllers
    numbered_by: str = ""
    # jobs of one size that the gang consists of, where index is (job, completion); None = unknown
    parts: int | None = None
    size: int | None = None  # pods of the gang as its controller or its group says; None = they do not
    gpus: int = 0  # that the pod asks for; of no meaning where that is a problem
    given_up: bool = False  # whether its controller makes no pod of its index any more, as too many failed
    ended: tuple[range, ...] = ()  # indices of which its controller makes no pod any more; empty where RANK numbers it
    # why its controller makes no pod before others have started, and what to set; empty = it makes all
    stalls: str = ""
    problem: InvalidGang | None = None  # what is wrong with this pod's labels or annotations

    @property
    def needed(self) -> bool:
        """Whether the pod runs, or is still to run; one that is being deleted is not, its successor is."""
        return not self.pod.terminal and not self.pod.leaving

    @property
    def done(self) -> bool:
        """Whether its rank needs no pod any more: this one has succeeded, or has failed for good."""
        return self.pod.status.phase == "Succeeded" or (self.given_up and self.pod.terminal)


@dataclass(frozen=True)
class Gang:
    """All that is known of a gang from its pods."""

    key: GangKey
    dialect: str
    size: int | None  # pods it has when complete; None = not known
    # by rank, None where a pod is missing; empty while ranks are not known, which takes all pods where controllers
    # number them by several numbers.  Of a gang that goes on as planned those of its plan and those that it is to have
    members: tuple[GangMember | None, ...]
    pods: tuple[Pod, ...]  # all its pods, ended ones too
    # what the solver is asked, a cell for each pod; None while the gang has a problem, or its size is not known
    job: Job | None
    tiers: tuple[TopologyRequest, ...] = ()  # hard requests by number, to be resolved against the levels of the cluster
    planned: int = 0  # ranks of the plan that it goes on with; 0 = it has not started, or its plan is lost
    # ranks whose pod has succeeded, or failed for good, and is needed no more: the node it was on; None = not known
    done: Mapping[int, str | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what a user should know, one sentence each
    priority: int = 0  # highest of its pods
    created: datetime = START_OF_TIME  # creation of the oldest of its pods
    seconds: float | None = None  # expected to run at most so long; None = not known
    preemptible: bool = False
    protected: bool = False  # one of its pods says that it may not be stopped, for whatever priority
    # hints of its pods that cannot be read; they place nothing, so they are no problem
    doubts: tuple[InvalidGang, ...] = ()
    unchecked: str = ""  # what its pods ask for that no plan looks at, one sentence; empty = nothing
    waits: str = ""  # why it is not complete, one sentence; empty when it is
    problem: InvalidGang | None = None  # why it can never be planned as it is
    # what its pods contradict since some of them have started: the gang goes on as it was planned, and only pods that
    # fit no rank of it wait
    disputes: tuple[InvalidGang, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every rank has its pod and nothing is wrong."""
        return not self.waits and self.problem is None

    @property
    def over(self) -> bool:
        """Whether no pod of it holds anything any more: all have ended."""
        return all(pod.terminal for pod in self.pods)

    @property
    def needed_pods(self) -> Iterator[Pod]:
        """Pods that run or are still to run, and are not leaving."""
        return (pod for pod in self.pods if not pod.terminal and not pod.leaving)
