"""A placement problem, and the outcome of a run on it: an algorithm's proposal, weighed by the one evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Self

from ground.errors import InvalidPlacement
from ground.quantities import decimal, number
from ground.records import AtLeastOne, Count, JsonRecord
from scheduler.job import Job
from scheduler.objective import TOLERANCE, Evaluation, Spread, slowest_in_use, step_time
from scheduler.placement.admission import admissible, flags_of_usable
from scheduler.placement.types import Proposal, Status
from scheduler.work_clock import End
from topology.cluster import BoolArray, Cluster, FloatArray, Level
from topology.flags import NodeFlag

STATUS: Mapping[Status, str] = {
    "optimal": "proved optimal",
    "feasible": "feasible",
    "infeasible": "infeasible",
    "timeout": "stopped at its time limit",
    "gave-up": "gave up",
    "refused": "refused",
}
"""Statuses of an outcome as text and pages show them."""


@dataclass(frozen=True)
class Instance:
    """A job, the cluster it is to be placed on, and where both come from."""

    cluster: Cluster
    job: Job
    source: str = ""  # Name of the cluster's file
    notes: tuple[str, ...] = ()  # What is worth knowing about how the two were read, a sentence each
    costs: FloatArray | None = None  # shape [nodes], beside the objective; None = GB of images to pull

    @cached_property
    def level(self) -> Level:
        """The level at which spread counts; raises as :meth:`Cluster.level`."""
        return self.cluster.level(self.job.level)

    @cached_property
    def usable(self) -> BoolArray:
        """Shape [nodes]: whether a cell of the job may be there."""
        return admissible(self.cluster, self.job)

    def settled(self, outcome: Outcome) -> Instance:
        """Return it with the size of node of the type of GPU that was chosen, where the job leaves that to the type."""
        if outcome.gpus_per_node is None:
            return self
        return replace(self, job=self.job.replace(gpus_per_node=outcome.gpus_per_node, node_sizes=()))

    @cached_property
    def flags(self) -> tuple[NodeFlag, ...]:
        """What is held against nodes that the job could use otherwise, by node."""
        return flags_of_usable(self.cluster, self.job)


class TypeOption(JsonRecord, kw_only=True):
    """What a job would get on nodes with one type of GPU, or on nodes with several where it may mix them."""

    gpu_types: tuple[str, ...]
    """Types of its nodes; several = mixed, empty text = nodes of which no type is said."""
    nodes: Count
    """Nodes of these types that it could use."""
    status: Status
    """Status of the algorithm on these nodes alone."""
    proved_to: str | None
    """How much of what is asked is proved on these nodes: `objective`, a level's name, `all`, or null."""
    speed: float
    """Relative speed of the job there; on several types that of the slowest in use."""
    objective: float | None
    """Objective of the placement; null = there is none."""
    bound: float | None
    """No placement on these nodes has a smaller objective; null = there is none."""
    cost: float | None
    """objective / speed, the least of which is chosen; null = there is no placement."""
    chosen: bool
    """Whether the job's placement is this one."""
    sentence: str
    """The option in words."""


class ExpertSpread(JsonRecord):
    """Spread of the expert groups at the job's level."""

    spread: AtLeastOne
    """Domains that an expert group touches at most."""
    proved: bool
    """No placement with as good an objective (which is proved too, unless the spread is 1) has a smaller one; of
    placements with no node slower than was admitted."""


class CloserSpread(JsonRecord):
    """Spread at a level closer than the job's."""

    dp: AtLeastOne
    """Spread of the DP groups."""
    pp: AtLeastOne
    """Spread of the PP groups."""
    proved: bool
    """No placement with as good an objective and EP spread (which are proved too), and as good at the levels between,
    has less of alpha * dp + beta * pp here; of placements with no node slower than was admitted."""


