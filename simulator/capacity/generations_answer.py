"""What queues make of several generations of GPUs: cells, kinds of jobs, the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ground.records import AtLeastOne, JsonRecord, NotNegative
from simulator.capacity.question import CapacityAnswer
from simulator.confidence import Band

NODE_GPUS = 4  # Of each node
BATCH = 0.0  # The load of a run whose jobs are all there at the beginning


def family_of(model: object) -> str:
    """Return what a model is called without its batch size."""
    return str(model).partition(" (")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationsCell(JsonRecord):
    """A queue policy at one load."""

    policy: str
    """Queue policy."""
    load: NotNegative | None
    """GPU time asked for over what there is; null = all jobs are there at the beginning."""
    jct_hours: Band
    """Mean time from submission to end."""
    jct_gain: Band
    """How often as long it is under the first policy, seed by seed on the same jobs."""
    makespan_hours: Band
    """Hours from the first submission to the last end."""
    makespan_gain: Band
    """How often as long it is under the first policy."""
    stops: NotNegative
    """How often a job is stopped at the end of a round, on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationsKind(JsonRecord):
    """A kind of job: which generation it should wait for."""

    kind: str
    """Family of models, without batch sizes."""
    speeds: Mapping[str, float]
    """Type of GPU -> speed relative to the fastest, a mean over its jobs of one GPU, or of the fewest."""
    waits_for: str
    """The fastest type."""
    instead_of: str
    """The next fastest; empty = there is no other."""
    wait_hours: NotNegative
    """How much longer it may wait for the fastest than for the next, for each hour that it runs there."""
    shares: Mapping[str, float]
    """Type of GPU -> share of the GPU time that it had there under gavel at the highest load; empty = not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedGain(JsonRecord):
    """A number of a paper, beside ours."""

    name: str
    """What is compared with what, and in which number."""
    published: float
    """Factor that the abstract states."""
    ours: Band | None
    """The largest over loads; null = not run."""


@dataclass(frozen=True, kw_only=True)
class GenerationsAnswer(CapacityAnswer):
    """Queues on several generations of GPUs."""

    types: tuple[str, ...]
    """Types of GPU, as many GPUs of each."""
    gpus: AtLeastOne
    """GPUs of each type."""
    jobs: AtLeastOne
    """Jobs of each run."""
    seeds: AtLeastOne
    """Workloads."""
    cells: tuple[GenerationsCell, ...]
    """Results by load, all jobs at once last, and by policy."""
    kinds: tuple[GenerationsKind, ...]
    """Kinds of jobs, the one that gains most from the fastest type first."""
    published: tuple[PublishedGain, ...]
    """Numbers of the papers."""


def kind_of(name: str, speeds: Mapping[str, float], shares: Mapping[str, float]) -> GenerationsKind:
    """Return which type a kind of job should wait for: an hour on the fastest is so much more on the next."""
    order = sorted((speed for speed in speeds if speeds[speed] > 0.0), key=lambda one: -speeds[one])
    following = order[1] if len(order) > 1 else ""
    return GenerationsKind(
        kind=name,
        speeds=speeds,
        waits_for=order[0],
        instead_of=following,
        wait_hours=speeds[order[0]] / speeds[following] - 1.0 if following else 0.0,
        shares=shares,
    )
