"""What a certificate claims beyond what decides, recounted: the EP spread, and Eq. 2 at closer levels.

A placement as good as the answer has no more than the answer's objective at the job's level.  Where that leaves the
pair (1, 1) alone, it lies in one domain of the level, a *region*: then each domain with room is a grid of its own at
the next level, and what the cheapest region costs no placement is below.  Else the region is all nodes; where all pairs
left have S = 1, every DP group lies whole in a domain, which says how many closer domains some of them touch at least;
and so with R = 1.  The same goes on from level to level, among the regions where something as good may lie.

In a region a pair is ruled out by counting whole groups, by the product of spreads, or by a refutation of the
certificate that holds on the grid as it is counted here, wherever the certificate says that it belongs.

Whatever types of GPU the answer has, placements on others may be as good as it is for the speed there: these are looked
at as well, and there the objective may be as much larger as they are faster.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

import numpy as np
import numpy.typing as npt

from ground.records import JsonRecord
from scheduler.certificates.certificate import Certificate, CloserClaims, RefutedPair
from scheduler.job import Job
from scheduler.objective import TOLERANCE, Evaluation, Spread, closer_levels, objective_terms, slowest_in_use
from scheduler.verification.question import CountedGrid, NodeChoice, grid_and_room, job_on, node_choices, sizes_on
from scheduler.verification.refutations import (
    CALL,
    Effort,
    Recount,
    TooMuch,
    fewest_for_whole,
    least_product,
    recount,
    squared_roots,
)
from scheduler.witnesses import NOT_TO_BE_CHECKED
from topology.cluster import BoolArray, Cluster, IndexArray, IntArray, count_nodes

Refuted = Callable[[NodeChoice], Mapping[str, Sequence[Spread]]]
EVERY_ONE = Spread(1, 1)  # What every placement has at least


class CheckedClaim(JsonRecord):
    """A claim, and whether it was checked."""

    claim: str
    """`objective`: what decides; `ep`: the EP spread; else the name of a closer level."""
    checked: bool
    """Whether what was recounted shows it."""
    sentence: str
    """The claim in words, and what was found."""


@dataclass(frozen=True, slots=True)
class CloserCheck:
    """What recounting says of the claims beyond what decides."""

    claims: tuple[CheckedClaim, ...] = ()
    faults: tuple[str, ...] = ()  # what is wrong with them, a sentence each
    pairs: tuple[tuple[str, RefutedPair, Recount], ...] = ()  # the refutations that were recounted, with their level


def check_closer(
    certificate: Certificate, cluster: Cluster, job: Job, worth: Evaluation, refuted: Refuted
) -> CloserCheck:
    """Recount what a certificate claims beyond what decides.

    :param worth: of its placement, by the evaluator.
    :param refuted: from nodes to the pairs that no placement there has, by level.
    """
    claims = certificate.closer
    if claims is None:
        return CloserCheck()
    if faults := _faults(claims, cluster, job, worth):
        return CloserCheck(faults=tuple(faults))
    return _CloserRecount(claims, cluster, job, worth, refuted).check()


def _faults(claims: CloserClaims, cluster: Cluster, job: Job, worth: Evaluation) -> list[str]:
    """Return where the claims are not about the placement and its nodes, a sentence each."""
    faults = []
    if not set(worth.gpu_types) <= set(claims.gpu_types) <= set(cluster.gpu_types):
        faults.append("its closer levels are claimed of other types of GPU than its placement has")
    elif any(claims.gpus_per_node not in sizes_on(job, name) for name in claims.gpu_types):
        faults.append(f"its closer levels are claimed of nodes of {claims.gpus_per_node} GPUs")
    if claims.slowest is not None and claims.slowest < slowest_in_use(cluster, worth):
        faults.append(f"its closer levels are claimed of nodes up to {claims.slowest:g} x slow, and it has slower ones")
    if claims.ep is not None and claims.ep != worth.experts:
        faults.append(f"its placement has the EP spread {worth.experts}, and it says {claims.ep}")
    names = closer_levels(cluster, job)
    if tuple(claim.level for claim in claims.levels) != names[: len(claims.levels)]:
        return [*faults, f"its closer levels are not {', '.join(names) or 'none'} in this order"]
    for claim in claims.levels:
        spreads = worth.by_level[claim.level]
        if (claim.dp, claim.pp) != (spreads["dp"], spreads["pp"]):
            says = f"({claim.dp}, {claim.pp})"
            faults.append(
                f"its placement has the pair ({spreads['dp']}, {spreads['pp']}) at {claim.level}, and it says {says}"
            )
    return faults


@dataclass(frozen=True, slots=True)
class CountedRegion:
    """Where placements in question lie whole: some nodes, or those of them in one domain of a level."""

    choice: int  # number of the nodes
    depth: int = 0  # of the level, by index
    domain: int | None = None  # None = all nodes


@dataclass(frozen=True, slots=True)
class _AsGood:
    """Nodes on which a placement may be as good as the answer."""

    job: Job
    nodes: BoolArray
    objective: float  # the largest of such a placement
    refuted: Mapping[str, Sequence[Spread]]  # by level, pairs that no placement there has


@dataclass
class _CloserRecount:
    """The recount of one certificate's claims."""

    claims: CloserClaims
    cluster: Cluster
    job: Job
    worth: Evaluation
    refuted: Refuted
    effort: Effort = field(default_factory=Effort)
    pairs: list[tuple[str, RefutedPair, Recount]] = field(default_factory=list)
    _holding: dict[tuple[str, CountedGrid], list[Spread]] = field(default_factory=dict)
    _rooms: dict[tuple[int, str], tuple[int, int, IntArray] | None] = field(default_factory=dict)

    def check(self) -> CloserCheck:
        """Recount every claim."""
        checked = []
        if self.claims.ep is not None:
            shown = self.claims.ep <= self._fewest_for_experts()
            checked.append(_checked("ep", f"EP spread {self.claims.ep}", shown))
        bounds = self._bounds()
        for claim in self.claims.levels:
            words = f"{claim.level}: DP spread {claim.dp}, PP spread {claim.pp}"
            cost, least = self.worth.closer[claim.level], next(bounds)
            if claim.proved:
                checked.append(_checked(claim.level, words, cost <= max(1.0, least) + TOLERANCE))
            else:
                checked.append(CheckedClaim(claim.level, False, f"{words}, not claimed to be the least"))
        return CloserCheck(tuple(checked), pairs=tuple(self.pairs))

    @cached_property
    def _choices(self) -> tuple[_AsGood, ...]:
        """The nodes that are claimed of, a trunk's each where nothing joins them; then others on which a placement may
        be as good.
        """
        claims, cluster, speed = self.claims, self.cluster, self.job.speed_on(self.worth.gpu_types)
        job = job_on(self.job, claims.gpu_types, claims.gpus_per_node)
        trunks = [None] if cluster.trunks is None else range(len(cluster.trunks))
        own = [NodeChoice(job, claims.gpu_types, trunk) for trunk in trunks]
        others = [
            choice
            for choice in node_choices(cluster, self.job)
            if not {*choice.gpu_types} <= {*claims.gpu_types}
            or choice.job.gpus_per_node != claims.gpus_per_node
            or choice.speed > speed
        ]
        slowest = inf if claims.slowest is None else claims.slowest
        return tuple(
            _AsGood(
                choice.job,
                choice.nodes(cluster, slowest),
                self.worth.objective * (1.0 if choice in own else choice.speed / speed),
                self.refuted(choice),
            )
            for choice in (*own, *others)
        )

    def _fewest_for_experts(self) -> int:
        """Return how many domains of the job's level the largest expert group takes at least."""
        level, fewest = self.cluster.level(self.job.level), []
        for choice in self._choices:
            largest = choice.job.grid.groups["ep"].largest
            inside = np.cumsum(np.sort(count_nodes(level, choice.nodes))[::-1])
            if inside[-1] >= largest:
                fewest.append(int(np.searchsorted(inside, largest)) + 1)
        return min(fewest, default=0)

    def _bounds(self) -> Iterator[float]:
        """Yield for each closer level what no placement is below that is as good before; 0 where nothing is told."""
        cluster, job = self.cluster, self.job
        above = cluster.level(job.level).name
        here = [term for term in objective_terms(cluster, job) if term.level == above and term.family in ("dp", "pp")]
        weights = tuple(sum(term.weight for term in here if term.family == family) for family in ("dp", "pp"))
        # every other term has a spread of 1 at least
        others = sum(term.weight for term in objective_terms(cluster, job) if term not in here)
        most = [choice.objective - others for choice in self._choices]
        regions = [CountedRegion(number) for number in range(len(self._choices))]
        try:
            for name in closer_levels(cluster, job):
                regions, held = self._narrowed(regions, above, (weights[0], weights[1]), most)
                bounds = [self._least(region, name, above, held) for region in regions]
                yield min(bounds, default=0.0)
                above, weights, value = name, (job.alpha, job.beta), self.worth.closer[name]
                within = zip(regions, bounds, strict=True)
                regions = [region for region, bound in within if bound <= value + TOLERANCE]
                most = [value] * len(most)
        except TooMuch:
            pass
        while True:
            yield 0.0

    def _narrowed(
        self, regions: Sequence[CountedRegion], level: str, weights: tuple[float, float], most: Sequence[float]
    ) -> tuple[list[CountedRegion], Spread]:
        """Return the regions where a placement that costs so much at a level lies, and the largest pair it has there.

        :param weights: of S and R at the level.
        :param most: by the number of the nodes.
        """
        within, largest = list[CountedRegion](), EVERY_ONE
        depth = self.cluster.level_index(level)
        for region in regions:
            grid = self._grid(region, level)
            if grid is None:
                within.append(region)
                cells = self._choices[region.choice].job.grid.cells
                largest = Spread(max(largest.dp, cells), max(largest.pp, cells))
                continue
            if sum(grid.capacities) < grid.cells:
                continue
            dp, pp = np.nonzero(self._costs(grid, region, level, weights) <= most[region.choice] + TOLERANCE)
            if not len(dp):
                continue
            if not dp.any() and not pp.any():
                # rows and columns cross, so all cells lie in one domain
                rooms = self._room(region, level)[2]
                within += [CountedRegion(region.choice, depth, k) for k in np.flatnonzero(rooms >= grid.cells).tolist()]
            else:
                within.append(region)
                largest = Spread(max(largest.dp, int(dp.max()) + 1), max(largest.pp, int(pp.max()) + 1))
        return within, largest

    def _least(self, region: CountedRegion, level: str, above: str, held: Spread) -> float:
        """Return what Eq. 2 is at least at a level in a region, where the level above has no more than a pair; infinite
        where there is no placement.
        """
        grid = self._grid(region, level)
        if grid is None:
            return 1.0
        if sum(grid.capacities) < grid.cells:
            return inf
        floor = EVERY_ONE
        if region.domain is None or self.cluster.level_index(above) != region.depth:
            rooms = self._rooms_inside(region, level, above)
            columns = fewest_touched(grid.rows, grid.columns, rooms) if held.dp == 1 else 1
            floor = Spread(columns, fewest_touched(grid.columns, grid.rows, rooms) if held.pp == 1 else 1)
        costs = self._costs(grid, region, level, (self.job.alpha, self.job.beta), floor)
        return min(float(costs.min()), self.worth.closer[level])

    def _costs(
        self,
        grid: CountedGrid,
        region: CountedRegion,
        level: str,
        weights: tuple[float, float],
        floor: Spread = EVERY_ONE,
    ) -> npt.NDArray[np.float64]:
        """Return what each pair (S, R) costs, both from 1 on; infinite where it is ruled out, or below a floor."""
        of_nodes = self._choices[region.choice].refuted.get(level, ())
        refuted, most = [*of_nodes, *self._refuted(level, grid)], grid.largest
        self.effort.begin()
        self.effort.take(CALL * (1 + len(refuted)) + 250 * len(grid.capacities) + 10 * most.dp * most.pp)
        s, r = np.arange(1, most.dp + 1)[:, None], np.arange(1, most.pp + 1)[None, :]
        costs = weights[0] * s + weights[1] * r
        costs[s * r < least_product(grid, squared_roots(grid))] = inf
        whole_columns = fewest_for_whole(grid.rows, grid.columns, grid.capacities)
        whole_rows = fewest_for_whole(grid.columns, grid.rows, grid.capacities)
        costs[0, : most.pp if whole_columns is None else whole_columns - 1] = inf
        costs[: most.dp if whole_rows is None else whole_rows - 1, 0] = inf
        for pair in refuted:
            costs[: pair.dp, : pair.pp] = inf
        costs[: floor.dp - 1] = costs[:, : floor.pp - 1] = inf
        return costs

    def _refuted(self, level: str, grid: CountedGrid) -> list[Spread]:
        """Return the pairs of a grid that the certificate refutes, each recounted on it."""
        if (level, grid) in self._holding:
            return self._holding[level, grid]
        holding = self._holding[level, grid] = []
        for certified in self.claims.grids:
            asked = certified.level, certified.rows, certified.columns, certified.capacities
            if asked != (level, grid.rows, grid.columns, grid.capacities):
                continue
            for claim in certified.refuted:
                pair = Spread(claim.dp, claim.pp)
                answer = recount(grid, pair, claim.by, claim.witness, self.effort)
                self.pairs.append((level, claim, answer))
                if answer.told == "holds":
                    holding.append(pair)
        return holding

    def _room(self, region: CountedRegion, level: str) -> tuple[int, int, IntArray]:
        """Return rows, columns and shape [domains], the blocks that each domain of a level takes in a region."""
        counted = self._counted(region.choice, level)
        assert counted is not None
        rows, columns, rooms = counted
        if region.domain is not None:
            rooms = np.where(self._ancestors(level, region.depth) == region.domain, rooms, 0)
        return rows, columns, rooms

    def _counted(self, choice: int, level: str) -> tuple[int, int, IntArray] | None:
        if (choice, level) not in self._rooms:
            of_nodes = self._choices[choice]
            self._rooms[choice, level] = grid_and_room(self.cluster, of_nodes.job, of_nodes.nodes, level)
        return self._rooms[choice, level]

    def _grid(self, region: CountedRegion, level: str) -> CountedGrid | None:
        """Return the grid of a region at a level, with no more and no larger domains than it has cells; ``None`` = the
        groups of the job make no grid there.
        """
        if self._counted(region.choice, level) is None:
            return None
        rows, columns, rooms = self._room(region, level)
        # a placement has a cell in each domain in use, and larger ones serve as well
        capacities = np.sort(np.minimum(rooms[rooms > 0], rows * columns))[::-1][: rows * columns]
        return CountedGrid(rows, columns, tuple(capacities.tolist()))

    def _rooms_inside(self, region: CountedRegion, level: str, above: str) -> list[IntArray]:
        """Return for each domain of the level above the blocks that closer domains in it take."""
        rooms = self._room(region, level)[2]
        inside = self._ancestors(level, self.cluster.level_index(above))
        some = np.flatnonzero(rooms > 0)
        order = some[np.argsort(inside[some], kind="stable")]
        return np.split(rooms[order], np.flatnonzero(np.diff(inside[order])) + 1)

    def _ancestors(self, level: str, depth: int) -> IndexArray:
        """Return shape [domains of a level], the domain of a broader level that each lies in."""
        at = self.cluster.level_index(level)
        ancestor: IndexArray = np.arange(len(self.cluster.levels[at]))
        for closer in reversed(self.cluster.levels[depth + 1 : at + 1]):
            ancestor = closer.parent_of[ancestor].astype(np.int64)
        return ancestor


def fewest_touched(length: int, lines: int, rooms: Sequence[IntArray]) -> int:
    """Return how many closer domains some line touches at least where each lies whole in a broader one.

    A closer domain that a line touches holds as many of its cells as the line has, or what is left: chunks, the largest
    first.  Lines that touch so many each have as many chunks together.

    :param length: cells of a line.
    :param rooms: of each broader domain the cells that closer domains in it take.
    """
    chunks = []
    for room in rooms:
        rest = room % length
        sizes = np.concatenate([np.full(int((room // length).sum()), length), np.sort(rest[rest > 0])[::-1]])
        chunks.append(np.cumsum(sizes))
    for touched in range(1, length + 1):
        whole = 0
        for cells in chunks:
            count = min(lines, int(cells[-1]) // length) if len(cells) else 0
            while count and cells[min(count * touched, len(cells)) - 1] < count * length:
                count -= 1
            whole += count
        if whole >= lines:
            return touched
    return length + 1


def _checked(claim: str, words: str, shown: bool) -> CheckedClaim:
    """Return a claim that is proved, with what was found."""
    return CheckedClaim(claim, shown, f"{words}, " + ("checked: none is less" if shown else NOT_TO_BE_CHECKED))
