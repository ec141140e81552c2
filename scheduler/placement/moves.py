"""The fewest moves from one placement to another, in which all cells have nodes again: choices, a model, and bands.

*Choices*: which blocks of cells may change their domain, where there is room for them, what counts.  Domains are those
of the closest level that the objective or a hold looks at; a block is what holds tie together there, one cell without
holds.

*Model*: an integer program, solved goal after goal.  ``x[mover, target]`` says where each mover goes.  A block that
stays moves only its lost cells, one that leaves all of them.  Spread is the number of domains touched, as in the
evaluator, with what cannot move counted in.

*Bands*, by domains alone: spread does not change when rows change places, or columns, or domains that can take each
other's cells (:func:`relabel`).  And most good placements have bands, columns that lie in the same domain as each other
in nearly every row: with b bands a row touches b domains at most, and a column those that its band uses.  To keep the
bands and move whole *segments* (the cells of one row in one band) between domains (:func:`move_segments`) is a problem
of counts, small whatever the number of nodes:

    h[j, k] = kept[j, k] + new[j, k]         segments of band j in domain k: some have cells there that stay, some not
    sum_k h[j, k] = rows,  sum_j width_j * h[j, k] <= room_k,  h[j, k] > 0 for at most S domains of each band
    max  cells that stay
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from scheduler.job import Count, Job
from scheduler.objective import Evaluation, objective_terms
from scheduler.placement.admission import blocks_at
from scheduler.placement.cpsat import limit_time, work_of
from scheduler.placement.types import Limits
from scheduler.work_clock import clock, spend
from topology.cluster import BoolArray, Cluster, IntArray

if TYPE_CHECKING:
    from scheduler.placement import cp_model

LARGEST = 60_000  # Choices (mover x target) of the largest model: as many are solved in seconds
_LARGEST_SCALE = 10**9  # Largest common denominator of the weights: the sums of a model stay far within 64 bits


@dataclass(frozen=True)
class MoveChoices:
    """Blocks on one side, domains on the other."""

    cluster: Cluster  # the job's own nodes are idle in it, lost ones are not
    job: Job
    old: IntArray  # shape [rows, columns], the node of each cell before
    depth: int  # of the level that the domains belong to
    block_of: IntArray  # shape [rows, columns], the block of each cell; each has `size` cells
    size: int
    movers: IntArray  # the blocks that may change their domain
    home: IntArray  # shape [blocks], the domain of each block before
    lost: IntArray  # shape [blocks], cells of each block that need a new node wherever it goes
    targets: IntArray  # the domains with room for a mover
    room: IntArray  # shape [targets], movers that each can take
    healthy: IntArray  # shape [targets], cells of movers that each can take without a further slow node

    def __len__(self) -> int:
        return len(self.movers) * len(self.targets)

    @property
    def few(self) -> bool:
        """Whether a model of them all is solved while a user waits."""
        return len(self) <= LARGEST

    def domain_of_cell(self, target_of_mover: IntArray) -> IntArray:
        """Return the domain of each cell, shape [rows, columns], given for each mover an index into ``targets``."""
        domain_of_block = self.home.copy()
        domain_of_block[self.movers] = self.targets[target_of_mover]
        domain_of_cell: IntArray = domain_of_block[self.block_of]
        return domain_of_cell

    def target_of_mover(self, domain_of_cell: IntArray) -> IntArray:
        """Return the index into ``targets`` of the domain each mover is given, shape [movers]; -1 = it has no room."""
        domain_of_block = np.empty_like(self.home)
        domain_of_block[self.block_of] = domain_of_cell
        return self._index(domain_of_block[self.movers])

    @property
    def target_at_home(self) -> IntArray:
        """Shape [movers], the index into ``targets`` of the domain each mover comes from; -1 where it has no room."""
        return self._index(self.home[self.movers])

    def touched_by_fixed(self, term: Count) -> BoolArray:
        """Return which domains each group touches with cells that cannot move, shape [groups, domains of the level]."""
        level, groups = self.cluster.level(term.level), self.job.grid.groups[term.family]
        fixed = groups.of_pairs(~np.isin(self.block_of, self.movers))
        touched = np.zeros((len(groups.sizes), len(level)), dtype=np.bool_)
        touched[groups.group[fixed], groups.of_pairs(level.domain_of[self.old])[fixed]] = True
        return touched

    def _index(self, domains: IntArray) -> IntArray:
        index = np.full(int(max(domains.max(), self.targets.max())) + 1, -1, dtype=np.int32)
        index[self.targets] = np.arange(len(self.targets))
        targets: IntArray = index[domains]
        return targets


def trimmed(choices: MoveChoices) -> MoveChoices:
    """Leave the roomiest targets alone, enough of them for all movers."""
    most = LARGEST // len(choices.movers)
    order = np.argsort(-choices.room, kind="stable")
    enough = int(np.searchsorted(np.cumsum(choices.room[order]), len(choices.movers))) + 1
    kept = np.sort(order[: max(most, enough)])
    return replace(choices, targets=choices.targets[kept], room=choices.room[kept], healthy=choices.healthy[kept])


def closest_depth(cluster: Cluster, job: Job) -> int:
    """Return the depth of the closest level that the objective or a hold looks at."""
    held = (cluster.level_index(hold.level) for hold in job.holds_on(cluster))
    return max(*(cluster.level_index(term.level) for term in objective_terms(cluster, job)), *held)


def ancestors(cluster: Cluster, depth: int, above: int) -> IntArray:
    """Return for each domain of one level its domain at a broader one (or itself), shape [domains]."""
    domain_above = np.arange(len(cluster.levels[depth]), dtype=np.int32)
    for closer in range(depth, above, -1):
        domain_above = cluster.levels[closer].parent_of[domain_above]
    return domain_above


def integer_weights(terms: Sequence[Count]) -> tuple[list[int], int]:
    """Return the weights times a common scale: exact for plain decimals, within half a billionth elsewhere."""
    scale = lcm(*(Fraction(term.weight).limit_denominator(10**6).denominator for term in terms))
    scale = min(scale, _LARGEST_SCALE)
    return [round(term.weight * scale) for term in terms], scale


def greedy_targets(choices: MoveChoices) -> IntArray:
    """Give each mover the target that raises the objective least, then adds fewest domains, then is roomiest.

    The answer is a start for the search, no more: holds at broader levels are not looked at.

    :returns: shape [movers], index into the targets; no target is given more movers than it has room for.
    """
    cluster, job = choices.cluster, choices.job
    room = choices.room.copy()
    answer = np.empty(len(choices.movers), dtype=np.int32)
    tables = []
    for term in objective_terms(cluster, job):
        touched = choices.touched_by_fixed(term)
        places = ancestors(cluster, choices.depth, cluster.level_index(term.level))[choices.targets]
        tables.append((term.weight, job.grid.groups[term.family], touched, places, touched.sum(axis=1)))
    for i, mover in enumerate(choices.movers):
        members = choices.block_of == mover
        raised = np.zeros(len(room))
        new = np.zeros(len(room))
        for weight, of_family, touched, places, spread in tables:
            groups = np.unique(of_family.group[of_family.of_pairs(members)])
            added = ~touched[np.ix_(groups, places)]
            # what the largest spread grows by, if it grows at all
            raised += weight * np.maximum((spread[groups, None] + added).max(axis=0) - spread.max(), 0)
            new += added.sum(axis=0)
        answer[i] = np.lexsort((-room, new, raised, room <= 0))[0]
        room[answer[i]] -= 1
        for _, of_family, touched, places, spread in tables:
            groups = np.unique(of_family.group[of_family.of_pairs(members)])
            spread[groups] += ~touched[groups, places[answer[i]]]
            touched[groups, places[answer[i]]] = True
    return answer


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
        from scheduler.placement import cp_model

        self._choices, self._limits = choices, limits
        model = self._model = cp_model.CpModel()
        self._x = [[model.new_bool_var("") for _ in choices.targets] for _ in choices.movers]
        for row in self._x:
            # every mover goes somewhere, and no target takes more than it has room for
            model.add_exactly_one(row)
        for column, room in zip(zip(*self._x, strict=True), choices.room, strict=True):
            model.add(sum(column) <= int(room))
        self.terms = objective_terms(choices.cluster, choices.job)
        self.weights, self.scale = integer_weights(self.terms)
        self._keep_holds()
        self._goals: dict[Goal, cp_model.LinearExpr | int] = {"moves": self._moves(), "slow": self._slow()}
        spreads, added = zip(*map(self._spread, self.terms), strict=True)
        self._goals["objective"] = _sum(weight * spread for weight, spread in zip(self.weights, spreads, strict=True))
        # a touch outweighs all blocks that leave their domain
        homes = zip(self._x, choices.target_at_home, strict=True)
        stay = _sum(row[home] for row, home in homes if home >= 0)
        touches = _sum(touch for of_term in added for touch in of_term)
        self._goals["touches"] = (len(self._x) + 1) * touches - stay
        self.answer: IntArray | None = None  # Shape [movers], the target of each in the best answer so far

    def value_of(self, evaluation: Evaluation) -> int:
        """Return the objective of a placement, scaled as in the model."""
        cluster = self._choices.cluster
        spreads = (evaluation.by_level[cluster.level(term.level).name][term.family] for term in self.terms)
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
        self._model.clear_hints()
        for row, target in zip(self._x, target_of_mover, strict=True):
            for j, choice in enumerate(row):
                self._model.add_hint(choice, j == target)

    def minimise(self, goal: Goal, deadline: float) -> GoalValue | None:
        """Meet a goal as well as time allows, and keep it while later goals are met; ``None`` = no answer in time."""
        from scheduler.placement import cp_model

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

    def _spread(self, term: Count) -> tuple[cp_model.IntVar, list[cp_model.IntVar]]:
        """Return the largest number of domains a group of the family touches, and the touches that movers may add."""
        choices, model = self._choices, self._model
        level = choices.cluster.level(term.level)
        touched, groups = choices.touched_by_fixed(term), choices.job.grid.groups[term.family]
        least = touched.sum(axis=1)
        places = self._choices_by_domain(choices.cluster.level_index(term.level))
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
    from scheduler.placement import cp_model

    return cp_model.LinearExpr.sum(list(expressions))


_MOST_LINES = 2_000  # More rows than this are matched as they come: the assignment has rows squared arcs
_NEARLY = 0.5
"""Columns are of one band when they agree in more than this part of the rows; losses and repairs blur the bands."""


def relabel(new: IntArray, old: IntArray, *, room: IntArray) -> IntArray:
    """Rename the rows, columns and domains of the new placement so that it agrees with the old one.

    Each renaming that keeps most cells where they are is a linear assignment; the three take turns until nothing
    improves.

    :param new: shape [rows, columns], the domain of each cell.
    :param old: same shape, the domain of each cell before; -1 where the cell must move anyway.
    :param room: shape [domains], cells each domain can take.
    :returns: same shape: as good in spread as ``new``, and with at least as many cells as before.
    """
    best, kept = new, _kept(new, old)
    while True:
        # domain k of the new placement becomes the one that keeps most of its cells and can take them all
        used = np.bincount(best.ravel(), minlength=len(room))
        stays = old >= 0
        agreement = np.zeros((len(room), len(room)), dtype=np.int64)
        np.add.at(agreement, (best[stays], old[stays]), 1)
        renamed: IntArray = _assign(agreement, used[:, None] <= room[None, :]).astype(np.int32)[best]
        renamed = _rename_rows(renamed.T, old.T).T
        renamed = _rename_rows(renamed, old)
        if _kept(renamed, old) <= kept:
            return best
        best, kept = renamed, _kept(renamed, old)


def _kept(new: IntArray, old: IntArray) -> int:
    return int((new == old).sum())


def _rename_rows(new: IntArray, old: IntArray) -> IntArray:
    rows = len(new)
    if rows > _MOST_LINES:
        return new
    agreement = np.zeros((rows, rows), dtype=np.int64)
    for column in range(new.shape[1]):
        agreement += old[:, column, None] == new[None, :, column]
    return new[_assign(agreement, np.ones_like(agreement, dtype=np.bool_))]


def _assign(gain: npt.NDArray[np.int64], allowed: BoolArray) -> npt.NDArray[np.int64]:
    """Return the column of each row in a matching of greatest gain; each row may keep its own number."""
    from ortools.graph.python import linear_sum_assignment

    left, right = np.nonzero(allowed)
    assignment = linear_sum_assignment.SimpleLinearSumAssignment()
    assignment.add_arcs_with_cost(left, right, -gain[left, right])
    assignment.solve()
    return np.array([assignment.right_mate(i) for i in range(len(gain))], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _Segments:
    """Rows of one band with like segments; domain -> cells of each that stay when the segment goes, or is, there."""

    band: int
    rows: IntArray
    staying: Mapping[int, int]


def bands_of(old: IntArray) -> IntArray:
    """Return the band of each column, shape [columns], from the domain of each cell, shape [rows, columns]."""
    band_of: list[int] = []
    firsts: list[int] = []
    for column in range(old.shape[1]):
        agree = (float((old[:, column] == old[:, first]).mean()) for first in firsts)
        band = next((band for band, share in enumerate(agree) if share > _NEARLY), len(firsts))
        if band == len(firsts):
            firsts.append(column)
        band_of.append(band)
    return np.array(band_of, dtype=np.int32)


def move_segments(
    old: IntArray, stays: BoolArray, *, band_of: IntArray, room: IntArray, most: int, limits: Limits
) -> IntArray | None:
    """Find the fewest moves that keep the bands, each in at most so many domains.

    :param old: shape [rows, columns], the domain of each cell before.
    :param most: S, domains that a band may use.
    :returns: shape [rows, columns], the domain of each cell; ``None`` when the bands cannot be kept, or time runs out.
    """
    from scheduler.placement import cp_model

    rows, domains = len(old), range(len(room))
    widths = np.bincount(band_of).tolist()
    segments = list(_segments(old, stays, band_of))
    model = cp_model.CpModel()
    new = [[model.new_int_var(0, rows, "") for _ in domains] for _ in widths]
    kept = [{k: model.new_int_var(0, len(segment.rows), "") for k in segment.staying} for segment in segments]
    held = [[cp_model.LinearExpr.sum([count]) for count in counts] for counts in new]
    for segment, at in zip(segments, kept, strict=True):
        # those of a kind that go nowhere they have cells are among the new ones
        model.add(sum(at.values()) <= len(segment.rows))
        for k, count in at.items():
            held[segment.band][k] += count
    for counts in held:
        used = [model.new_bool_var("") for _ in domains]
        for segments_here, use in zip(counts, used, strict=True):
            model.add(segments_here <= rows * use)
        model.add(sum(used) <= most)  # a column touches the domains of its band
        model.add(sum(counts) == rows)  # every row of the band lies in one domain
    for k in domains:
        # segments of all bands within what the domain can take
        model.add(sum(width * counts[k] for width, counts in zip(widths, held, strict=True)) <= int(room[k]))
    pairs = list(zip(segments, kept, strict=True))
    model.maximize(sum(kind.staying[k] * count for kind, at in pairs for k, count in at.items()))
    solver = cp_model.CpSolver()
    limit_time(solver, limits.seconds)
    # threads that take turns: the answer is the same with any number of them
    solver.parameters.interleave_search = True
    solver.parameters.num_workers = limits.workers
    solver.parameters.random_seed = limits.seed
    status = solver.solve(model)
    spend(work_of(solver, model))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    stay = [{k: solver.value(count) for k, count in at.items()} for at in kept]
    come = [[solver.value(count) for count in counts] for counts in new]
    # the domain of each cell: of each kind of segments so many stay where they have cells, and the others go elsewhere
    answer = np.empty((rows, len(band_of)), dtype=np.int32)
    for band, coming in enumerate(come):
        domain = np.empty(rows, dtype=np.int32)
        leaving = []
        for segment, staying in zip(segments, stay, strict=True):
            if segment.band == band:
                places = np.repeat(list(staying), list(staying.values()))
                domain[segment.rows[: len(places)]] = places
                leaving += segment.rows[len(places) :].tolist()
        domain[sorted(leaving)] = np.repeat(np.arange(len(coming)), coming)
        answer[:, band_of == band] = domain[:, None]
    return answer


def _segments(old: IntArray, stays: BoolArray, band_of: IntArray) -> Iterator[_Segments]:
    """Yield the segments of all bands, band by band."""
    for band in range(int(band_of.max()) + 1):
        inside = np.where(stays, old, -1)[:, band_of == band]
        rows_of: dict[tuple[int, ...], list[int]] = {}
        for row, cells in enumerate(np.sort(inside, axis=1).tolist()):
            rows_of.setdefault(tuple(cells), []).append(row)
        for cells, rows in rows_of.items():
            staying = Counter(cell for cell in cells if cell >= 0)
            yield _Segments(band, np.array(rows, dtype=np.int32), staying)
