"""Which node, link or switch makes pairs of nodes slow: group testing with noise.

A fault slows the pairs whose path leads over it: a node's, all of its own; a domain's uplink, those that leave the
domain; its switch, those that leave it or meet in it; the whole domain, all that have an end in it.  Bandwidths are
compared as logarithms with what is usual, in units of their noise, and no pair counts for more than
:data:`MOST_OF_PAIR`, as a single test fails for many reasons; that a path is slow and a test over it is not, is
unlikelier still.  Faults are added while they explain more than chance
among all candidates does; of each it is then asked what else would explain as much.  Faults that slow the same of the
tested pairs cannot be told apart, and are all named as possible.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ground.groups import grouped
from health.collectives.diagnosis import ORDER, Certainty
from topology.cluster import Cluster

FaultKind = Literal["node", "link", "switch", "domain"]
KINDS: tuple[FaultKind, ...] = ("node", "link", "switch", "domain")  # The plainest first

MOST_OF_PAIR = 18.0  # Log-likelihood that one pair counts for at most: that of six standard deviations
TOO_FAST = 2.0  # Times that for a test that is faster than a fault on its path lets it be: tests fail, and never excel
USUAL_NOISE = 0.03  # Standard deviation of a repeated test, as a share; few tests that vary less show nothing of it
FEW_PAIRS = 20  # From which on the noise is measured and not assumed
EVIDENCE = 12.0  # Log-likelihood that a fault must explain beyond the logarithm of the number of candidates
APART = 5.0  # By so much another explanation must be worse: 150 times
SURE = 10.0  # By so much, for a certain one
LEAST = math.log(1.06)  # Log-factor of the weakest fault that is named: less is what healthy nodes differ by
DISTANCE = 5.0  # Log-likelihood by which faults must explain more than different bandwidths at different distances do
NOTABLE = math.log(1.15)  # Log-factor from which on a distance is called slower
MOST_FAULTS = 16
MOST_ALIKE = 16  # Faults that cannot be told apart and are all named
LOWEST = 0.01  # Share of the usual bandwidth that a failed test counts as
FAILED = 1e-9  # Bandwidth up to which a test has failed, GB/s


class Pair(NamedTuple):
    """One test: two nodes and the bus bandwidth between them, GB/s; 0 = it failed."""

    a: str
    b: str
    bandwidth: float


@dataclass(frozen=True, slots=True)
class Place:
    """A node or a part of the network that may be slow."""

    kind: FaultKind
    name: str  # of the node, or of the domain
    above: str = ""  # of a link, the domain that it leads to

    def __str__(self) -> str:
        return f"{self.name} - {self.above}" if self.kind == "link" else self.name


@dataclass(frozen=True, slots=True)
class PairSuspect:
    """A place that is suspected."""

    place: Place
    sure: Certainty
    factor: float  # times as long as usual that a transfer over it takes
    pairs: tuple[int, ...]  # rows of tests that it slows


@dataclass(frozen=True, slots=True)
class Findings:
    """What tests of pairs show."""

    suspects: tuple[PairSuspect, ...]
    cleared: tuple[str, ...]  # nodes of a pair as fast as any
    unknown: tuple[str, ...]  # nodes of which no test says anything: each of their pairs leads over a fault elsewhere
    unexplained: tuple[int, ...] = ()  # rows of tests that are slow beyond chance and lead over nothing suspected
    notes: tuple[str, ...] = ()  # what pairs cannot tell


@dataclass
class Bench:
    """Tests of pairs, with the candidates whose faults would slow each of them."""

    pairs: Sequence[Pair]
    places: list[Place]
    rows: list[npt.NDArray[np.intp]]  # of each place, the pairs that it would slow
    logs: npt.NDArray[np.float64]  # of each pair, the logarithm of its bandwidth
    gap: npt.NDArray[np.float64]  # of each pair, that of its share of the usual bandwidth
    noise: float
    meet: npt.NDArray[np.intp]  # of each pair, the number of levels at which its ends share a domain
    alike: dict[int, list[int]] = field(default_factory=dict)  # the first of places with the same rows -> all of them
    # of each pair, the first of places that would slow it
    over: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    @property
    def ran(self) -> npt.NDArray[np.bool_]:
        """Which tests did not fail: what is usual is theirs."""
        return self.logs > math.log(FAILED)

    def usual_by_distance(self) -> dict[int, float]:
        """Return the usual logarithm of pairs that share so many levels, where they are many."""
        alike = {int(depth): self.logs[self.ran & (self.meet == depth)] for depth in np.unique(self.meet)}
        return {depth: _usual(logs) for depth, logs in alike.items() if len(logs) >= FEW_PAIRS // 2}

    def cost(self, rows: npt.NDArray[np.intp], expected: npt.NDArray[np.float64]) -> float:
        """Return the negative log-likelihood of pairs, given the logarithms that they are expected to have."""
        off = (self.gap[rows] - expected) / self.noise
        most = np.where((off > 0) & (expected < 0), TOO_FAST * MOST_OF_PAIR, MOST_OF_PAIR)
        return float(np.minimum(off**2 / 2, most).sum())

    def expected(self, faults: dict[int, float]) -> npt.NDArray[np.float64]:
        """Return what each pair is expected to have: the slowest part of its path counts."""
        expected = np.zeros(len(self.pairs))
        for place, level in faults.items():
            expected[self.rows[place]] = np.minimum(expected[self.rows[place]], level)
        return expected

    def best(self, place: int, expected: npt.NDArray[np.float64]) -> tuple[float, float]:
        """Return how much a fault explains beyond what is expected, and its level, the logarithm of a share."""
        rows = self.rows[place]
        slow = self.gap[rows][self.gap[rows] < expected[rows] - 2 * self.noise]
        if not len(slow):
            return 0.0, 0.0
        level = median(slow.tolist())
        if level > -LEAST:
            return 0.0, 0.0
        return self.cost(rows, expected[rows]) - self.cost(rows, np.minimum(expected[rows], level)), level

    def gains(self, faults: dict[int, float]) -> dict[int, tuple[float, float]]:
        """Return what each place explains beyond some faults, of those whose fault would slow a pair that is slower
        than they make it.
        """
        expected = self.expected(faults)
        slow = np.flatnonzero(self.gap < expected - 2 * self.noise).tolist()
        places = dict.fromkeys(place for row in slow for place in self.over[row] if place not in faults)
        return {place: self.best(place, expected) for place in places}


def crossed(cluster: Cluster, depth: int, a: int, b: int) -> Iterator[tuple[FaultKind, int]]:
    """Yield the parts of a level that lie on the path between two nodes: what of which domain."""
    level = cluster.levels[depth]
    below = cluster.levels[depth + 1].domain_of if depth + 1 < len(cluster.levels) else None
    one, other = int(level.domain_of[a]), int(level.domain_of[b])
    for domain in {one, other}:
        if level.implicit[domain]:
            continue
        yield "domain", domain
        if one != other:
            yield "link", domain
        if below is None or below[a] != below[b]:
            yield "switch", domain


def bench_of(pairs: Sequence[Pair], cluster: Cluster | None) -> Bench:
    """Return the tests with all places that may be slow.

    :raises UnknownName: the cluster has no node of a name.
    """
    of_place: dict[Place, list[int]] = defaultdict(list)
    for row, pair in enumerate(pairs):
        of_place[Place("node", pair.a)].append(row)
        of_place[Place("node", pair.b)].append(row)
    meet = np.zeros(len(pairs), dtype=np.intp)  # levels at which both ends of a pair share a domain
    if cluster is not None:
        ends = [(cluster.index(pair.a), cluster.index(pair.b)) for pair in pairs]
        for depth, level in enumerate(cluster.levels):
            for row, (a, b) in enumerate(ends):
                meet[row] += level.domain_of[a] == level.domain_of[b]
                for kind, domain in crossed(cluster, depth, a, b):
                    up = ""
                    if kind == "link":
                        up = cluster.levels[depth - 1].domains[level.parent_of[domain]] if depth else "the core"
                    of_place[Place(kind, level.domains[domain], up)].append(row)
    groups = grouped((tuple(rows), place) for place, rows in of_place.items())
    logs = np.log(np.maximum([pair.bandwidth for pair in pairs], FAILED))
    bench = Bench(pairs, [], [], logs, np.zeros(len(pairs)), USUAL_NOISE, meet)
    for rows_of, same in groups.items():
        # a node alone in its domain stands for it, and an uplink for a switch of which no test tells it apart
        plainest = min(KINDS.index(place.kind) for place in same)
        members = [place for place in same if place.kind == KINDS[plainest]]
        first = len(bench.places)
        bench.alike[first] = [*range(first, first + len(members))]
        for row in rows_of:
            bench.over[row].append(first)
        bench.places += members
        bench.rows += [np.array(rows_of)] * len(members)
    return bench


def _slower_afar(bench: Bench, cluster: Cluster) -> tuple[str, ...]:
    """Return sentences about distances at which all pairs are slower than those that are closer."""
    usual = bench.usual_by_distance()
    fastest = max(usual.values(), default=0.0)
    return tuple(
        f"all pairs of different {cluster.levels[depth].name} domains are {math.exp(fastest - level):.2f} times slower "
        "than closer ones: the network is built so, or a fault that all share makes it so, which pairs cannot tell"
        for depth, level in usual.items()
        if depth < len(cluster.levels) and fastest - level > NOTABLE
    )


def _compare(bench: Bench, *, by_distance: bool) -> None:
    """Set what each pair has of the usual bandwidth: of all pairs, or of those as far apart where they are many."""
    usual = np.full(len(bench.pairs), _usual(bench.logs[bench.ran]))
    for depth, level in bench.usual_by_distance().items() if by_distance else ():
        usual[bench.meet == depth] = level
    bench.gap = np.maximum(bench.logs - usual, math.log(LOWEST))
    above = bench.gap[bench.gap > 0]
    # noise is seen above the usual alone, as faults are below; the median of a half normal is .6745 of its deviation
    if by_distance:
        measured = median(above.tolist()) / 0.6745 if len(above) >= FEW_PAIRS else USUAL_NOISE
        bench.noise = max(measured, USUAL_NOISE)


def _explain(bench: Bench, need: float) -> tuple[dict[int, float], float]:
    """Return faults that explain the tests, each with its level, and what they and all that is unexplained cost."""
    faults: dict[int, float] = {}
    while len(faults) < MOST_FAULTS:
        gains = bench.gains(faults)
        place = max(gains, key=lambda place: gains[place][0], default=None)
        if place is None or gains[place][0] < need:
            break
        faults[place] = gains[place][1]
        for other in list(faults):  # what a later one explains too
            rest = bench.expected({fault: level for fault, level in faults.items() if fault != other})
            if bench.best(other, rest)[0] < need:
                del faults[other]
        if place not in faults:
            break
    every = np.arange(len(bench.pairs))
    return faults, bench.cost(every, bench.expected(faults)) + need * len(faults)


def _usual(values: npt.NDArray[np.float64]) -> float:
    """Return the logarithm that pairs usually have: the middle of the fastest ones, for half of all may be slow."""
    usual = float(np.quantile(values, 0.9))
    for _ in range(5):
        near = values[np.abs(values - usual) < 3 * USUAL_NOISE]
        usual = median(near.tolist()) if len(near) else float(values.max())
    return usual


def findings_of(pairs: Sequence[Pair], cluster: Cluster | None = None) -> Findings:
    """Return the places that make pairs slow, the surest first.

    :param cluster: ``None`` = the network is not known: nodes alone are suspected.
    :raises UnknownName: the cluster has no node of a name.
    """
    if not any(pair.bandwidth > FAILED for pair in pairs):  # nothing is usual
        return Findings((), (), tuple(sorted({name for pair in pairs for name in (pair.a, pair.b)})))
    bench = bench_of(pairs, cluster)
    need = EVIDENCE + math.log(len(bench.places))
    _compare(bench, by_distance=True)
    faults, cost = _explain(bench, need)
    notes: tuple[str, ...] = ()
    if cluster is not None and cluster.levels:
        slower = _slower_afar(bench, cluster)
        _compare(bench, by_distance=False)
        # one fault that explains all is likelier than a network that is built so and many faults
        of_all, cost_of_all = _explain(bench, need)
        if cost_of_all + (DISTANCE if slower else 0.0) < cost:
            faults = of_all
        else:
            _compare(bench, by_distance=True)
            notes = slower
    suspects, near = [], set[int]()
    for place in faults:
        rest = {fault: level for fault, level in faults.items() if fault != place}
        gain, level = bench.best(place, bench.expected(rest))
        others = {other: better for other, (better, _) in bench.gains(rest).items() if other not in faults}
        rivals = sorted((other for other in others if others[other] > gain - APART), key=lambda o: -others[o])
        named = [member for rival in (place, *rivals) for member in bench.alike[rival]][:MOST_ALIKE]
        near.update(named)
        margin = gain - max(others.values(), default=0.0)
        alone: Certainty = "certain" if margin > SURE and len(bench.rows[place]) > 1 else "likely"
        for member in named:
            rows = tuple(bench.rows[member][bench.gap[bench.rows[member]] < level / 2].tolist())
            sure: Certainty = alone if len(named) == 1 else "possible"
            suspects.append(PairSuspect(bench.places[member], sure, math.exp(-level), rows))
    unique = {suspect.place: suspect for suspect in sorted(suspects, key=lambda s: -ORDER[s.sure])}
    ranked = sorted(unique.values(), key=lambda suspect: (ORDER[suspect.sure], -suspect.factor))
    guilty = {bench.places[place].name for place in near if bench.places[place].kind == "node"}
    apart, slow = bench.expected(faults) == 0, bench.gap <= -4 * bench.noise
    fast = {name for row in np.flatnonzero(apart & ~slow).tolist() for name in (pairs[row].a, pairs[row].b)}
    every = {name for pair in pairs for name in (pair.a, pair.b)} - guilty
    # a test that was fast when it was made again was slow by chance
    well = {frozenset(pairs[row][:2]) for row in np.flatnonzero(~slow).tolist()}
    unexplained = tuple(row for row in np.flatnonzero(apart & slow).tolist() if frozenset(pairs[row][:2]) not in well)
    return Findings(tuple(ranked), tuple(sorted(fast - guilty)), tuple(sorted(every - fast)), unexplained, notes)
