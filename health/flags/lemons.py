"""Repeat offenders: nodes on which jobs fail more than elsewhere over weeks, by the history of jobs alone.

Such nodes pass their tests and still cost jobs; Meta's study of its clusters calls them lemons (arXiv 2410.21680).
How often jobs of a program and size fail elsewhere says how many failures each node should have seen.  That a node saw
so many or more by chance is the tail of a Poisson distribution, taken times the number of nodes (Bonferroni).  A
program that fails again on the same nodes within a day counts once, and failures of fewer than three programs never
accuse.  Neighbours of a lemon share its jobs: it is taken out before the next is sought.

A history of incidents alone, of gangs that stood still, names the nodes that held them up, and not what ran well.  All
nodes are then taken to be used alike, a busy one at most twice as much, and the incidents of the others say how many a
node should have seen.  Of 300 made clusters each none was accused where use differs twofold, and at most 8 where it is
log-normal of 0.5; clusters of which some nodes are used ten times as much are beyond it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ground.quantities import number
from ground.records import JsonRecord
from topology.flags import WARNING, NodeFlag

NOT_ALIKE = 2.0  # Times as many incidents as nodes have in the mean that a busy one may have
LEVEL = 0.01  # Chance that any node of a healthy cluster is accused; 0 of 50 made ones were, and 2 at 0.05
LEAST_FAILURES, LEAST_PROGRAMS = 3, 3  # Fewer tell nothing of a node
SHRUNK = 5.0  # Jobs of its size by which the failures of a program that ran seldom are judged as well
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class JobRun:
    """A run of a job that came to an end of its own."""

    nodes: tuple[str, ...]
    program: str  # who ran what, such as user and name
    ended: float  # seconds since 1970
    failed: bool


class Lemon(JsonRecord):
    """A node on which jobs fail too often."""

    node: str
    """Name of the node."""
    failed: int
    """Jobs that failed there; a program within a day counts once."""
    runs: int
    """Jobs that ran there, counted alike."""
    programs: int
    """Programs that failed there."""
    expected: float
    """Failures to be expected of these jobs by how often their programs fail elsewhere."""
    chance: float
    """How likely a healthy cluster has a node with as many, at most."""

    def flag(self) -> NodeFlag:
        """Return it as a warning."""
        evidence = (
            f"{self.failed} of {self.runs} jobs failed here, of {self.programs} programs, where "
            f"{number(self.expected)} would by what these do elsewhere (by chance {self.chance:.1g}, of all nodes)"
        )
        return NodeFlag(self.node, "degraded", WARNING, source="lemons", evidence=evidence)


def lemons(runs: Sequence[JobRun]) -> list[Lemon]:
    """Return the nodes on which jobs fail too often, the worst first."""
    left, found = list(runs), []
    nodes = len({node for run in runs for node in run.nodes})
    while (worst := _worst(left, nodes)) is not None:
        found.append(worst)
        left = [run for run in left if worst.node not in run.nodes]
    return found


def lemons_of_incidents(incidents: Sequence[JobRun], nodes: int) -> list[Lemon]:
    """Return the nodes that hold gangs up too often, the worst first.

    :param incidents: each with the nodes that held it up alone.
    :param nodes: how many the cluster has.
    """
    once = {(run.program, node, int(run.ended // DAY)) for run in incidents for node in run.nodes}
    of_node: dict[str, Counter[str]] = defaultdict(Counter)
    for program, node, _ in once:
        of_node[node][program] += 1
    found: list[Lemon] = []
    for node, programs in sorted(of_node.items(), key=lambda item: (-item[1].total(), item[0])):
        failed, others = programs.total(), sum(of.total() for of in of_node.values()) - sum(it.failed for it in found)
        expected = NOT_ALIKE * (others - failed + 1) / max(nodes - len(found) - 1, 1)
        chance = min(1.0, nodes * poisson_tail(failed, expected))
        if failed < LEAST_FAILURES or len(programs) < LEAST_PROGRAMS or chance > LEVEL:
            continue
        found.append(Lemon(node, failed, failed, len(programs), round(expected, 3), chance))
    return found


def _worst(runs: Sequence[JobRun], nodes: int) -> Lemon | None:
    """Return the node that is least likely healthy, if any is a lemon; ``nodes``: how many there are to choose from."""
    # what a program did on the same nodes within a day is one run, which failed if any did
    once: dict[tuple[str, tuple[str, ...], int], bool] = defaultdict(bool)
    for run in runs:
        once[run.program, run.nodes, int(run.ended // DAY)] |= run.failed
    by_size: dict[int, Counter[bool]] = defaultdict(Counter)
    by_program: dict[tuple[str, int], Counter[bool]] = defaultdict(Counter)
    on_node: dict[str, dict[tuple[str, int], Counter[bool]]] = defaultdict(lambda: defaultdict(Counter))
    for (program, names, _), bad in once.items():
        size = len(names).bit_length()
        by_size[size][bad] += 1
        by_program[program, size][bad] += 1
        for node in names:
            on_node[node][program, size][bad] += 1
    odd = []
    for node, own in on_node.items():
        failed, count = sum(of[True] for of in own.values()), sum(of.total() for of in own.values())
        programs = len({program for (program, _), of in own.items() if of[True]})
        if failed < LEAST_FAILURES or programs < LEAST_PROGRAMS:
            continue
        expected = 0.0
        for key, of in own.items():
            elsewhere, sized = by_program[key] - of, by_size[key[1]]
            usual = sized[True] / sized.total()
            expected += of.total() * (elsewhere[True] + SHRUNK * usual) / (elsewhere.total() + SHRUNK)
        chance = min(1.0, nodes * poisson_tail(failed, expected))
        odd.append(Lemon(node, failed, count, programs, round(expected, 3), chance))
    worst = min(odd, key=lambda lemon: (lemon.chance, lemon.expected - lemon.failed, lemon.node), default=None)
    return worst if worst is not None and worst.chance <= LEVEL else None


def poisson_tail(least: int, mean: float) -> float:
    """Return how likely a Poisson variable of this mean, above 0, is at least so large."""
    first = math.exp(least * math.log(mean) - mean - math.lgamma(least + 1))
    term, total = first, 0.0
    for k in range(least + 1, least + 1_000):
        total += term
        term *= mean / k
        if term < 1e-17 * total:
            break
    return min(1.0, total)