@dataclass(frozen=True, slots=True)
class PredictedStep:
    """How long a step takes where slow nodes have a price, and so what decides; 1 = no spread and no slow node."""

    time: float  # of the placement, by the evaluator
    bound: float  # no placement on the types of GPU that were chosen has a shorter step; at most the time

    @classmethod
    def of(cls, cluster: Cluster, job: Job, worth: Evaluation, *, bound: float) -> Self:
        """Return that of a placement, given a bound, which the placement itself may refute."""
        time = step_time(job, objective=worth.objective, slowest=slowest_in_use(cluster, worth))
        return cls(time, min(time, bound))

    @property
    def proved(self) -> bool:
        """Whether no step is shorter."""
        return self.time <= self.bound + TOLERANCE

    @property
    def in_words(self) -> str:
        """The time, and what no step is shorter than."""
        bound = "the least" if self.proved else f"proved bound {self.bound:.3f}"
        return f"predicted step time {self.time:.3f} x ideal, {bound}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A proposal with its worth."""

    algorithm: str
    status: Status
    proposal: Proposal
    evaluation: Evaluation | None = None  # present exactly when the status is optimal or feasible
    # no placement has a smaller objective, on whatever nodes the job may have; present with evaluation
    bound: float | None = None
    gap: float | None = None  # (objective - bound) / objective, 0 when proved; present with evaluation
    step: PredictedStep | None = None  # where slow nodes have a price; None = nowhere a slow node that the job may have
    reason: str = ""  # why there is no placement; empty when there is one
    notes: tuple[str, ...] = ()  # what a user should know about this run, one sentence each
    types: tuple[TypeOption, ...] = ()  # the types of GPU that it could be on; empty = nothing says any
    gpus_per_node: int | None = None  # of its nodes, where the job leaves that to them or had several types
    # what was compared: the job for each choice of types, and its outcome
    by_type: tuple[tuple[Job, Outcome], ...] = ()
    # what stopped the algorithm, or what came after its proof; None = it ended by itself, or proved its answer all the
    # same, and the same question has the same answer
    stopped_at: End | None = None
    # wall time of the whole run, with all after the proof; None = not run alone, or nobody waits
    run_seconds: float | None = None

    @property
    def objective(self) -> float | None:
        """Worth of the placement; ``None`` = there is no placement."""
        return None if self.evaluation is None else self.evaluation.objective

    @property
    def step_time(self) -> float | None:
        """Predicted step time of the placement; ``None`` = slow nodes have no price."""
        return None if self.step is None else self.step.time

    @property
    def step_time_bound(self) -> float | None:
        """What no predicted step time is below; ``None`` = slow nodes have no price."""
        return None if self.step is None else self.step.bound

    def bound_up_to(self, slowest: float) -> float | None:
        """Return what no objective is below on nodes up to some slowdown, of the types of GPU that were chosen."""
        wider = (option.bound for option in self.proposal.prices if option.slowest >= slowest)
        return max((bound for bound in (*wider, self.bound) if bound is not None), default=None)

    @property
    def spread(self) -> Spread | None:
        """Spreads of the placement; ``None`` = there is no placement."""
        return None if self.evaluation is None else self.evaluation.spread

    @property
    def ep(self) -> ExpertSpread | None:
        """How far expert groups are spread at the job's level; ``None`` = none takes several nodes."""
        if self.evaluation is None or self.evaluation.experts is None:
            return None
        spread, bound = self.evaluation.experts, self.proposal.expert_bound if self.status == "optimal" else 1.0
        return ExpertSpread(spread, spread <= bound + TOLERANCE)

    @property
    def closer(self) -> Mapping[str, CloserSpread]:
        """What the placement is worth at each closer level, from the broadest; empty without one."""
        if self.evaluation is None:
            return {}
        proved, closer = self.status == "optimal" and (self.ep is None or self.ep.proved), {}
        for level, cost in self.evaluation.closer.items():
            spreads = self.evaluation.by_level[level]
            # every group touches one domain at least, and alpha + beta is 1
            bound = max(self.proposal.closer_bounds.get(level, 0.0), 1.0)
            # what a level has at least is asked of placements that are the best at the levels before it
            proved = proved and cost <= bound + TOLERANCE
            closer[level] = CloserSpread(spreads["dp"], spreads["pp"], proved)
        return closer

    @property
    def proved_to(self) -> str | None:
        """How much of what is asked is proved (:func:`proved_down_to`); ``None`` = not even what decides first."""
        if self.evaluation is None or self.status != "optimal":
            return None
        return proved_down_to(self.evaluation, experts=self.proposal.expert_bound, closer=self.proposal.closer_bounds)

    @property
    def verdict(self) -> str:
        """The outcome in one sentence: ``proved optimal: DP spread 2, PP spread 4, objective 3.0; ...``."""
        status, worth = status_words(self.status, self.stopped_at), self.evaluation
        if worth is None:
            return f"{status}: {self.reason}"
        spreads = f"DP spread {worth.dp}, PP spread {worth.pp}, objective {decimal(worth.objective)}"
        bound = "" if self.gap == 0.0 else f", proved bound {decimal(self.bound or 0.0)}"
        proved, least = self.status == "optimal", self.gap == 0.0
        if proved != least:
            # slow nodes have a price: the least objective is not what decides
            status += " by step time"
        elif not proved:
            status += f", gap {self.gap:.1%}"
        step = "" if self.step is None or (proved and least) else f"; {self.step.in_words}"
        proof = "" if self.proved_to is None else f"; {proof_in_words(self.proved_to)}"
        return f"{status}: {spreads}{bound}{step}{proof}"

    def after(self, stopped_at: End | None, *, late: bool = False) -> Outcome:
        """Return it as that of a search which something ended; ``None`` = it ended by itself.

        :param late: whether that was not its count of work: then what is not proved may be another answer in another
            run.
        """
        if late and stopped_at is not None and self.status != "infeasible":
            return replace(
                self, stopped_at=stopped_at, notes=tuple(dict.fromkeys((*self.notes, late_note(stopped_at))))
            )
        return replace(self, stopped_at=stopped_at if self.status in ("feasible", "timeout") else None)

    def weighed(
        self, proposal: Proposal, evaluation: Evaluation, bound: float, step: PredictedStep | None = None
    ) -> Outcome:
        """Return it with a placement and what that is worth, proved where the bound says so: that of the objective, or
        where slow nodes have a price that of the predicted step, and with as short a step that of the objective.
        """
        least = bound >= evaluation.objective - TOLERANCE
        weighed = replace(
            self,
            proposal=proposal,
            evaluation=evaluation,
            bound=evaluation.objective if least else bound,
            gap=0.0 if least else (evaluation.objective - bound) / evaluation.objective,
            step=step,
        )
        if step is not None:
            chosen = next((option.slowest for option in proposal.prices if option.chosen), inf)
            least = step.proved and evaluation.objective <= (weighed.bound_up_to(chosen) or 0.0) + TOLERANCE
        return replace(weighed, status="optimal" if least else "feasible")


