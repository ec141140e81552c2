"""Repairs that keep constraints at second hierarchies, of which the searches for a repair know nothing.

A repair that was found without these constraints is taken where it keeps them by itself.  Else their hierarchies are
laid into the tree, after none, one or all of its levels (:func:`scheduler.second_constraints.laid_into_tree`): a repair
on such a tree keeps the hard ones, as holds at a level of it.  Not every repair that keeps them is one on such a tree,
so the only claims are those of the repair without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import perf_counter

from scheduler.job import Job
from scheduler.objective import evaluate, spread_by_level, trivial_bound
from scheduler.placement.types import Limits
from scheduler.repair.moves_first import RepairPlan
from scheduler.repair.repair_problem import RepairProblem, problem_of
from scheduler.second_constraints import laid_into_tree, within_the_tree
from scheduler.trunks import LEAST_SECONDS
from topology.cluster import Cluster, IntArray
from topology.errors import ArnoldError, InvalidPlacement

Search = Callable[[RepairProblem, Limits], RepairPlan]  # Finds a repair of a job that names levels of the tree alone


@dataclass(frozen=True, slots=True)
class SecondQuestion:
    """A repair of a job with constraints at second hierarchies."""

    cluster: Cluster
    job: Job
    lost: Sequence[str]
    problem: RepairProblem  # the same without these constraints
    objective_first: bool  # else the fewest moves come first
    search: Search
    limits: Limits  # of all searches on trees together, each of which has a little time in any case

    def answer(self, relaxed: RepairPlan) -> RepairPlan:
        """Return a repair that keeps the hard constraints, with what is proved of it, given one without them.

        What was proved without the constraints holds with them: no fewer moves, and no less than each soft term once.

        :raises InvalidPlacement: neither that repair nor one on a tree keeps them.
        """
        try:
            after = evaluate(self.problem.cluster, self.job, relaxed.nodes)
        except InvalidPlacement as error:
            found = min(self._on_trees(), key=self._rank, default=None)
            if found is None:
                raise InvalidPlacement(
                    f"no repair was found that keeps the constraints beside the tree: {error.message}",
                    where="--lost",
                    fix="place the job anew (`arnold place`), or leave those constraints out of it",
                ) from None
            return self._claimed(found, relaxed)
        stays = self.problem.stays
        if stays.all():
            return replace(relaxed, after=after, objective_bound=after.objective)
        # where the objective comes first, another placement may be as good with soft terms and move less
        fewest = int((~stays).sum()) if self._soft and self.objective_first else relaxed.fewest_moves
        return replace(relaxed, after=after, objective_bound=relaxed.objective_bound + self._soft, fewest_moves=fewest)

    @property
    def _soft(self) -> float:
        """The least of the soft terms that the question without the constraints leaves out."""
        return sum(count.weight for count in self.job.counts if count not in self.problem.job.counts)

    def _on_trees(self) -> Iterator[RepairPlan]:
        """Yield repairs on trees with the hierarchies in them that keep all hard constraints."""
        job, cluster = self.job, self.cluster
        # the levels are the cluster's: a tree with one level more might count spread elsewhere
        job = job.replace(level=cluster.level(job.level).name)
        if job.nodes_of_tp > 1 and job.tp_level is None:
            job = job.replace(tp_level=cluster.levels[-1].name)
        held = {hold.level for hold in job.holds}
        names = [level.name for level in cluster.second_levels if level.name in held]
        trees, end = list(_trees(cluster, names)), perf_counter() + self.limits.seconds
        for number, tree in enumerate(trees):
            if perf_counter() > end:
                return
            seconds = max(LEAST_SECONDS, (end - perf_counter()) / (len(trees) - number))
            known = within_the_tree(tree, job)
            # searches start from the placement before; the nodes that are left need not do on this tree
            if not _holds(tree, known, self.problem.old):
                continue
            with suppress(ArnoldError):
                problem = problem_of(tree, known, self.problem.old, self.lost)
                found = self.search(problem, replace(self.limits, seconds=seconds))
                yield replace(found, after=evaluate(self.problem.cluster, self.job, found.nodes))

    def _rank(self, found: RepairPlan) -> tuple[float, ...]:
        moved, objective = float(self._moved(found)), found.after.objective
        return (objective, moved) if self.objective_first else (moved, objective)

    def _moved(self, found: RepairPlan) -> int:
        return int((found.nodes != self.problem.old).sum())

    def _claimed(self, found: RepairPlan, relaxed: RepairPlan) -> RepairPlan:
        """Return a repair on a tree with the claims of the one without the constraints, as far as they hold for it."""
        bound, fewest = relaxed.objective_bound + self._soft, relaxed.fewest_moves
        if self.objective_first:
            fewest = int((~self.problem.stays).sum())
        elif self._moved(found) > fewest:
            bound = trivial_bound(self.job)
        note = "repairs with constraints beside the tree were searched on trees that their hierarchies are laid into"
        return replace(found, fewest_moves=fewest, objective_bound=bound, notes=(*found.notes, note))


def _holds(tree: Cluster, job: Job, nodes: IntArray) -> bool:
    """Return whether a placement keeps the hard constraints of a job on a tree, which cuts domains of the cluster's."""
    spread = spread_by_level(tree, job.grid, nodes)
    return all(spread[tree.level(hold.level).name][hold.family] == 1 for hold in job.holds_on(tree))


def _trees(cluster: Cluster, names: Sequence[str]) -> Iterator[Cluster]:
    """Yield the cluster with second hierarchies laid into its tree, each after any number of levels."""
    if not names:
        yield cluster
        return
    for depth in range(len(cluster.levels) + 1):
        yield from _trees(laid_into_tree(cluster, names[0], depth), names[1:])
