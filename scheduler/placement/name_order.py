"""The best placement whose ranks run in the order of the names of its nodes, for launchers that allow no other.

Slurm numbers the nodes of a job by name, and so do indexed Jobs of Kubernetes whose hosts are listed.  Then the nodes
alone are to be chosen.  The admitted nodes stand in a row by name; neighbours in the same domains are a *run*.  Of each
run some ranks in a row lie on it, so where each run begins says it all: one model of CP-SAT over these beginnings gives
the least objective, and proves it.  Names that follow the network make about as many runs as domains; where they do
not, the model may be too large, and the best of a few choices is given without a proof.
"""

from dataclasses import dataclass, replace

import numpy as np

from scheduler.job import Count, Job
from scheduler.objective import TOLERANCE, Evaluation, objective_terms, worth_of
from scheduler.placement.admission import admissible, prices_slow_nodes
from scheduler.placement.moves import integer_weights, rounding_error
from scheduler.placement.node_order import by_natural_name
from scheduler.placement.types import Limits, PlacementAlgorithm, Proposal
from scheduler.work_clock import clock, stopwatch
from topology.cluster import Cluster, IntArray
from topology.flags import HEALTHY

MOST_PLACES = 60_000  # ranks times runs of a model that is made, which is searched for some seconds
MOST_CHOICES = 64  # of nodes next to each other by name that are weighed before the model is made


