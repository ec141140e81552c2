"""What every placement algorithm takes and returns.

An algorithm proposes; it never says what its proposal is worth.  ``scheduler.objective`` evaluates every proposal in
the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal, Protocol, Self, TypeVar

from annotated_types import Gt, Interval

from ground.plugins import PluginGroup
from ground.records import AtLeastOne, FloatOrInfinity, JsonRecord, Seed, check_fields
from scheduler.witnesses import Witness
from scheduler.work_clock import ClockKind

if TYPE_CHECKING:
    from scheduler.job import Job
    from topology.cluster import Cluster, IntArray

Status = Literal["optimal", "feasible", "infeasible", "timeout", "gave-up", "refused"]
"""``optimal``: proved; ``feasible``: valid, with a gap; ``infeasible``: the algorithm shows that its rule admits no
placement; ``timeout``: out of time with nothing valid; ``gave-up``: a heuristic ended without a placement and proved
nothing; ``refused``: the algorithm proposed what the evaluator refuses."""

Pair = tuple[int, int]  # (S, R): DP spread and PP spread
P = TypeVar("P", bound=tuple[float, float])


def corners(pairs: Iterable[P]) -> list[P]:
    """Return the Pareto front of some pairs, by S: those that no other one is as good as in both."""
    front: list[P] = []
    # by S, then by R: one that has less R than all before it
    for pair in sorted(pairs):
        if not front or pair[1] < front[-1][1]:
            front.append(pair)
    return front


Prefer = Literal["moves", "objective"]  # What a repair puts first: the fewest moved cells, or the best objective
Told = Literal["everything", "placement", "spread"]
"""What a caller wants to be told: all that an algorithm can find out; or a placement, with the proof of its objective
alone: closer levels are good and not proved, and no other corners of the trade are looked for; or that where nothing
reads how its groups lie at closer levels, so that no care is taken of it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long an algorithm may take, what it is to tell, and what makes it repeatable: the options of commands that
    place.
    """

    seconds: Annotated[float, Gt(0)] = field(default=10.0, metadata={"option": "--time-limit", "metavar": "SECONDS"})
    """Seconds for each placement; then the best so far counts."""
    seed: Seed = field(default=0, metadata={"metavar": "N"})
    """Seed of all that is drawn: same seed, same answer, where no clock ends a search."""
    workers: Annotated[int, Interval(ge=1, le=1024)] = field(default=2, metadata={"metavar": "N"})
    """Threads that a solver may use."""
    progress: Callable[[str], None] | None = field(default=None, metadata={"option": False})
    """Called now and then with a short sentence; ``None`` = progress is not shown."""
    told: Told = field(default="everything", metadata={"option": False})
    """What the caller wants to be told: services read the placement alone, replays its spread."""
    clock: ClockKind = field(default="wall", metadata={"option": False})
    """Whether the seconds end a search by the wall's clock too, or, as in replays, by counted work alone."""

    def __post_init__(self) -> None:
        """Refuse, by :class:`InvalidInput`, what no field may hold; a search may ask a part of itself for what takes no
        time.
        """
        if self.seconds != 0.0:
            check_fields(self)

    def say(self, message: str) -> None:
        """Show a short sentence about the progress."""
        if self.progress is not None:
            self.progress(message)


@dataclass(frozen=True, slots=True)
class Refutation:
    """Why no placement with (S, R) at most ``pair`` exists: in words, and ``by`` which bound or search."""

    pair: Pair
    by: str
    sentence: str
    witness: Witness | None = None  # by which it can be recounted; None = the pair is enough, or only a solver can tell

    def covers(self, dp: int, pp: int) -> bool:
        """Return whether the refutation rules out a pair: one that is as small in both."""
        return dp <= self.pair[0] and pp <= self.pair[1]


@dataclass(frozen=True, slots=True)
class GridProof:
    """What was refuted of the grid that a job is on some of the nodes: those up to a slowdown, in one trunk."""

    level: str
    slowest: float  # 1.0 = without flagged nodes, infinity = any
    rows: int  # of the grid, of blocks where cells are held together
    columns: int
    capacities: tuple[int, ...]  # cells that each domain takes, in descending order
    refutations: tuple[Refutation, ...]
    trunk: str = ""  # where nothing joins the trunks


