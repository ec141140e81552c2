"""What counting says of all levels at once: the least that terms at several levels can add up to.

At every level alone the job is a grid problem, with a lattice of its own; a group touches no fewer domains of a closer
level than of a broader one, as each of these has one of those in it.  So the spreads of a placement, level by level,
are a path of pairs (S, R) that are not refuted, ascending in both.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

import numpy as np

from scheduler.job import Count, Family, Hold
from scheduler.objective import TOLERANCE, spread
from scheduler.placement.admission import least_spread
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.params import ExactParams
from scheduler.placement.exact.problem import GridReduction, counted_where_held
from scheduler.placement.exact.schedule import apply_product, count_coverage, count_edges, count_rectangles
from scheduler.placement.types import Limits, Pair, corners
from scheduler.work_clock import LEAST_SECONDS, clock
from topology.cluster import IndexArray, count_nodes

# What lines touch at a closer level at least, given what they may touch at a broader one: racks inside minipods.
#
# A line is a column or a row of the grid.  At the closer level alone all the roomiest racks serve; but a line that may
# touch two minipods finds its racks in these two.  Counting says how many racks all lines together touch:
#
# - Lines that touch one minipod each lie in it whole, so each minipod has a number of whole lines.
# - Lines that touch up to S of them touch S times their number in all, and each time it is a part of a line that
#   goes to racks of that minipod: a knapsack over the minipods with two budgets, touches of minipods and of racks.
#
# A rack that q lines touch holds q times their length at most, so it is a list of chunks, each one touch.


@dataclass(frozen=True)
class LineTouches:
    """Lines of equal length, and where there is room for their cells."""

    length: int
    lines: int
    rooms: Sequence[IndexArray]  # of each broader domain: cells that each closer domain in it can take
    most: float  # array elements that the knapsack may take in all

    def fewest(self, broader: int) -> int:
        """Return how many closer domains some line touches at least if each touches so many broader ones at most."""
        if broader not in self._known:
            self._known[broader] = self._fewest_whole() if broader == 1 else self._fewest_in_parts(broader)
        return self._known[broader]

    @cached_property
    def _known(self) -> dict[int, int]:
        return {}

    def _chunks(self) -> Iterator[IndexArray]:
        """Yield for each broader domain the cells of its best touches: shape [touches], of one, of two, and so on."""
        for number, room in enumerate(self.rooms):
            if number == len(self._made):
                whole = np.repeat(self.length, int((room // self.length).sum()))
                rest = np.sort(room % self.length)[::-1]
                self._made.append(np.cumsum(np.concatenate([whole, rest[rest > 0]])).astype(np.int64))
            yield self._made[number]

    @cached_property
    def _made(self) -> list[IndexArray]:
        return []

    def _fewest_whole(self) -> int:
        for touched in range(1, self.length + 1):
            whole = 0  # whole lines that the broader domains have room for, each over so many closer ones
            for cells in self._chunks():
                lines = int(cells[-1]) // self.length
                while lines and cells[min(lines * touched, len(cells)) - 1] < lines * self.length:
                    lines -= 1
                whole += lines
                if whole >= self.lines:
                    return touched
        return self.length + 1  # there is no such placement

    def _fewest_in_parts(self, broader: int) -> int:
        budget = broader * self.lines
        chunks = list(self._chunks())
        options = sum(min(self.lines, -(-int(c) // self.length)) for cells in chunks for c in cells)
        # beyond so many touches the knapsack is not made: what does not suffice with these needs more
        touches = min(sum(map(len, chunks)), int(self.most / (budget + 1) / max(options, 1)))
        # shape [touches of broader domains, touches of closer ones], the most cells
        held = np.zeros((budget + 1, touches + 1), dtype=np.int64)
        for cells in chunks:
            before = held.copy()
            for touch, most in enumerate(cells[:touches].tolist(), start=1):
                for parts in range(1, min(self.lines, budget, -(-most // self.length)) + 1):
                    taken = before[: budget + 1 - parts, : touches + 1 - touch] + min(most, parts * self.length)
                    np.maximum(held[parts:, touch:], taken, out=held[parts:, touch:])
        enough = np.flatnonzero(held[-1] >= self.length * self.lines)
        return -(-int(enough[0] if len(enough) else touches + 1) // self.lines)


LINES: tuple[Family, ...] = ("dp", "pp")  # families whose groups are the columns and the rows of the grid


@dataclass
class LevelBounds:
    """Bounds of the spreads of one job on nodes up to some slowdown."""

    reduction: GridReduction
    limits: Limits
    params: ExactParams
    lattices: dict[str, Lattice] = field(default_factory=dict)  # by level, those that are known already
    floors: Mapping[str, Pair] = field(default_factory=dict)  # by level, what S and R are at least, each by itself
    # what Eq. 2 of the job's level comes to at least where groups are held besides, by these holds
    where_held: dict[frozenset[Hold], float] = field(default_factory=dict)
    end: float = inf  # of the time for coverage, and for knapsacks over broader domains: tenths of a second in all
    _lines: dict[tuple[str, str], tuple[LineTouches, ...]] = field(default_factory=dict)  # columns and rows, by levels
    # what groups touch at least, by family and level; and the same where S or R is above 1 at a level, or not
    _groups: dict[tuple[str, str | None], int] = field(default_factory=dict)
    _groups_where: dict[tuple[str, str | None, str, bool, bool], int] = field(default_factory=dict)

    def least(
        self,
        terms: Sequence[Count],
        *,
        among: Sequence[tuple[Sequence[Count], float]] = (),
        apart: Collection[Count] = (),
    ) -> float:
        """Return what some terms come to at least.

        :param among: of placements alone in which other terms come to no more than a number.
        :param apart: terms of other groups of which some touch two domains at least.
        """
        asked = [terms, *(others for others, _ in among)]
        limits = [inf, *(most + TOLERANCE for _, most in among)]
        others = [[term for term in some if term.family not in LINES] for some in asked]
        fewest = {term: max(self._fewest(term), 1 + (term in apart)) for some in others for term in some}
        fixed = [sum(term.weight * fewest[term] for term in some) for some in others]
        weights = [weights_of(some) for some in asked]
        names = [name for name in self._levels if any(name in of_level for of_level in weights)]
        # what the terms come to on the way to a pair, each of those that no other one is as good as in all of them
        states: dict[Pair, list[tuple[float, ...]]] = {(1, 1): [tuple(fixed)]}
        for name in names:
            onward: dict[Pair, list[tuple[float, ...]]] = {}
            floor, least = self.floors.get(name, (1, 1)), self._corners(name, weights)
            if name == names[-1] and fewest:
                # what other groups touch at least depends on whether a spread here is 1 or more
                least = list({(max(a, s), max(b, r)) for a, b in least for s in (1, 2) for r in (1, 2)})
            for (dp, pp), sums in states.items():
                for a, b in least:
                    pair = max(a, dp, floor[0]), max(b, pp, floor[1])
                    step = [of.get(name, (0.0, 0.0)) for of in weights]
                    costs = [w * pair[0] + v * pair[1] for w, v in step]
                    for before in sums:
                        total = tuple(x + y for x, y in zip(before, costs, strict=True))
                        if all(x <= most for x, most in zip(total, limits, strict=True)):
                            onward.setdefault(pair, []).append(total)
            states = {}
            for pair, totals in onward.items():
                kept = states[pair] = []
                for total in sorted(set(totals)):
                    if not any(all(x <= y for x, y in zip(other, total, strict=True)) for other in kept):
                        kept.append(total)
        along = inf
        for pair, sums in states.items():
            more = [
                sum(term.weight * max(0, self._fewest_where(term, names, pair) - fewest[term]) for term in some)
                for some in others
            ]
            for total in sums:
                if all(x + y <= most for x, y, most in zip(total, more, limits, strict=True)):
                    along = min(along, total[0] + more[0])
        return max([along, *(self._below(terms, limited, most) for limited, most in among)])

    def _below(self, terms: Sequence[Count], others: Sequence[Count], most: float) -> float:
        """Return what the terms of one level come to at least among placements with other terms no more than a number.

        Of these it is Eq. 2 at each broader level that counts, less what the rest of them comes to at least: it says
        which pairs of that level there may be, and the lines of each touch domains inside those that they touch there.
        """
        wanted, least = weights_of(terms), -inf
        if len(wanted) != 1 or self.reduction.job.nodes_of_tp > 1 or any(term.family not in LINES for term in terms):
            return least
        ((name, (dp, pp)),) = wanted.items()
        above = self._levels[: self._levels.index(name)]
        for broader, (w, v) in weights_of(others).items():
            if broader not in above:
                continue
            rest = [other for other in others if other.level != broader or other.family not in LINES]
            left = most - (self.least(rest) if rest else 0.0) + TOLERANCE
            unrefuted_here = self._corners(name, list(map(weights_of, (terms, others))))
            pairs = [
                (max(a, columns), max(b, rows))
                for pair in self._widest(broader, w, v, left, self._largest(broader))
                for columns, rows in [self.touched(broader, name, pair)]
                for a, b in unrefuted_here
            ]
            least = max(least, min((dp * a + pp * b for a, b in pairs), default=inf))
        return least

    def allowed(self, name: str, terms: Sequence[Count], most: float) -> list[Pair]:
        """Return the largest pairs of a level with which some terms may be at most a number.

        A line of the grid touches no more domains than the groups in it together, and these no more here than at a
        closer level.
        """
        w, v = weights_of(terms).get(name, (0.0, 0.0))
        others = [term for term in terms if term.level != name or term.family not in LINES]
        reduction, names = self.reduction, self._levels
        grid, (dp, pp) = reduction.job.grid, self._largest(name)
        for term in others:
            if term.family in LINES or names.index(term.level) < names.index(name):
                continue
            rest = [other for other in terms if other is not term]
            touched = int((most - (self.least(rest) if rest else 0.0) + TOLERANCE) / term.weight)
            groups = grid.groups[term.family]
            dp = min(dp, touched * spread(groups.cell % grid.columns, groups.group))
            pp = min(pp, touched * spread(groups.cell // grid.columns, groups.group))
        return self._widest(name, w, v, most - (self.least(others) if others else 0.0) + TOLERANCE, (dp, pp))

    def sees_lines(self, name: str) -> bool:
        """Return whether columns and rows of the grid are what spread counts at a level: inside TP groups that are held
        at a broader one a column touches more domains than its DP groups.
        """
        reduction = self.reduction
        if reduction.job.nodes_of_tp == 1:
            return True
        held = reduction.job.holds_on(reduction.cluster)[-1].level
        return reduction.cluster.level_index(name) <= reduction.cluster.level_index(held)

    def _widest(self, name: str, w: float, v: float, most: float, largest: Pair) -> list[Pair]:
        """Return the largest pairs of a level, up to one, with w * S + v * R no more than a number, but for those
        refuted.
        """
        known, pairs = self.lattices.get(name), []
        for s in range(1, largest[0] + 1):
            if w * s + v > most:
                break
            r = largest[1] if w * s + v * largest[1] <= most else int((most - w * s) / v + TOLERANCE)
            if known is None or not known.is_refuted((s, r)):
                pairs.append((s, r))
        return largest_of(pairs)

    def _largest(self, name: str) -> Pair:
        """Return a pair of a level that no placement exceeds."""
        grid, domains = self.reduction.job.grid, len(self.reduction.cluster.level(name))
        return min(domains, grid.rows), min(domains, grid.columns)

    def touched(self, broader: str, name: str, pair: Pair) -> Pair:
        """Return what S and R are at a level at least, where a broader level has a pair; 1 where time is up."""
        if clock() > self.end:
            return 1, 1
        if (broader, name) not in self._lines:
            rooms = self._rooms(broader, name)
            shape = self.reduction.job.grid.rows, self.reduction.job.grid.columns
            self._lines[broader, name] = tuple(
                LineTouches(length, lines, rooms, self.params.touch_table) for length, lines in (shape, shape[::-1])
            )
        columns, rows = self._lines[broader, name]
        return columns.fewest(pair[0]), rows.fewest(pair[1])

    def _rooms(self, broader: str, name: str) -> list[IndexArray]:
        """Return for each domain of a broader level the nodes that may be used of each domain of a level inside it."""
        nodes = np.flatnonzero(self.reduction.admitted)
        above, inside = self.reduction.cluster.level(broader), self.reduction.cluster.level(name)
        places = above.domain_of[nodes].astype(np.int64) * len(inside) + inside.domain_of[nodes]
        place, room = np.unique(places, return_counts=True)
        return np.split(room, np.flatnonzero(np.diff(place // len(inside))) + 1)

    @property
    def _levels(self) -> tuple[str, ...]:
        return tuple(level.name for level in self.reduction.cluster.levels)

    def _corners(self, name: str, weights: Sequence[Mapping[str, tuple[float, float]]]) -> list[Pair]:
        """Return the least pairs of a level that are not refuted.

        Where parts of TP groups may lie apart a column touches more domains than its DP groups: counting says nothing.
        """
        reduction = self.reduction
        if not self.sees_lines(name):
            return [(1, 1)]
        if name not in self.lattices:
            dp, pp = (sum(of.get(name, (0.0, 0.0))[i] for of in weights) for i in range(2))
            alpha = dp / (dp + pp) if dp + pp else 0.5
            # what counting refutes
            problem = GridReduction(reduction.cluster, reduction.job.replace(level=name), reduction.slowest).problem
            lattice = Lattice(problem, alpha, 1.0 - alpha)
            seconds = min(self.limits.seconds, max(LEAST_SECONDS, self.end - clock()))
            search = PairSearch(lattice, replace(self.limits, seconds=seconds), self.params)
            for stage in (count_edges, apply_product, count_coverage, count_rectangles):
                stage(search)
                if not lattice.open():
                    break
            self.lattices[name] = lattice
        return unrefuted(self.lattices[name])

    def _fewest(self, term: Count) -> int:
        """Return how many domains of its level the largest group of a family touches at least, wherever the job is."""
        key = term.family, term.level
        if key not in self._groups:
            reduction = self.reduction
            cluster, job, admitted = reduction.cluster, reduction.job, reduction.admitted
            fewest = least_spread(cluster, job, *key, admitted)
            if fewest == 1 and job.grid.groups[term.family].largest > 1:
                held = GridReduction(cluster, job.replace(holds=(*job.holds, Hold(*key))), reduction.slowest)
                fewest += bool(GridReduction(cluster, counted_where_held(cluster, held.job), reduction.slowest).refusal)
            room = count_nodes(cluster.level(term.level), admitted).astype(np.int64)
            self._groups[key] = max(fewest, self._fewest_for_all(term, [room[room > 0]]))
        return self._groups[key]

    def _fewest_where(self, term: Count, names: Sequence[str], pair: Pair) -> int:
        """Return the same where a broader level, the last of some, has a pair: with S = R = 1 all of the job lies in a
        domain there, with S = 1 each column and with R = 1 each row, whole, and so each group that is part of one.
        """
        fewest, groups = self._fewest(term), self.reduction.job.grid.groups[term.family]
        rows, columns = self.reduction.job.grid.rows, self.reduction.job.grid.columns
        levels = self._levels
        if min(pair) > 1 or not names or levels.index(names[-1]) >= levels.index(term.level) or not groups.one_each:
            return fewest
        if self.reduction.job.nodes_of_tp > 1:
            return fewest  # the pair says nothing of where parts of TP groups lie
        key = term.family, term.level, names[-1], pair[0] > 1, pair[1] > 1
        if key not in self._groups_where:
            rooms = self._rooms(names[-1], term.level)
            line_of, length = (groups.cell % columns, rows) if pair[0] == 1 else (groups.cell // columns, columns)
            line_of = line_of[np.argsort(groups.group, kind="stable")]
            # the lines that each group has cells of, each set of them once
            lines = {frozenset(of_group.tolist()) for of_group in np.split(line_of, np.cumsum(groups.sizes)[:-1])}
            touched = fewest
            if pair == (1, 1):
                alone = [self._fewest_for_all(term, [room]) for room in rooms if int(room.sum()) >= rows * columns]
                touched = min(alone, default=fewest)
            elif max(map(len, lines)) == 1:
                touched = self._fewest_for_all(term, rooms)
            elif len(frozenset().union(*lines)) == sum(map(len, lines)):
                # whole lines with a group across them: it touches as many domains there as the lines do
                whole = np.array([int(room.sum()) // length for room in rooms])
                together = min(map(len, lines))
                if whole.sum() >= together * len(lines):
                    touched = LineTouches(together, len(lines), [whole[whole > 0]], 0.0).fewest(1)
            self._groups_where[key] = max(fewest, touched)
        return self._groups_where[key]

    def _fewest_for_all(self, term: Count, rooms: Sequence[IndexArray]) -> int:
        """Return how many domains some group touches at least where each lies in one of some parts of the cluster.

        :param rooms: of each part, nodes of its domains of the term's level.
        """
        groups, cells = self.reduction.job.grid.groups[term.family], self.reduction.job.grid.cells
        if not groups.one_each or cells % groups.largest or groups.sizes.min() < groups.largest:
            return 1
        return LineTouches(groups.largest, cells // groups.largest, rooms, 0.0).fewest(1)


def unrefuted(lattice: Lattice) -> list[Pair]:
    """Return the least pairs of a lattice that are not refuted."""
    pp = lattice.problem.largest_pair[1]
    return corners((s, most + 1) for s, most in enumerate(lattice.most_refuted, start=1) if most < pp)


def largest_of(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the pairs that no other one exceeds, ascending in S."""
    return [(-s, -r) for s, r in reversed(corners((-s, -r) for s, r in pairs))]


def weights_of(terms: Iterable[Count]) -> dict[str, tuple[float, float]]:
    """Return the weights of S and R at each level."""
    weights: dict[str, tuple[float, float]] = {}
    for term in terms:
        dp, pp = weights.get(term.level, (0.0, 0.0))
        if term.family == "dp":
            weights[term.level] = dp + term.weight, pp
        elif term.family == "pp":
            weights[term.level] = dp, pp + term.weight
    return weights
