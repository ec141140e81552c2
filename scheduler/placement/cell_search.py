"""One job by the program that decides each cell: what several jobs at once are with one job alone.

Slow nodes are weighed against spread as everywhere: the program is asked on the nodes up to each slowdown that could
win, and the shortest step counts.  Then come the goals in their order, each among placements that are as good in those
before: so what is the least there is the least of all, whatever hierarchies cross.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, inf
from typing import TYPE_CHECKING

import numpy as np

from scheduler.job_on_cluster import closest_named
from scheduler.objective import TOLERANCE, closer_levels, evaluate, goals, objective_terms, step_time
from scheduler.placement.admission import admissible, prices_slow_nodes
from scheduler.placement.cell_choice import MOST_CHOICES
from scheduler.placement.cpsat import load_solver
from scheduler.placement.moves import MoveChoices, MoveModel, rounding_error
from scheduler.placement.node_classes import seat_in_classes
from scheduler.placement.types import Limits, PriceOption, Proposal
from scheduler.work_clock import clock, share_until, stopwatch
from topology.flags import HEALTHY

if TYPE_CHECKING:
    from scheduler.job import Job
    from topology.cluster import BoolArray, Cluster, IntArray


@dataclass(frozen=True, slots=True)
class UpToSlowdown:
    """What the program says of the nodes up to some slowdown."""

    slowest: float
    bound: float  # no placement on them has a smaller objective; infinite = there is none
    found: FoundBySearch | None = None  # None = no placement was found, or none was looked for

    def time(self, job: Job, *, objective: float) -> float:
        """Return the predicted step time with an objective; slow nodes without a price do not count."""
        slowest = HEALTHY if self.slowest == inf else self.slowest
        return inf if objective == inf else step_time(job, objective=objective, slowest=slowest)

    @property
    def objective(self) -> float:
        """Of the best placement; infinite = there is none."""
        return inf if self.found is None else self.found.objective


@dataclass(frozen=True, slots=True)
class FoundBySearch:
    """The best placement on some nodes, and the program, in which none is dearer from here on."""

    objective: float
    choices: MoveChoices
    model: MoveModel
    admitted: BoolArray  # shape [nodes]

    def nodes(self) -> IntArray:
        """Return the nodes of the last answer, shape [rows, columns]."""
        assert self.model.answer is not None
        of_cell, kinds = self.choices.class_of_cell(self.model.answer).ravel(), self.choices.kinds
        return seat_in_classes(self.choices.cluster, self.choices.job, of_cell, kinds.class_of, self.admitted)


@dataclass(frozen=True, slots=True)
class CellSearch:
    """The placement of one job, decided cell by cell."""

    cluster: Cluster
    job: Job
    limits: Limits
    start: IntArray | None  # shape [rows, columns], a placement that is known
    relaxed: Proposal  # of the job without some of its constraints: its bounds hold

    @property
    def choices(self) -> int:
        """Cells times classes of nodes where they may go."""
        return len(self._choices(admissible(self.cluster, self.job)))

    def propose(self) -> Proposal | None:
        """Propose the best placement, or that there is none; ``None`` = neither was found in the time."""
        load_solver()  # no part of the time
        job, begun, end = self.job, stopwatch(), clock() + self.limits.seconds
        searched = self._searched(end)
        widest = searched[-1]
        chosen = min(
            searched, key=lambda option: (round(option.time(job, objective=option.objective), 9), option.slowest)
        )
        if chosen.found is None:
            held = " and ".join(f"every {hold.family} group inside one {hold.level}" for hold in job.holds)
            reason = f"no choice of nodes keeps {held}, as far as a solver says"
            return Proposal(None, infeasible=reason, solve_seconds=stopwatch() - begun) if widest.bound == inf else None
        bounds, complete = self._after(chosen.found, end)
        possible = [option for option in searched if option.bound < inf]
        prices, shortest = tuple[PriceOption, ...](), None
        if prices_slow_nodes(self.cluster, job):
            shortest = min(option.time(job, objective=option.bound) for option in possible)
            prices = tuple(
                PriceOption.of(
                    option.slowest,
                    objective=None if option.found is None else option.found.objective,
                    bound=option.bound,
                    step_time=None if option.found is None else option.time(job, objective=option.objective),
                    chosen=option is chosen,
                )
                for option in possible
            )
        return Proposal(
            chosen.found.nodes(),
            lower_bound=widest.bound,
            step_time_bound=shortest,
            expert_bound=bounds.pop("ep", 1.0),
            closer_bounds=bounds,
            complete=complete
            and all(option.objective <= option.bound + TOLERANCE for option in possible if option.found),
            prices=prices,
            solve_seconds=stopwatch() - begun,
        )

    def _searched(self, end: float) -> list[UpToSlowdown]:
        """Return the slowdowns up to which nodes may be taken, ascending, each with what the program says there; the
        last is of all nodes, and its bound holds for all.
        """
        cluster, job = self.cluster, self.job
        options = [inf]
        if prices_slow_nodes(cluster, job):
            options = np.unique([HEALTHY, *cluster.slowdown[admissible(cluster, job)].tolist()]).tolist()
        widest = self._up_to(options[-1], 0.0, share_until(end, min(3, 1 + len(options))))
        searched: list[UpToSlowdown] = []
        for place, slowest in enumerate(options[:-1] if widest.bound < inf else []):
            # fewer nodes have no better objective, so no step is shorter than with that
            option = UpToSlowdown(slowest, widest.bound)
            fastest = option.time(job, objective=widest.bound)
            if all(other.time(job, objective=other.objective) > fastest + TOLERANCE for other in searched):
                option = self._up_to(slowest, widest.bound, share_until(end, len(options) - place))
            searched.append(option)
        return [*searched, widest]

    def _choices(self, admitted: BoolArray) -> MoveChoices:
        """Return where cells may go: nodes told apart at every level, or only where the objective and holds look."""
        finest = MoveChoices.anywhere(self.cluster, self.job, admitted, depth=len(self.cluster.levels) - 1)
        if self.limits.told == "everything" and len(finest) <= MOST_CHOICES:
            return finest
        return MoveChoices.anywhere(self.cluster, self.job, admitted, depth=closest_named(self.cluster, self.job))

    def _up_to(self, slowest: float, floor: float, seconds: float) -> UpToSlowdown:
        """Return the least objective, ``floor`` at least, on nodes up to a slowdown, or that there is none."""
        cluster, job, until = self.cluster, self.job, clock() + seconds
        admitted = admissible(cluster, job, slowest=None if slowest == inf else slowest)
        if int(admitted.sum()) < job.grid.cells:
            return UpToSlowdown(slowest, inf)
        for option in self.relaxed.prices:
            if option.slowest >= slowest:
                floor = max(floor, option.bound or 0.0)
        floor = max(floor, self.relaxed.lower_bound or 0.0)
        choices = self._choices(admitted)
        model = MoveModel(choices, replace(self.limits, workers=1))
        families = {*(hold.family for hold in job.holds), *(count.family for count in job.soft)}
        if job.grid.aligned and job.grid.parts == 1 and not job.experts_apart and families <= {"dp", "pp"}:
            model.cells.order(job.grid.rows)
        error = rounding_error(objective_terms(cluster, job), len(choices.kinds))
        model.at_least("objective", ceil((floor - error - TOLERANCE) * model.scale - 1e-6))
        if self.start is not None and admitted[self.start].all():
            model.suggest(choices.target_of_mover(self.start))
        step = model.minimise("objective", until)
        if step is None:
            return UpToSlowdown(slowest, inf if model.impossible else floor)
        found = FoundBySearch(step.value / model.scale, choices, model, admitted)
        found = replace(found, objective=evaluate(cluster, job, found.nodes()).objective)
        return UpToSlowdown(slowest, min(max(floor, step.bound / model.scale - error), found.objective), found)

    def _after(self, found: FoundBySearch, end: float) -> tuple[dict[str, float], bool]:
        """Meet the goals after the objective as time allows; return what no placement as good before is below, ``ep``
        of the expert groups and the rest by level, and whether all was decided that was asked.
        """
        cluster, job, model, choices = self.cluster, self.job, found.model, found.choices
        names = [*(["ep"] if job.experts_apart else []), *closer_levels(cluster, job)]
        bounds: dict[str, float] = {}
        for name, terms in zip(names, goals(cluster, job)[1:], strict=True):
            if not choices.tells_apart(terms) or (name != "ep" and self.limits.told != "everything"):
                break
            model.count(name, terms)
            if clock() >= end or (step := model.minimise(name, end)) is None:
                return bounds, False
            bounds[name] = step.bound / model.scale_of[name] - rounding_error(terms, len(choices.kinds))
        model.settle(end)
        return bounds, True