def status_words(status: Status, stopped_at: End | None = None) -> str:
    """Return a status as text and pages show it: ``proved optimal``, ``stopped at 5 s``, ``interrupted``."""
    # what is proved is proved, whatever was left undone after it
    if stopped_at is None or status == "optimal":
        return STATUS[status]
    return "interrupted" if stopped_at == "interrupted" else f"stopped at {number(stopped_at)} s"


def proved_down_to(worth: Evaluation, *, experts: float = 1.0, closer: Mapping[str, float] | None = None) -> str:
    """Return how much of what is asked is proved of a placement whose objective is.

    :param experts: no placement that is as good by its objective has a smaller EP spread.
    :param closer: level -> none that is as good down to there has less of Eq. 2.
    :returns: ``objective``: no more; the name of a level: down to it, EP spread and Eq. 2; ``all``: down to the nodes.
    """
    reached = "objective"
    if worth.experts is not None:
        if worth.experts > experts + TOLERANCE:
            return reached
        reached = worth.level
    for level, cost in worth.closer.items():
        # every group touches one domain at least, and alpha + beta is 1
        if cost > max(1.0, (closer or {}).get(level, 0.0)) + TOLERANCE:
            return reached
        reached = level
    return "all"


def proof_in_words(proved_to: str) -> str:
    """Return as text and pages say it how much of what is asked is proved."""
    words = {"all": "all that is asked is proved", "objective": "nothing closer is proved"}
    return words.get(proved_to, f"proved down to {proved_to}")


def late_note(stopped_at: End) -> str:
    """Return the note on an answer that depends on when its search was ended, and so on how fast the machine was."""
    if stopped_at == "interrupted":
        return "The search was interrupted: what is not proved may differ in another run."
    return (
        "The clock ended the search before its count of work did: what is not proved may differ in another run, unless "
        "--time-limit is larger or the machine less busy."
    )


class RefusedPlacement(InvalidPlacement):
    """An algorithm proposed what the evaluator refuses: the algorithm's doing, not the user's."""

    exit_code = 1

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(
            f"the algorithm {outcome.algorithm!r} proposed an invalid placement: {outcome.reason}",
            fix="use --algorithm exact, which heeds all constraints; if that is refused, report it as a bug",
        )


class TurnResult(JsonRecord):
    """What the jobs get when each is placed on what those before it left."""

    order: tuple[str, ...]
    """Names of the jobs, first to last."""
    objective: float | None
    """The weighted sum; null = some job finds no place."""
    stuck: str | None
    """The first job that finds no place; null = all do."""
