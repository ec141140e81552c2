"""Placements to begin with: what quick rules propose, fills that need no search, and the pairs of jobs like it.

Where the objective has terms that the pairs (S, R) do not see, the best pair need not lead to the best placement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice, pairwise, product
from math import inf

import numpy as np

from ground.errors import InvalidJob
from scheduler.job import FAMILIES, Count, Hold, Job
from scheduler.objective import TOLERANCE, objective_terms
from scheduler.placement.admission import admissible
from scheduler.placement.cpsat import Slice, solve
from scheduler.placement.exact.goals import GoalSearch, weighed
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.level_bounds import LINES, LevelBounds
from scheduler.placement.exact.params import ExactParams
from scheduler.placement.exact.problem import GridReduction, counted_where_held
from scheduler.placement.exact.schedule import fill_front
from scheduler.placement.exact.solve import search_reduction, seat_cells, seat_pair, seating_seconds, solve_grid
from scheduler.placement.heuristic import Heuristic
from scheduler.placement.seating import seat
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.work_clock import LEAST_SECONDS, clock
from topology.cluster import BoolArray, Cluster, IndexArray, IntArray, Level

# What the quick rules of the house propose, as placements to begin with: none that was asked is better in the end.
#
# A quick rule is any algorithm of this package that is a :class:`scheduler.placement.heuristic.Heuristic`: it asks no
# solver.  Those of other packages are asked by name alone: one that cannot be imported must not stop the others.  Rules
# know nothing of holds; the evaluator puts aside what breaks one.


def quick_rules(names: Collection[str] = ()) -> list[Heuristic]:
    """Return rules of these names, none = all, those that go pod by pod last."""
    own = [ALGORITHMS.load(name) for name in names or ALGORITHMS.names(inside="scheduler")]
    return sorted((rule for rule in own if isinstance(rule, Heuristic)), key=lambda rule: rule.pod_by_pod)


def quick_starts(
    reduction: GridReduction, limits: Limits, params: ExactParams, *, names: Collection[str] = (), end: float = inf
) -> Iterator[IntArray]:
    """Yield nodes, shape [rows, columns] each, from one rule after another until their share of the time is used up.

    Those that go pod by pod come last, and have a smaller share: on hundreds of cells each takes as long as all others.

    :param names: of the rules that are asked; empty = all; ``end``: of the time, when little of their share is left.
    """
    cluster, job = reduction.cluster, reduction.job
    # a rule takes any node that the job admits, so those slower than the threshold are hidden from it
    hidden = np.flatnonzero(admissible(cluster, job) & ~reduction.admitted)
    offered = cluster.with_busy(hidden) if len(hidden) else cluster
    start = clock()
    for rule in quick_rules(names):
        share = params.quick_share if rule.pod_by_pod else params.rules_share
        until = min(start + share * limits.seconds, max(end, start + params.short_share * limits.seconds))
        if clock() > until:
            return
        nodes = rule.in_time(until).place(offered, job, limits).nodes
        if nodes is not None:
            yield nodes


# Placements that need no search: segments of cells one after another, each on the fewest domains that hold it.
#
# Where the objective has terms that the pairs (S, R) do not see, the best pair need not lead to the best placement.
# These fills look at every level from the broadest on, each for one family of groups; they are placements to begin
# with.


def tight_fills(reduction: GridReduction) -> Iterator[IntArray]:
    """Yield nodes, shape [rows, columns] each: the cells as one segment, then a segment for each group of a family."""
    cluster, grid = reduction.cluster, reduction.job.grid
    along = cluster.along_the_tree
    admitted = reduction.admitted[along]
    tree = _Tree.of(cluster)
    for segments in _segmentations(reduction.job):
        filled = np.empty(grid.cells, dtype=np.int32)
        room = _Room.of(tree, admitted)
        for cells in segments:
            filled[cells] = along[np.sort(room.take_tightest(len(cells)))]
        yield filled.reshape(grid.rows, grid.columns)
    depth = cluster.level_index(reduction.job.level)
    for first, last_come in product(dict.fromkeys((0, depth)), (False, True)):
        roomy = along[_roomiest(cluster, np.flatnonzero(admitted), grid.cells, first, last_come=last_come)]
        if last_come:
            roomy = _alternating(cluster, roomy, reduction.level)
        for (cells,) in islice(_segmentations(reduction.job), 3):
            nodes = np.empty(grid.cells, dtype=np.int32)
            nodes[cells] = roomy
            yield nodes.reshape(grid.rows, grid.columns)
    cell = np.arange(grid.cells).reshape(grid.rows, grid.columns)
    for lines, last_come in product((cell, cell.T), (False, True)):
        slices = _in_slices(cluster, np.flatnonzero(admitted), lines.shape, depth, last_come=last_come)
        for mixed in (False, True) if slices else ():
            ordered = [along[slice_] for slice_ in slices]
            if mixed:
                ordered = [_alternating(cluster, slice_, cluster.levels[-1]) for slice_ in ordered]
            nodes = np.empty(grid.cells, dtype=np.int32)
            nodes[lines.ravel()] = np.concatenate(ordered)
            yield nodes.reshape(grid.rows, grid.columns)


def _segmentations(job: Job) -> Iterator[Sequence[IndexArray]]:
    """Yield ways to cut the cells into segments: not at all, in three orders; and by the groups of each family."""
    grid = job.grid
    cell = np.arange(grid.cells).reshape(grid.rows, grid.columns)
    yield [cell.T.ravel()]
    yield [cell.ravel()]
    yield [np.argsort(grid.node_rank.ravel(), kind="stable")]
    for family in FAMILIES:
        groups = grid.groups[family]
        if groups.one_each and 1 < groups.largest < grid.cells:
            by_group = np.argsort(groups.group, kind="stable")
            yield np.split(by_group, np.cumsum(groups.sizes)[:-1])


def _in_slices(
    cluster: Cluster, places: IndexArray, shape: tuple[int, ...], depth: int, *, last_come: bool
) -> list[IndexArray]:
    """Return places for as many slices of one size, domain by domain of a level, each slice whole in one; or none.

    Domains that hold most slices come first, the last is the tightest; inside, the roomiest closer domains.

    :param shape: number of slices, and their size; ``last_come``: of equal domains the last ones are taken.
    """
    wanted, size = shape
    domain = cluster.levels[depth].domain_of[cluster.along_the_tree[places]]
    free = np.bincount(domain, minlength=len(cluster.levels[depth]))
    slices = free // size
    if int(slices.sum()) < wanted:
        return []
    # of domains with as many slices the one with fewer nodes over
    sign = -1 if last_come else 1
    order = np.lexsort((sign * np.arange(len(free)), free, -slices))
    chosen: list[IndexArray] = []
    while wanted:
        fits = order[slices[order] >= wanted]
        k = int(fits[slices[fits].argmin()]) if len(fits) else int(order[0])
        some = min(wanted, int(slices[k]))
        chosen.append(_roomiest(cluster, places[domain == k], some * size, depth + 1, last_come=last_come))
        order = order[order != k]
        wanted -= some
    return chosen


def _roomiest(cluster: Cluster, places: IndexArray, wanted: int, first: int, *, last_come: bool) -> IndexArray:
    """Return so many of the places, ascending: level by level of the roomiest domains, as few as hold them.

    Closer domains of all that were chosen compete together, so that small ones are left out wherever they lie.

    :param first: depth to begin at; ``last_come``: of equal domains the last ones are taken.
    """
    along = cluster.along_the_tree
    for level in cluster.levels[first:]:
        # along the tree those of a domain follow each other
        domain_of = level.domain_of[along[places]]
        begins = np.flatnonzero(np.diff(domain_of, prepend=-1))
        numbers, counts = domain_of[begins], np.diff(begins, append=len(places))
        order = np.lexsort((-numbers if last_come else numbers, -counts))
        needed = int(np.searchsorted(np.cumsum(counts[order]), wanted))
        rest = wanted - int(counts[order[:needed]].sum())
        others = order[needed:]
        # the last is the tightest that has room for the rest
        last = others[counts[others] >= rest]
        last = last[counts[last].argmin()]
        taken = [*np.sort(order[:needed]), last]
        places = np.concatenate([places[begins[k] : begins[k] + counts[k]] for k in taken])
    return np.sort(places[:wanted])


def _alternating(cluster: Cluster, nodes: IntArray, level: Level) -> IntArray:
    """Return the nodes with the domains of a level in another order: most nodes for each closest domain, then fewest.

    Segments one after another so touch about as many closest domains each.
    """
    domain, closest = level.domain_of[nodes], cluster.levels[-1].domain_of[nodes]
    kinds, of_node = np.unique(domain, return_inverse=True)
    pairs = np.unique(np.stack([of_node, closest]), axis=1)
    by_ratio = np.argsort(-np.bincount(of_node) / np.bincount(pairs[0]), kind="stable")
    half = -(-len(kinds) // 2)
    rank = np.empty(len(kinds), dtype=np.int64)
    rank[by_ratio[:half]] = 2 * np.arange(half)
    rank[by_ratio[half:][::-1]] = 2 * np.arange(len(kinds) - half) + 1
    order = np.argsort(rank[of_node], kind="stable")
    ordered: IntArray = nodes[order]
    return ordered


@dataclass(frozen=True, slots=True)
class _Tree:
    """Where the domains of each level lie along the tree, numbered in that order from the broadest level on."""

    starts: list[IndexArray]  # for each level, shape [domains + 1], the first place of each, and where the last ends
    # for each level, shape [domains + 1], the first child of each; of the closest, the places
    children: list[IndexArray]

    @classmethod
    def of(cls, cluster: Cluster) -> _Tree:
        """Return the domains along the tree."""
        along = cluster.along_the_tree
        inside = [level.domain_of[along] for level in cluster.levels]
        starts = [np.append(np.flatnonzero(np.diff(domain, prepend=-1)), len(along)) for domain in inside]
        children = [np.searchsorted(closer, first) for first, closer in pairwise(starts)]
        return cls(starts, [*children, starts[-1]])


@dataclass(frozen=True, slots=True)
class _Room:
    """The places that are left, and how many of them each domain has."""

    tree: _Tree
    free: BoolArray  # shape [nodes], by place along the tree
    counts: list[IndexArray]  # for each level, shape [domains]

    @classmethod
    def of(cls, tree: _Tree, free: BoolArray) -> _Room:
        """Return room on all places that are free."""
        before = np.concatenate([[0], np.cumsum(free)])
        return cls(tree, free.copy(), [np.diff(before[starts]) for starts in tree.starts])

    def take_tightest(self, wanted: int) -> IndexArray:
        """Take so many places, of the fewest domains level by level, and return them."""
        taken: list[IndexArray] = []
        self._take(0, 0, len(self.counts[0]), wanted, taken)
        return np.concatenate(taken)

    def _take(self, depth: int, first: int, last: int, wanted: int, taken: list[IndexArray]) -> None:
        """Take places of some domains of a level, numbered from first to before last."""
        counts = self.counts[depth][first:last]
        while wanted:
            fits = np.flatnonzero(counts >= wanted)
            # the tightest that has room for the rest, or the roomiest
            k = int(fits[counts[fits].argmin()]) if len(fits) else int(counts.argmax())
            some = min(wanted, int(counts[k]))
            start, end = (int(place) for place in self.tree.children[depth][first + k : first + k + 2])
            if depth + 1 < len(self.counts):
                self._take(depth + 1, start, end, some, taken)
            else:
                places = start + np.flatnonzero(self.free[start:end])[:some]
                self.free[places] = False
                taken.append(places)
            counts[k] -= some
            wanted -= some


# Terms of the objective beyond the pair (S, R): what is tried for them, and where the search for them begins.
#
# A soft term is least where its groups touch one domain each, which is a hard constraint: so every choice of a few
# terms is tried as holds, on the lattice of the pairs that are left.  Terms of DP and PP groups at another level are
# also put first: a search at that level, seated from there on down.  What comes of it are placements to begin with; how
# far they are from the least is for :mod:`scheduler.placement.exact.goals` to say.


def has_more_terms(cluster: Cluster, job: Job) -> bool:
    """Return whether the pair does not decide: soft terms count, or a hold broader than the job's level."""
    return bool(job.soft) or _held_broader(cluster, job)


