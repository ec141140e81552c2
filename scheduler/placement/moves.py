"""The fewest moves from one placement to another, in which all cells have nodes again: choices, a model, and bands.

*Choices*: which blocks of cells may change their class of nodes, where there is room for them, what counts.  Classes
are the domains of the closest level that the objective or a hold looks at; a block is what holds tie together there,
one cell without holds.  Where second hierarchies count, a class is what lies in one domain of all of them, and a block
is a cell.

*Model*: the program that decides each cell (:mod:`scheduler.placement.cell_choice`), solved goal after goal.  A block
that stays moves only its lost cells, one that leaves all of them.

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
from math import inf, lcm
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scheduler.job import Count, Family, Hold, Job
from scheduler.objective import TOLERANCE, Evaluation, objective_terms
from scheduler.placement.admission import Blocks, blocks_at, capacity_by_level
from scheduler.placement.cell_choice import CellChoice
from scheduler.placement.cpsat import Answer, Slice, solve, work_of
from scheduler.placement.node_classes import NodeKinds, TouchedDomains
from scheduler.placement.types import Limits
from scheduler.work_clock import clock
from topology.cluster import BoolArray, Cluster, IndexArray, IntArray
from topology.flags import HEALTHY

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
    kinds: NodeKinds  # the classes that nodes are told apart by
    block_of: IntArray  # shape [rows, columns], the block of each cell; each has `size` cells
    size: int
    movers: IntArray  # the blocks that may change their class
    home: IntArray  # shape [blocks], the class of each block before
    lost: IntArray  # shape [blocks], cells of each block that need a new node wherever it goes
    targets: IntArray  # the classes with room for a mover
    room: IntArray  # shape [targets], movers that each can take
    healthy: IntArray  # shape [targets], cells of movers that each can take without a further slow node
    reach: BoolArray | None = None  # shape [movers, targets], where each may go; None = anywhere

    @classmethod
    def anywhere(cls, cluster: Cluster, job: Job, admitted: BoolArray, *others: BoolArray, depth: int) -> MoveChoices:
        """Return the choice of a class for every block, as if all had lost their nodes.

        :param admitted: shape [nodes], those that may be used; they are told apart down to the level of that ``depth``,
            and by ``others``, shape [nodes] each.
        """
        kinds = NodeKinds.of(cluster, job, depth, *others)
        blocks = free_blocks(cluster, job, depth, kinds)
        # whole blocks alone: what is left over of a domain takes none
        room = kinds.count(admitted) if kinds.finer else capacity_by_level(cluster, job, admitted)[depth]
        targets = np.flatnonzero(room >= blocks.size).astype(np.int32)
        count, cells = blocks.rows * blocks.columns, (job.grid.rows, job.grid.columns)
        return cls(
            cluster=cluster,
            job=job,
            old=np.zeros(cells, dtype=np.int32),
            kinds=kinds,
            block_of=blocks.of_cell,
            size=blocks.size,
            movers=np.arange(count, dtype=np.int32),
            home=np.zeros(count, dtype=np.int32),
            lost=np.full(count, blocks.size, dtype=np.int32),
            targets=targets,
            room=(room[targets] // blocks.size).astype(np.int32),
            healthy=kinds.count(admitted & (cluster.slowdown <= HEALTHY))[targets],
        )

    def __len__(self) -> int:
        return len(self.movers) * len(self.targets) if self.reach is None else int(self.reach.sum())

    @property
    def few(self) -> bool:
        """Whether a model of them all is solved while a user waits."""
        return len(self) <= LARGEST

    def class_of_cell(self, target_of_mover: IntArray) -> IntArray:
        """Return the class of each cell, shape [rows, columns], given for each mover an index into ``targets``."""
        class_of_block = self.home.copy()
        class_of_block[self.movers] = self.targets[target_of_mover]
        class_of_cell: IntArray = class_of_block[self.block_of]
        return class_of_cell

    def target_of_mover(self, nodes: IntArray) -> IntArray:
        """Return the index into ``targets`` of the class that each mover is on, shape [movers]; -1 = it has no room.

        :param nodes: shape [rows, columns].
        """
        class_of_block = np.empty_like(self.home)
        class_of_block[self.block_of] = self.kinds.class_of[nodes]
        index = np.full(len(self.kinds), -1, dtype=np.int32)
        index[self.targets] = np.arange(len(self.targets))
        targets: IntArray = index[class_of_block[self.movers]]
        return targets

    def touched(self, term: Hold | Count) -> TouchedDomains:
        """Return the groups of a family, and the domain of each class."""
        domain_of = self.cluster.level(term.level).domain_of[self.kinds.example]
        return TouchedDomains(self.job.grid.groups[term.family], domain_of)

    def tells_apart(self, terms: Sequence[Count]) -> bool:
        """Return whether each class lies in one domain of every level that some terms count at."""
        inside = (self.cluster.level(term.level).domain_of for term in terms)
        return all((domain_of == domain_of[self.kinds.example][self.kinds.class_of]).all() for domain_of in inside)

    def touched_by_fixed(self, term: Count) -> BoolArray:
        """Return which domains each group touches with cells that cannot move, shape [groups, domains of the level]."""
        level, groups = self.cluster.level(term.level), self.job.grid.groups[term.family]
        fixed = groups.of_pairs(~np.isin(self.block_of, self.movers))
        touched = np.zeros((len(groups.sizes), len(level)), dtype=np.bool_)
        touched[groups.group[fixed], groups.of_pairs(level.domain_of[self.old])[fixed]] = True
        return touched


def free_blocks(cluster: Cluster, job: Job, depth: int, kinds: NodeKinds) -> Blocks:
    """Return what moves as one: the blocks of a level, or, where more tells nodes apart, each cell: what holds keep in
    one domain may lie in several classes.
    """
    if kinds.finer:
        return Blocks(np.arange(job.grid.rows, dtype=np.int32), np.arange(job.grid.columns, dtype=np.int32))
    return blocks_at(cluster, job, depth)


def trimmed(choices: MoveChoices) -> MoveChoices:
    """Leave the roomiest targets alone, enough of them for all movers."""
    most = LARGEST // len(choices.movers)
    order = np.argsort(-choices.room, kind="stable")
    enough = int(np.searchsorted(np.cumsum(choices.room[order]), len(choices.movers))) + 1
    kept = np.sort(order[: max(most, enough)])
    return replace(choices, targets=choices.targets[kept], room=choices.room[kept], healthy=choices.healthy[kept])


def integer_weights(terms: Sequence[Count]) -> tuple[list[int], int]:
    """Return the weights times a common scale: exact for plain decimals, within half a billionth elsewhere."""
    scale = lcm(*(Fraction(term.weight).limit_denominator(10**6).denominator for term in terms))
    scale = min(scale, _LARGEST_SCALE)
    return [round(term.weight * scale) for term in terms], scale


def rounding_error(terms: Sequence[Count], domains: int) -> float:
    """Return what rounding the weights can make of a sum of terms, each a spread of so many domains at most."""
    weights, scale = integer_weights(terms)
    error = sum(abs(term.weight - weight / scale) for term, weight in zip(terms, weights, strict=True)) * domains
    return error if error > TOLERANCE / 1000 else 0.0


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
        places = choices.touched(term).domain_of[choices.targets]
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


Goal = str
"""``moves``: moved cells; ``slow``: slow nodes newly taken; ``objective`` (scaled to an integer); ``touches``: domains
that groups newly touch, and among equals blocks that leave their class; ``fit``: domains of the job's level that are
used, and among equals their room; and what :meth:`MoveModel.count` adds."""


@dataclass(frozen=True, slots=True)
class GoalValue:
    """Value of a goal in the answer, and a certified bound: no answer as good in the goals before has a smaller one."""

    value: int
    bound: int
    effort: float = 0.0  # deterministic seconds spent, with those of making the model


class MoveModel:
    """Where movers may go, and what that costs; of the limits, workers and seed count."""

    def __init__(self, choices: MoveChoices, limits: Limits) -> None:
        from scheduler.placement import cp_model

        self._choices, self._limits = choices, limits
        model = self._model = cp_model.CpModel()
        mover_of_block = np.full(len(choices.home), -1, dtype=np.int32)
        mover_of_block[choices.movers] = np.arange(len(choices.movers))
        room = np.zeros(len(choices.kinds), dtype=np.int32)
        room[choices.targets] = choices.room * choices.size
        admits = room > 0
        if choices.reach is not None:
            admits = np.zeros((len(choices.movers), len(room)), dtype=np.bool_)
            admits[:, choices.targets] = choices.reach
        self.cells = CellChoice(
            model, admits, room, mover_of_block[choices.block_of].ravel(), homes=choices.home[choices.block_of].ravel()
        )
        for c, taken in self.cells.takes.items():
            model.add(taken <= int(room[c]))
        for hold in choices.job.holds_on(choices.cluster):
            self.cells.hold(choices.touched(hold))
        self._spreads: dict[tuple[Family, str], cp_model.LinearExprT] = {}
        self._goals: dict[Goal, cp_model.LinearExprT] = {"moves": self._moves(), "slow": self._slow()}
        self.scale_of: dict[Goal, int] = {}
        self.count("objective", objective_terms(choices.cluster, choices.job))
        self.answer: IntArray | None = None  # Shape [movers], the target of each in the best answer so far
        self.impossible = False  # whether there is no answer at all

    def count(self, goal: Goal, terms: Sequence[Count]) -> None:
        """Add a goal: weights times largest spreads, as whole numbers."""
        weights, self.scale_of[goal] = integer_weights(terms)
        counted = [(term, weight) for term, weight in zip(terms, weights, strict=True) if weight]
        self._goals[goal] = _sum(weight * self._spread(term) for term, weight in counted)

    def _spread(self, term: Count) -> cp_model.LinearExprT:
        if (at := (term.family, term.level)) not in self._spreads:
            self._spreads[at] = self.cells.spread(self._choices.touched(term))
        return self._spreads[at]

    @property
    def scale(self) -> int:
        """What the objective is multiplied by."""
        return self.scale_of["objective"]

    def price(self, goal: Goal, costs: IndexArray, admitted: BoolArray) -> None:
        """Add a goal: what the nodes cost that are taken, the cheapest of each class first.

        :param costs: shape [nodes], whole numbers; ``admitted``: shape [nodes], those that may be used.
        """
        prices = []
        for c, taken in self.cells.takes.items():
            rising = np.sort(costs[admitted & (self._choices.kinds.class_of == c)])
            total = np.concatenate([[0], np.cumsum(rising)]).tolist()
            price = self._model.new_int_var(min(total), max(total), "")
            # the sum of the cheapest is convex: it is above each of its pieces
            for count in np.flatnonzero(np.diff(rising, prepend=rising[0] - 1)).tolist():
                self._model.add(price >= total[count] + int(rising[count]) * (taken - count))
            prices.append(price)
        self._goals[goal] = _sum(prices)

    def value_of(self, evaluation: Evaluation, terms: Sequence[Count] | None = None) -> int:
        """Return what some terms come to in a placement, by default the objective, scaled as in the model."""
        cluster, job = self._choices.cluster, self._choices.job
        terms = objective_terms(cluster, job) if terms is None else terms
        spreads = (evaluation.by_level[cluster.level(term.level).name][term.family] for term in terms)
        return sum(weight * spread for weight, spread in zip(integer_weights(terms)[0], spreads, strict=True))

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
        wanted = self._choices.targets[target_of_mover].tolist()
        for mover, goes in self.cells.goes.items():
            for c, here in goes.items():
                self._model.add_hint(here, bool(c == wanted[mover] and target_of_mover[mover] >= 0))

    def minimise(self, goal: Goal, deadline: float, *, effort: float = inf) -> GoalValue | None:
        """Meet a goal as well as time allows, and keep it while later goals are met; ``None`` = no answer in time, or
        none at all.

        :param effort: limit in CP-SAT's deterministic time.
        """
        if goal == "touches":
            # a touch outweighs all blocks that leave their class
            homes = self._choices.home[self._choices.movers].tolist()
            stay = _sum(goes[homes[mover]] for mover, goes in self.cells.goes.items() if homes[mover] in goes)
            self._goals[goal] = (len(homes) + 1) * _sum(self.cells.touches) - stay
        elif goal == "fit":
            self._goals[goal] = self._fit()
        if isinstance(expression := self._goals[goal], int):
            return GoalValue(expression, expression)
        self._model.minimize(expression)
        answer, solver = self._solve(deadline, effort, self._limits.seed)
        if answer == "no":
            # false answers of one search alone have been reported
            self.impossible = self._solve(deadline, effort, self._limits.seed + 1, linearization=2)[0] == "no"
        if answer != "yes":
            return None
        index = {int(c): i for i, c in enumerate(self._choices.targets.tolist())}
        chosen = [next(c for c, on in goes.items() if solver.boolean_value(on)) for goes in self.cells.goes.values()]
        self.answer = np.array([index[c] for c in chosen], dtype=np.int32)
        # the bound is a float just below or above a whole number
        bound = int(np.ceil(solver.best_objective_bound - 1e-6))
        step = GoalValue(round(solver.objective_value), bound, work_of(solver, self._model))
        self.at_most(goal, step.value)
        self.suggest(self.answer)
        return step

    def settle(self, deadline: float, *, effort: float = inf) -> None:
        """Break ties: the smaller spreads where one has no weight, fewest slow nodes, fewest domains, best fit."""
        job, level = self._choices.job, self._choices.cluster.level(self._choices.job.level).name
        goals: list[Goal] = ["slow", "fit"] if job.avoid != "ignore" else ["fit"]
        if job.alpha in (0.0, 1.0):
            self.count("drift", (Count("dp", level, 1.0), Count("pp", level, 1.0)))
            goals.insert(0, "drift")
        for goal in goals:
            if self.minimise(goal, deadline, effort=effort) is None:
                return

    def _solve(
        self, deadline: float, effort: float, seed: int, *, linearization: int = 1
    ) -> tuple[Answer, cp_model.CpSolver]:
        seconds, workers = max(0.01, deadline - clock()), self._limits.workers
        return solve(self._model, Slice(effort, seconds, seed, linearization, symmetry=False, workers=workers))

    def _fit(self) -> cp_model.LinearExprT:
        """Return the domains of the job's level in use; each outweighs the room of all."""
        choices, level = self._choices, self._choices.cluster.level(self._choices.job.level)
        inside = level.domain_of[choices.kinds.example]
        room = np.bincount(inside[choices.targets], weights=choices.room, minlength=len(level)).astype(int).tolist()
        used = {domain: self._model.new_bool_var("") for domain in np.unique(inside[choices.targets]).tolist()}
        for goes in self.cells.goes.values():
            for c, here in goes.items():
                self._model.add_implication(here, used[int(inside[c])])
        return _sum((sum(room) + 1 + room[domain]) * use for domain, use in used.items())

    def _moves(self) -> cp_model.LinearExprT:
        """Return the moved cells: all of movers, but for those on good nodes of movers that stay."""
        choices = self._choices
        homes, lost = choices.home[choices.movers].tolist(), choices.lost[choices.movers].tolist()
        kept = [
            (choices.size - lost[mover]) * goes[homes[mover]]
            for mover, goes in self.cells.goes.items()
            if homes[mover] in goes and lost[mover] < choices.size
        ]
        cells = choices.size * len(choices.movers)
        return cells - _sum(kept) if kept else cells

    def _slow(self) -> cp_model.LinearExprT:
        """Return the slow nodes newly taken: cells of each target beyond its healthy nodes."""
        choices, taken = self._choices, []
        facts = (choices.targets.tolist(), choices.room.tolist(), choices.healthy.tolist())
        for c, room, healthy in zip(*facts, strict=True):
            most = room * choices.size - healthy
            if most > 0 and c in self.cells.takes:
                beyond = self._model.new_int_var(0, most, "")
                self._model.add(beyond >= self.cells.takes[c] - healthy)
                taken.append(beyond)
        return _sum(taken) if taken else 0


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
    answered, solver = solve(model, Slice(inf, limits.seconds, limits.seed, workers=limits.workers))
    if answered != "yes":
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
