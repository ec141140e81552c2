"""The integer model of a repair, solved goal after goal.

``x[mover, target]`` says where each mover goes.  A block that stays moves only its lost cells, one that leaves all of
them.  Spread is the number of domains touched, as in the evaluator, with what cannot move counted in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from scheduler.objective import Evaluation
from scheduler.placement.admission import blocks_at
from scheduler.placement.moves.move_choices import MoveChoices, ObjectiveTerm, ancestors, integer_weights, terms_of
from scheduler.placement.solver_clock import limit_time, work_of
from scheduler.placement.types import Limits
from scheduler.work_clock import clock, spend
from topology.cluster import IntArray

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

Goal = Literal["moves", "slow", "objective", "touches"]
"""Moved cells; slow nodes newly taken; the objective (scaled to an integer); domains that groups newly touch, and among
equals blocks that leave their domain."""


@dataclass(frozen=True, slots=True)
class GoalValue:
    """Value of a goal in the answer, and a certified bound: no answer as good in the goals before has a smaller one."""

    value: int
    bound: int


class MoveModel:
    """Where movers may go, and what that costs; of the limits, workers and seed count."""

    def __init__(self, choices: MoveChoices, limits: Limits) -> None:
        from ortools.sat.python import cp_model

        self._choices = choices
        self._limits = limits
        self._model = cp_model.CpModel()
        self._x = self._assignment()
        self.terms = terms_of(choices.cluster, choices.job)
        self.weights, self.scale = integer_weights(self.terms)
        self._keep_holds()
        self._goals: dict[Goal, cp_model.LinearExpr | int] = {"moves": self._moves(), "slow": self._slow()}
        self._goals["objective"], self._goals["touches"] = self._spreads()
        self.answer: IntArray | None = None  # Shape [movers], the target of each in the best answer so far

    def value_of(self, evaluation: Evaluation) -> int:
        """Return the objective of a placement, scaled as in the model."""
        levels = self._choices.cluster.levels
        spreads = (evaluation.by_level[levels[term.depth].name][term.family] for term in self.terms)
        return sum(weight * spread for weight, spread in zip(self.weights, spreads, strict=True))

    def at_most(self, goal: Goal, value: int) -> None:
        """Bound a goal from above."""
        self._model.add(self._goals[goal] <= value)

    def at_least(self, goal: Goal, value: int) -> None:
        """Say what is known: no answer has less of a goal."""
        self._model.add(self._goals[goal] >= value)

    def suggest(self, target_of_mover: IntArray) -> None:
        """Start the search near an assignment, shape [movers]; it need not keep to the constraints.

        The solver's ``repair_hint`` would suit, but aborts the process in OR-Tools 9.15 (google/or-tools issue 5025).
        """
        self._model.clear_hints()  # type: ignore[no-untyped-call]
        for row, target in zip(self._x, target_of_mover, strict=True):
            for j, choice in enumerate(row):
                self._model.add_hint(choice, j == target)

    def minimise(self, goal: Goal, deadline: float) -> GoalValue | None:
        """Meet a goal as well as time allows, and keep it while later goals are met; ``None`` = no answer in time."""
        from ortools.sat.python import cp_model

        expression = self._goals[goal]
        if isinstance(expression, int):
            return GoalValue(expression, expression)
        solver = cp_model.CpSolver()
        limit_time(solver, max(0.01, deadline - clock()))
        # threads that take turns: the answer is the same with any number of them
        solver.parameters.interleave_search = True
        solver.parameters.num_workers = self._limits.workers
        solver.parameters.random_seed = self._limits.seed
        solver.parameters.symmetry_level = 0
        self._model.minimize(expression)
        status = solver.solve(self._model)
        spend(work_of(solver, self._model))
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        chosen = [[solver.boolean_value(choice) for choice in row] for row in self._x]
        self.answer = np.array(chosen).argmax(axis=1).astype(np.int32)
        # the bound is a float just below or above a whole number
        step = GoalValue(round(solver.objective_value), int(np.ceil(solver.best_objective_bound - 1e-6)))
        self.at_most(goal, step.value)
        self.suggest(self.answer)
        return step

    def _assignment(self) -> list[list[cp_model.IntVar]]:
        model, choices = self._model, self._choices
        x = [[model.new_bool_var("") for _ in choices.targets] for _ in choices.movers]
        for row in x:
            # every mover goes somewhere, and no target takes more than it has room for
            model.add_exactly_one(row)
        for column, room in zip(zip(*x, strict=True), choices.room, strict=True):
            model.add(sum(column) <= int(room))
        return x

    def _moves(self) -> cp_model.LinearExpr | int:
        """Return the moved cells: all of movers, but for those on good nodes of movers that stay."""
        choices = self._choices
        cells = choices.size * len(choices.movers)
        if int(choices.lost[choices.movers].sum()) == cells:
            return cells
        kept = [
            (choices.size - int(choices.lost[mover])) * row[home]
            for mover, home, row in zip(choices.movers, choices.target_at_home, self._x, strict=True)
            if home >= 0
        ]
        return cells - _sum(kept)

    def _slow(self) -> cp_model.LinearExpr | int:
        """Return the slow nodes newly taken: cells of each target beyond its healthy nodes."""
        choices, taken = self._choices, []
        for column, room, healthy in zip(zip(*self._x, strict=True), choices.room, choices.healthy, strict=True):
            most = int(room) * choices.size - int(healthy)
            if most > 0:
                beyond = self._model.new_int_var(0, most, "")
                self._model.add(beyond >= choices.size * sum(column) - int(healthy))
                taken.append(beyond)
        return _sum(taken) if taken else 0

    def _keep_holds(self) -> None:
        """Keep the blocks of a broader hold in one domain of its level; the closest blocks are one choice anyway."""
        cluster, job = self._choices.cluster, self._choices.job
        for hold in job.holds_on(cluster):
            above = cluster.level_index(hold.level)
            if above == self._choices.depth:
                continue
            block_of = blocks_at(cluster, job, above).of_cell
            places = self._choices_by_domain(above)
            for members in self._movers_by(block_of.ravel(), self._choices.block_of.ravel()).values():
                for domain in places[members[0]]:
                    first = _sum(places[members[0]][domain])
                    # all movers of the block are in the domain, or none
                    for other in members[1:]:
                        self._model.add(_sum(places[other][domain]) == first)

    def _spreads(self) -> tuple[cp_model.LinearExpr, cp_model.LinearExpr]:
        """Return the objective, and all touches."""
        spreads, added = zip(*map(self._spread, self.terms), strict=True)
        touches = [touch for of_term in added for touch in of_term]
        weighted = (weight * spread for weight, spread in zip(self.weights, spreads, strict=True))
        homes = zip(self._x, self._choices.target_at_home, strict=True)
        stay = _sum(row[home] for row, home in homes if home >= 0)
        return _sum(weighted), (len(self._x) + 1) * _sum(touches) - stay

    def _spread(self, term: ObjectiveTerm) -> tuple[cp_model.IntVar, list[cp_model.IntVar]]:
        """Return the largest number of domains a group of the family touches, and the touches that movers may add."""
        choices, model = self._choices, self._model
        level = choices.cluster.levels[term.depth]
        touched, groups = choices.touched_by_fixed(term), choices.job.grid.groups[term.family]
        least = touched.sum(axis=1)
        places = self._choices_by_domain(term.depth)
        spread = model.new_int_var(max(1, int(least.max())), len(level), "")
        added: list[cp_model.IntVar] = []
        for group, members in self._movers_by(*groups.paired(choices.block_of)).items():
            news: dict[int, cp_model.IntVar] = {}
            for domain in places[members[0]]:
                if not touched[group, domain]:
                    news[domain] = model.new_bool_var("")
                    for mover in members:
                        # a mover in the domain makes the group touch it
                        model.add(_sum(places[mover][domain]) <= news[domain])
            model.add(spread >= int(least[group]) + _sum(news.values()))
            added += news.values()
        return spread, added

    def _choices_by_domain(self, above: int) -> list[dict[int, list[cp_model.IntVar]]]:
        """Return for each mover the choices that put it into each domain of a broader level (or the same)."""
        choices = self._choices
        domains = ancestors(choices.cluster, choices.depth, above)[choices.targets].tolist()
        places: list[dict[int, list[cp_model.IntVar]]] = []
        for row in self._x:
            by_domain: dict[int, list[cp_model.IntVar]] = {domain: [] for domain in domains}
            for domain, choice in zip(domains, row, strict=True):
                by_domain[domain].append(choice)
            places.append(by_domain)
        return places

    def _movers_by(self, group_of: IntArray, block_of: IntArray) -> dict[int, list[int]]:
        """Return for each group the indices of the movers that have cells in it, given pairs of a group and a block."""
        choices = self._choices
        index = np.full(len(choices.home), -1, dtype=np.int32)
        index[choices.movers] = np.arange(len(choices.movers))
        mover_of = index[block_of]
        moving = mover_of >= 0
        groups: dict[int, list[int]] = {}
        for group, mover in np.unique([group_of[moving], mover_of[moving]], axis=1).T.tolist():
            groups.setdefault(group, []).append(mover)
        return groups


def _sum(expressions: Iterable[cp_model.LinearExprT]) -> cp_model.LinearExpr:
    from ortools.sat.python import cp_model

    return cp_model.LinearExpr.sum(list(expressions))