def _held_broader(cluster: Cluster, job: Job) -> bool:
    """Return whether a hold is broader than the level at which spread counts."""
    return cluster.level(counted_where_held(cluster, job).level) is not cluster.level(job.level)


def goals_of(
    reduction: GridReduction, search: PairSearch, limits: Limits, end: float, params: ExactParams
) -> GoalSearch:
    """Return the goals of a job on nodes up to some slowdown, begun with the best placement that pairs lead to."""
    cluster, job = reduction.cluster, reduction.job
    bounds = LevelBounds(reduction, limits, params, {reduction.level.name: search.lattice}, end=end)
    # rules have an end of their own: none that was asked is to be better, also where the search of pairs took all time
    rules = quick_starts(reduction, limits, params, end=end) if has_more_terms(cluster, job) else ()
    placements = [placement for nodes in rules if (placement := weighed(cluster, job, nodes))]
    for nodes in _starts(bounds, search, end):
        if placement := weighed(cluster, job, nodes):
            placements.append(placement)
        # each may take tenths of a second: once there is one, the others wait for time
        if placements and clock() > end:
            break
    best = min(placements)
    effort = (params.term_effort if has_more_terms(cluster, job) else params.goal_effort) * limits.seconds
    goals = GoalSearch(reduction, bounds, best, [], limits, params, effort, end)
    if has_more_terms(cluster, job):
        goals.count(0)
        goals.raise_bound(0, _least_by_holds(bounds, search.lattice.bound()))
    return goals


