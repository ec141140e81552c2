"""Which runs a study makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

from simulator.replay import fingerprint
from simulator.replay_settings import COUNT_ONLY, ReplaySettings
from simulator.traces import JobTrace
from topology.cluster import Cluster


class StudyPoint(NamedTuple):
    """One run; its fields are the first columns of its row.

    :param cluster: name of the cluster among those of the study.
    :param load: scale of the load.
    """

    policy: str
    algorithm: str
    cluster: str
    load: float
    seed: int


@dataclass(frozen=True, slots=True)
class Inputs:
    """What all runs share; it travels to every process once.

    :param settings: of each run, but for what a :class:`StudyPoint` says.
    :param lenient: leave out jobs that a cluster could never hold, and count them.
    :param resample: seconds of the pieces from which each seed but 0 makes its own trace; ``None`` = all have the same.
    """

    trace: JobTrace
    clusters: Mapping[str, Cluster]
    settings: ReplaySettings = field(default=ReplaySettings())
    lenient: bool = False
    resample: float | None = None

    def settings_of(self, point: StudyPoint) -> ReplaySettings:
        """Return the settings of one run."""
        return replace(self.settings, policy=point.policy, algorithm=point.algorithm, seed=point.seed)


@dataclass(frozen=True, slots=True)
class StudyGrid:
    """Everything with everything."""

    policies: Sequence[str]
    algorithms: Sequence[str]
    clusters: Sequence[str]
    loads: Sequence[float] = (1.0,)
    seeds: Sequence[int] = (0,)

    @property
    def points(self) -> list[StudyPoint]:
        """All runs, in order; the seed changes fastest."""
        axes = self.policies, self.algorithms, self.clusters, self.loads, self.seeds
        return [StudyPoint(*point) for point in dict.fromkeys(product(*axes))]


def check_names(grid: StudyGrid) -> None:
    """Load every policy and algorithm once.

    :raises UnknownName: one is not installed.
    """
    from scheduler.placement.types import ALGORITHMS
    from scheduler.queue.policies import POLICIES

    for policy in grid.policies:
        POLICIES.load(policy)
    for algorithm in grid.algorithms:
        if algorithm != COUNT_ONLY:
            ALGORITHMS.load(algorithm)


def study_fingerprint(inputs: Inputs, *, version: str) -> str:
    """Return SHA-256 of what all runs of a study follow from, besides their points.

    :param version: of the program: another one may decide otherwise.
    """
    settings = replace(inputs.settings, policy="", algorithm="", seed=0)
    return fingerprint((version, settings, inputs.lenient, inputs.resample), inputs.trace, inputs.clusters)