@dataclass(frozen=True)
class InNameOrder:
    """A placement algorithm whose ranks are in the order of names, beside one that is free to number them."""

    free: PlacementAlgorithm  # The other; what it finds says what an order of its own would add

    @property
    def name(self) -> str:
        """The name of the free one."""
        return self.free.name

    @property
    def summary(self) -> str:
        """What it does."""
        return f"{self.free.summary}; ranks in the order of names"

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Propose nodes; see :class:`scheduler.placement.types.PlacementAlgorithm`."""
        started, end = stopwatch(), clock() + limits.seconds
        # where its nodes lie at closer levels is lost with its order
        anyhow = self.free.place(cluster, job, replace(limits, seconds=limits.seconds / 2, told="placement"))
        if anyhow.nodes is None or (freely := worth_of(cluster, job, anyhow.nodes)) is None:
            return anyhow
        admitted = admissible(cluster, job)
        slow = prices_slow_nodes(cluster, job)
        healthy = admissible(cluster, job, slowest=HEALTHY) if slow else admitted
        bound, best, proved = anyhow.lower_bound, None, False
        # slow nodes where the others alone keep no constraints
        for usable in (healthy, admitted) if slow and healthy.sum() >= job.grid.cells else (admitted,):
            row = NodeRow(cluster, job, by_natural_name(cluster, np.flatnonzero(usable).astype(np.int32)))
            best = row.first_choice(anyhow.nodes)
            if best is not None and bound is not None and best.worth.objective <= bound + TOLERANCE:
                proved = True
            elif row.places <= MOST_PLACES:
                limits.say("ranks in the order of names")
                found = row.search(end - clock(), limits.seed, best)
                best = found.best
                # the slow nodes that were left out might do better
                proved = found.proved and (not slow or (best is None and usable is admitted))
                bound = bound if slow or found.bound is None else max(found.bound, bound or 0.0)
            if best is not None:
                break
        seconds = stopwatch() - started
        if best is None:
            reason = "no choice of nodes keeps its constraints with ranks in the order of names" if proved else ""
            return Proposal(None, complete=proved, infeasible=reason, in_order=True, solve_seconds=seconds)
        gain = best.worth.objective - freely.objective
        what = "no less" if gain <= TOLERANCE else f"{freely.objective:g} in place of {best.worth.objective:g}"
        note = f"Ranks are in the order of names; any order would have an objective of {what}."
        return Proposal(
            best.nodes, bound, in_order=True, complete=proved, solve_seconds=seconds, notes=(*anyhow.notes, note)
        )


@dataclass(frozen=True)
class Choice:
    """Nodes in the order of names, and their worth."""

    nodes: IntArray  # shape [rows, columns]
    worth: Evaluation


@dataclass(frozen=True)
class FoundChoice:
    """What a search of a row came to."""

    best: Choice | None
    proved: bool  # that it is the best, or that there is none
    bound: float | None  # no choice has a smaller objective


class NodeRow:
    """The nodes that a job may have, their indices in order of names, shape [nodes of the row]."""

    def __init__(self, cluster: Cluster, job: Job, nodes: IntArray) -> None:
        self.cluster, self.job, self.nodes = cluster, job, nodes
        self.terms = objective_terms(cluster, job)
        self.holds = tuple(Count(hold.family, hold.level, 0.0) for hold in job.holds_on(cluster))
        self.levels = tuple(dict.fromkeys(term.level for term in (*self.terms, *self.holds)))
        domains = np.array([cluster.level(level).domain_of[nodes] for level in self.levels])
        begins = np.flatnonzero(np.append(True, (domains[:, 1:] != domains[:, :-1]).any(axis=0)))
        self.begins, self.lengths = begins, np.diff(np.append(begins, len(nodes)))
        self.domains = dict(zip(self.levels, domains[:, begins], strict=True))  # level -> domain of each run

    @property
    def places(self) -> int:
        """Ranks times runs."""
        return self.job.grid.cells * len(self.begins)

    def choice(self, positions: IntArray) -> Choice | None:
        """Return the choice of some positions of the row, in order; ``None`` = it breaks a constraint."""
        nodes = self.nodes[positions][self.job.grid.node_rank]
        worth = worth_of(self.cluster, self.job, nodes)
        return None if worth is None else Choice(nodes, worth)

    def first_choice(self, free: IntArray) -> Choice | None:
        """Return the best of a few: the nodes of a free order, and neighbours by name from some on."""
        cells = self.job.grid.cells
        starts = np.unique(np.append(self.begins, len(self.nodes) - cells))
        starts = starts[starts + cells <= len(self.nodes)]
        starts = starts[:: -(-len(starts) // MOST_CHOICES)] if len(starts) else starts
        positions = [np.flatnonzero(np.isin(self.nodes, free)), *(np.arange(start, start + cells) for start in starts)]
        choices = [self.choice(of_one) for of_one in positions if len(of_one) == cells]
        return min((choice for choice in choices if choice), key=lambda choice: choice.worth.goals, default=None)

    def search(self, seconds: float, seed: int, known: Choice | None) -> FoundChoice:
        """Look for the choice with the least objective."""
        from scheduler.placement import cp_model
        from scheduler.placement.cpsat import Slice, solve

        cells, runs, model = self.job.grid.cells, len(self.begins), cp_model.CpModel()
        # begun[j][r]: run j begins at rank r or before; so rank r lies on the last run that has begun
        begun = [[model.new_bool_var(f"b{j}_{r}") for r in range(cells)] for j in range(runs)]
        begun = [[model.new_constant(1)] * cells, *begun[1:], [model.new_constant(0)] * cells]
        for j in range(runs):
            model.add(sum(begun[j]) - sum(begun[j + 1]) <= int(self.lengths[j]))
            for r in range(cells):
                model.add_implication(begun[j + 1][r], begun[j][r])
                if r:
                    model.add_implication(begun[j][r - 1], begun[j][r])
        objective, rank_of = [], self.job.grid.node_rank.ravel()
        weights, whole = integer_weights(self.terms)
        error = rounding_error(self.terms, runs)
        for term, weight in zip((*self.terms, *self.holds), (*weights, *(0 for _ in self.holds)), strict=True):
            spread = model.new_int_var(1, len(set(self.domains[term.level].tolist())), f"{term.family} {term.level}")
            objective.append(weight * spread)
            if term in self.holds:
                model.add(spread == 1)
            for members in self.job.grid.groups[term.family].members:
                ranks = sorted(rank_of[[*members]].tolist())
                touched = {domain: model.new_bool_var(f"d{domain}") for domain in {*self.domains[term.level].tolist()}}
                for j, domain in enumerate(self.domains[term.level].tolist()):
                    for r in ranks:
                        model.add(touched[domain] >= begun[j][r] - begun[j + 1][r])
                model.add(sum(touched.values()) <= spread)
        model.minimize(sum(objective))
        if known is not None:
            model.add(sum(objective) <= round(whole * (known.worth.objective + error)))
        answer, solver = solve(model, Slice(seconds, seconds, seed))
        if answer == "no":
            return FoundChoice(known, True, None if known is None else known.worth.objective)
        bound = solver.best_objective_bound / whole - error - TOLERANCE
        if answer == "unknown":
            return FoundChoice(known, False, bound)
        run_of = np.array([[solver.value(literal) for literal in of_run] for of_run in begun[:-1]]).sum(axis=0) - 1
        first = np.searchsorted(run_of, np.arange(runs))
        best = self.choice(self.begins[run_of] + np.arange(cells) - first[run_of])
        if best is None or (known is not None and known.worth.goals <= best.worth.goals):
            best = known
        proved = best is not None and best.worth.objective <= bound + 2 * TOLERANCE
        return FoundChoice(best, proved, best.worth.objective if proved and best is not None else bound)