_PIECES = 4_000  # Of groups in one domain, times its closer ones, up to which they are packed: tenths of a second
_PACKING_EFFORTS = (0.1, 1.0)  # Of the pieces of groups in one domain, at first and for those that this leaves open


def pack_groups(goals: GoalSearch, search: PairSearch) -> None:
    """Offer placements in which the groups of a soft term touch few domains of a closer level.

    At the job's level the cells lie as a pair has them that is built, or as is best where parts of groups, as large as
    the number of closer domains makes them, stay whole; what a domain has of the groups is packed inside.
    """
    reduction, bounds, lattice = goals.reduction, goals.bounds, search.lattice
    cluster, job, terms = reduction.cluster, reduction.job, goals.goals[0]
    packings: list[tuple[GroupPacking, tuple[IntArray, IntArray]]] = []
    for term in terms if reduction.blocks.size == 1 else ():
        groups, depth = job.grid.groups[term.family], cluster.level_index(term.level)
        inside = depth > cluster.level_index(reduction.level.name)
        if term.family not in LINES and inside and groups.one_each and not np.ptp(groups.sizes):
            with suppress(InvalidJob):  # groups that share nodes unequally
                tied = job.grid.tied([term.family])
                packings.append((GroupPacking(cluster, job, term, reduction.level, reduction.admitted), tied))
    if packings:
        fill_front(search, seconds=goals.params.short_share * goals.limits.seconds)
    for effort, (packing, tied) in product(_PACKING_EFFORTS, packings):
        term = packing.term
        others = [other for other in terms if other is not term and other.family not in LINES]
        fewest, rest = round(bounds.least([term]) / term.weight), bounds.least(others) if others else 0.0
        for most in range(fewest, len(cluster.level(term.level))):
            below = goals.best.costs[0] - rest - term.weight * most - TOLERANCE
            if lattice.bound() >= below or clock() >= goals.end:
                break
            for domain_of_cell in _spread_groups(goals, lattice, term, tied=tied, most=most, below=below):
                nodes = packing.pack(domain_of_cell, most, effort, goals.end)
                if nodes is not None:
                    goals.offer(nodes)
                    break