class ParetoPoint(JsonRecord):
    """A corner of the trade between DP and PP spread; it does not depend on alpha."""

    dp: AtLeastOne
    """DP spread, S."""
    pp: AtLeastOne
    """PP spread, R."""
    proved: bool
    """No placement is at least as good in both and better in one."""


class PriceOption(JsonRecord):
    """One way to treat slow nodes, as weighed under ``avoid: price``."""

    slowest: FloatOrInfinity
    """Nodes up to this slowdown were admitted, 1 = none of the flagged ones; null = any."""
    objective: float | None
    """Objective of the best placement found on these nodes; null = none was looked for that keeps all constraints."""
    bound: float | None
    """No placement on these nodes has a smaller objective."""
    step_time: float | None
    """Predicted step time with that objective and a node of that slowdown in use, 1 = no spread and no slow node."""
    chosen: bool
    """Whether this option was taken."""
    sentence: str
    """The option in words."""

    @classmethod
    def of(
        cls, slowest: float, *, objective: float | None, bound: float | None, step_time: float | None, chosen: bool
    ) -> Self:
        """Return an option with its sentence; the ideal that times are measured by has no spread and no slow node."""
        what = "without slow nodes" if slowest == 1.0 else f"with nodes up to {slowest:.4g} times slower"
        if objective is None or step_time is None:
            worth = "not looked at" if bound is None else f"objective at least {bound:g}"
        else:
            worth = f"objective {objective:g}, predicted step time {step_time:.3f} x ideal"
            worth += "" if slowest == 1.0 else " with one as slow in use"
        return cls(slowest, objective, bound, step_time, chosen, f"{what}: {worth}{', chosen' if chosen else ''}")


@dataclass(frozen=True, slots=True)
class Proposal:
    """What an algorithm answers."""

    nodes: IntArray | None  # shape [rows, columns], index of the node each cell goes to; None = nothing found
    # certified: no valid placement, slow nodes and all, has a smaller objective; None = no such claim
    lower_bound: float | None = None
    # certified: no valid placement has a shorter predicted step, where slow nodes have a price; None = no such claim
    step_time_bound: float | None = None
    # certified: no placement that is as good in its objective has a smaller EP spread at the job's level
    expert_bound: float = 1.0
    # level -> certified: no placement has less of Eq. 2 there that is as good in its objective, its EP spread and at
    # levels between
    closer_bounds: Mapping[str, float] = field(default_factory=dict)
    complete: bool = True  # false = time ran out
    in_order: bool = (
        False  # whether which node has which rank is part of the answer; else ranks of equal worth may swap
    )
    infeasible: str = ""  # why no valid placement exists, when the algorithm proved that; else empty
    pareto: tuple[ParetoPoint, ...] = ()  # corners of the (S, R) trade known so far
    refutations: tuple[Refutation, ...] = ()
    proofs: tuple[
        GridProof, ...
    ] = ()  # what proves the bound, of each part of the question; the first is of the answer
    # of grids at closer levels, on all nodes of the answer's part or inside one broader domain: what counting refuted
    closer_proofs: tuple[GridProof, ...] = ()
    prices: tuple[PriceOption, ...] = ()
    solve_seconds: float = 0.0  # wall time of the search itself, without imports and without seating on nodes
    notes: tuple[str, ...] = ()  # what a user should know about this run, one sentence each
    statistics: Mapping[str, float] = field(default_factory=dict)

    @property
    def corners(self) -> tuple[ParetoPoint, ...]:
        """Corners of the trade in order of DP spread."""
        return tuple(sorted(self.pareto, key=lambda point: (point.dp, point.pp)))


class PlacementAlgorithm(Protocol):
    """A way to place a job: what a callable without arguments, an entry point of ``arnold.placement``, makes."""

    @property
    def name(self) -> str:
        """Name on the command line."""

    @property
    def summary(self) -> str:
        """One line for ``arnold compare --list``."""

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Propose nodes for every cell of the job.

        :raises InvalidJob: the job cannot be cut into nodes.
        :raises UnknownName: the job names a level that the cluster does not have.
        """


ALGORITHMS: PluginGroup[PlacementAlgorithm] = PluginGroup(
    "arnold.placement", unknown="no placement algorithm is called", where="--algorithm"
)
"""All installed algorithms."""