def _spread_groups(
    goals: GoalSearch, lattice: Lattice, term: Count, *, tied: tuple[IntArray, IntArray], most: int, below: float
) -> Iterator[IntArray]:
    """Yield the domain of the job's level of each cell, shape [rows, columns], with Eq. 2 below a number.

    :param tied: which rows the groups of the term tie together, shape [rows], and which columns, shape [columns].
    :param most: closer domains that the groups may touch.
    """
    reduction, params = goals.reduction, goals.params
    job, closer = reduction.job, reduction.cluster.level(term.level)
    # rows may change places, and columns: those alike go to the same groups
    back = np.ix_(*(np.argsort(np.argsort(lines, kind="stable")) for lines in tied))
    for point in lattice.pareto():
        pair = point.dp, point.pp
        if lattice.cost(pair) >= below:
            continue
        built = lattice.built[pair]
        built = built[np.lexsort(built.T)][:, np.lexsort(built)]
        yield reduction.domains[built][back]
    size, rest = divmod(job.grid.groups[term.family].largest, most)
    if rest or np.bincount(tied[0]).max() != size * most:
        return  # groups are not so many rows of one column
    nodes = np.flatnonzero(reduction.admitted)
    _, first, room = np.unique(closer.domain_of[nodes], return_index=True, return_counts=True)
    parts = np.bincount(reduction.level.domain_of[nodes[first]], weights=room // size, minlength=len(reduction.level))
    order = np.argsort(-parts, kind="stable")
    capacities = tuple(parts[order].astype(int)[: np.count_nonzero(parts)].tolist())
    if sum(capacities) * size < job.grid.cells:
        return
    seconds = max(LEAST_SECONDS, params.short_share * goals.limits.seconds)
    of_part = solve_grid(job.grid.rows // size, job.grid.columns, capacities, job.alpha, seconds, params=params)
    if of_part is not None:
        yield order.astype(np.int32)[np.repeat(of_part, size, axis=0)][back]


Piece = tuple[int, int]  # Cells of a group in a domain of the job's level, and how many closer domains they may touch


@dataclass(frozen=True)
class GroupPacking:
    """Groups of one size, whose cells in domains of one level are to lie in few domains of a closer one: each of these
    domains may be another one that has room for its pieces of groups.
    """

    cluster: Cluster
    job: Job
    term: Count  # family, and the closer level
    level: Level
    admitted: BoolArray  # shape [nodes]

    @cached_property
    def _closer(self) -> dict[int, tuple[IntArray, IntArray]]:
        """Domain of the level -> the closer domains in it, the roomiest first, and nodes of each that may be used."""
        nodes = np.flatnonzero(self.admitted)
        closer, first, room = np.unique(
            self.cluster.level(self.term.level).domain_of[nodes], return_index=True, return_counts=True
        )
        order, inside = np.argsort(-room, kind="stable"), self.level.domain_of[nodes[first]]
        return {
            int(domain): (closer[some], room[some])
            for domain in np.unique(inside)
            for some in [order[inside[order] == domain]]
        }

    def pack(self, domain_of_cell: IntArray, most: int, effort: float, end: float) -> IntArray | None:
        """Return nodes, shape [rows, columns], where no group touches more closer domains; ``None`` = none found.

        :param domain_of_cell: shape [rows, columns], of the level.
        :param effort: of the pieces in one domain; ``end``: of the time.
        """
        group_of = self.job.grid.groups[self.term.family].group
        domains, place_of = np.unique(domain_of_cell.ravel(), return_inverse=True)
        # of each group in each domain in use
        cells_in = np.zeros((len(domains), int(group_of.max()) + 1), dtype=np.int32)
        np.add.at(cells_in, (place_of, group_of), 1)
        pieces_of_group = np.count_nonzero(cells_in, axis=0)
        if pieces_of_group.max() > most:
            return None
        # the largest piece of a group may be parted, the others lie in one closer domain each
        touches = np.ones_like(cells_in)
        touches[cells_in.argmax(axis=0), np.arange(len(pieces_of_group))] += most - pieces_of_group
        laid: dict[tuple[tuple[Piece, ...], tuple[int, ...]], IntArray | None] = {}
        places: list[tuple[IndexArray, tuple[Piece, ...]]] = []
        fits: dict[int, list[int]] = {}  # part -> domains where its pieces fit
        for number, (cells, of_piece) in enumerate(zip(cells_in, touches, strict=True)):
            order = np.lexsort((of_piece, cells))[::-1][: np.count_nonzero(cells)]
            pieces = tuple(zip(cells[order].tolist(), of_piece[order].tolist(), strict=True))
            places.append((order, pieces))
            for domain, (_, room) in self._closer.items():
                if int(room.sum()) >= int(cells.sum()):
                    key = pieces, tuple(room.tolist())
                    if key not in laid:
                        if clock() >= end:
                            return None
                        laid[key] = _pieces_inside(*key, Slice(effort, end - clock()))
                    if laid[key] is not None:
                        fits.setdefault(number, []).append(domain)
        domain_of = {number: domain for domain, number in matched(fits).items()}
        if len(domain_of) < len(places):
            return None
        closer_of_cell = np.empty(domain_of_cell.size, dtype=np.int32)
        for number, (order, pieces) in enumerate(places):
            closer, room = self._closer[domain_of[number]]
            held = laid[pieces, tuple(room.tolist())]
            assert held is not None, "they fit"
            for group, cells in zip(order, held, strict=True):
                closer_of_cell[(place_of == number) & (group_of == group)] = np.repeat(closer, cells)
        return seat(
            self.cluster,
            self.job,
            level=self.cluster.level(self.term.level),
            domain_of_cell=closer_of_cell.reshape(domain_of_cell.shape),
            admitted=self.admitted,
        )


def matched(places_of: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return a largest matching of things to the places where they may be: place -> thing."""
    thing_in: dict[int, int] = {}

    def settle(thing: int, tried: set[int]) -> bool:
        for place in places_of[thing]:
            if place in tried:
                continue
            tried.add(place)
            # what is there already goes to another of its places, if that can be had
            if place not in thing_in or settle(thing_in[place], tried):
                thing_in[place] = thing
                return True
        return False

    for thing in places_of:
        settle(thing, set())
    return thing_in


def _pieces_inside(pieces: Sequence[Piece], room: Sequence[int], limit: Slice) -> IntArray | None:
    """Return the cells of each piece in each closer domain, shape [pieces, domains]; ``None`` = not found.

    :param room: of the closer domains, descending.
    """
    from scheduler.placement import cp_model

    if len(pieces) * len(room) > _PIECES:
        return None
    model = cp_model.CpModel()
    cells = [[model.new_int_var(0, min(size, most), "") for most in room] for size, _ in pieces]
    for (size, touches), of_piece in zip(pieces, cells, strict=True):
        touched = [model.new_bool_var("") for _ in room]
        for here, most, touch in zip(of_piece, room, touched, strict=True):
            model.add(here <= min(size, most) * touch)
        model.add(sum(of_piece) == size)
        model.add(sum(touched) <= touches)
        # implied, and seen sooner so: what it touches has room for it
        model.add(sum(min(size, most) * touch for most, touch in zip(room, touched, strict=True)) >= size)
    for most, together in zip(room, zip(*cells, strict=True), strict=True):
        model.add(sum(together) <= most)
    answer, solver = solve(model, limit)
    return np.array([[solver.value(here) for here in of_piece] for of_piece in cells]) if answer == "yes" else None


def _least_by_holds(bounds: LevelBounds, pairs: float) -> float:
    """Return what the objective comes to at least: some soft terms are 1, as if held, and all others 2 or more.

    :param pairs: what Eq. 2 comes to at least, wherever groups lie.
    """
    job, least = bounds.reduction.job, inf
    terms = objective_terms(bounds.reduction.cluster, job)
    soft = [term for term in job.soft if term.weight > 0.0]
    fewest = {term: bounds.least([term]) / term.weight for term in soft}
    for chosen in product((False, True), repeat=len(soft)) if len(soft) <= bounds.params.held_terms else ():
        held = [term for term, holds in zip(soft, chosen, strict=True) if holds]
        if any(fewest[term] > 1.5 for term in held):
            continue
        others = sum(
            term.weight * (1.0 if job.grid.groups[term.family].largest == 1 else max(2.0, fewest[term]))
            for term in soft
            if term not in held
        )
        of_pairs = bounds.where_held.get(frozenset(Hold(term.family, term.level) for term in held), pairs)
        by_pairs = max(pairs, of_pairs) + sum(term.weight for term in held) + others
        apart = [term for term in soft if term not in held and job.grid.groups[term.family].largest > 1]
        least = min(least, max(by_pairs, bounds.least(terms, apart=apart)))
    return least if least < inf else -inf


def other_seats(
    reduction: GridReduction, search: PairSearch, limits: Limits, end: float, params: ExactParams
) -> Iterator[IntArray]:
    """Yield nodes, shape [rows, columns] each, of placements that may be as good and better at closer levels."""
    lattice, seconds = search.lattice, seating_seconds(limits, params)
    yield from tight_fills(reduction)
    if not reduction.job.grid.aligned:
        return
    equal = [pair for pair in lattice.built if lattice.cost(pair) <= lattice.cost(lattice.best) + TOLERANCE]
    for pair in sorted(equal):
        best_fit = reduction.domain_of_cell(lattice.built[pair])
        looked_inside = reduction.domain_of_cell(lattice.built[pair], closer_first=True)
        if pair != lattice.best:
            yield seat_cells(reduction, best_fit, seconds, params, end=end)
        if not np.array_equal(best_fit, looked_inside):
            yield seat_cells(reduction, looked_inside, seconds, params, end=end)


def _starts(bounds: LevelBounds, search: PairSearch, end: float) -> Iterator[IntArray]:
    """Yield nodes for the cheapest pair; with more terms for every corner of the front, and for other jobs like it, of
    which it is noted what Eq. 2 comes to at least where they hold terms.
    """
    reduction, limits, params, lattice = bounds.reduction, bounds.limits, bounds.params, search.lattice
    cluster, job = reduction.cluster, reduction.job
    seconds = seating_seconds(limits, params)
    if not has_more_terms(cluster, job):
        yield seat_pair(reduction, lattice, lattice.best, seconds, params, end=end)
        return
    yield from tight_fills(reduction)
    for point in lattice.pareto():
        yield seat_pair(reduction, lattice, (point.dp, point.pp), seconds, params, end=end)
    others = list(_others(cluster, job, params))
    for number, other in enumerate(others):
        asked, bound = GridReduction(cluster, other, reduction.slowest), inf
        if not asked.refusal:
            share = max(LEAST_SECONDS, (end - clock()) / (len(others) - number + 1))
            of_other = search_reduction(asked, limits, share, params).lattice
            bound = of_other.bound()
        if asked.level is reduction.level and other.alpha == job.alpha:
            bounds.where_held[frozenset(other.holds) - frozenset(job.holds)] = bound
        if asked.refusal:
            continue
        yield seat_pair(asked, of_other, of_other.best, seconds, params, end=end)


def _others(cluster: Cluster, job: Job, params: ExactParams) -> Iterator[Job]:
    """Yield jobs whose best pair may serve the terms better: some terms held, or the spread counted elsewhere."""
    counted = (term for term in job.soft if term.weight > 0.0 and job.grid.groups[term.family].largest > 1)
    terms = sorted({(term.family, term.level) for term in counted})
    if _held_broader(cluster, job):
        yield counted_where_held(cluster, job)
    for count in range(1, min(len(terms), params.held_terms) + 1):
        for chosen in combinations(terms, count):
            held = job.replace(holds=(*job.holds, *(Hold(family, level) for family, level in chosen)))
            yield counted_where_held(cluster, held)
            if counted_where_held(cluster, held).level != held.level:
                yield held
    for level in dict.fromkeys(term.level for term in job.soft if term.family in ("dp", "pp")):
        at_level = [objective_term for objective_term in objective_terms(cluster, job) if objective_term.level == level]
        dp, pp = (sum(term.weight for term in at_level if term.family == family) for family in ("dp", "pp"))
        if dp + pp:
            # spread is not counted inside TP groups of several nodes: held there they keep what the job asks as well
            inside_tp = job.nodes_of_tp > 1 and (
                cluster.level_index(level) > cluster.level_index(job.holds_on(cluster)[-1].level)
            )
            within = level if inside_tp else job.tp_level
            yield job.replace(level=level, tp_level=within, alpha=dp / (dp + pp))
