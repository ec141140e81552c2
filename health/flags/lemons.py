"""Repeat offenders: nodes on which jobs fail more than elsewhere over weeks, by the history of jobs alone.

Such nodes pass their tests and still cost jobs; Meta's study of its clusters calls them lemons (arXiv 2410.21680).
How often jobs of a program and size fail elsewhere says how many failures each node should have seen.  That a node saw
so many or more by chance is the tail of a negative binomial distribution, since the rate elsewhere is known the less
the fewer ran there, taken times the number of nodes (Bonferroni).  What a program does on the same nodes after it
failed there within a day does not count, and failures of fewer than three programs never accuse.  Neighbours of a lemon
share its jobs: it is taken out before the next is sought.  How often a node is used is no evidence: of 840 healthy
clusters, used evenly up to a use of 1/k by the k-th node, none had a lemon.

A history of incidents alone, of gangs that stood still, names the nodes that held them up, and not what ran well.  How
unevenly nodes are used is then told by the incidents of the others: their spread beyond that of chance, doubled as it
rests on few, makes the tail that of a negative binomial distribution.  Of 1,200 healthy clusters of 50 to 1,000 nodes
none has a lemon where use is even or differs twofold, 2 where it is log-normal of 0.5, 39 of 1; of 900 with 200 nodes
and more 5, where one in twenty is used ten times as much, and of 300 with 50 nodes 33.  A use of 1/k is beyond it: then
ask the accounting, which knows what ran well.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from ground.quantities import number
from ground.records import JsonRecord
from topology.flags import WARNING, NodeFlag

UNEVEN = 0.5  # Least variance of the nodes' use over its mean squared; of a use that differs twofold it is .04
DOUBTED = 2.0  # Times the variance that a few incidents show: the nodes used most are too few to show it
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
    """Jobs that ran there, less what a program did within a day after it failed there."""
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
    left, found = _tries(runs), []
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
    of_node: dict[str, Counter[str]] = defaultdict(Counter)
    for trial in _tries([replace(incident, nodes=(node,)) for incident in incidents for node in incident.nodes]):
        of_node[trial.nodes[0]][trial.program] += 1
    found: list[Lemon] = []
    others = {node: programs.total() for node, programs in of_node.items()}
    for node, programs in sorted(of_node.items(), key=lambda item: (-item[1].total(), item[0])):
        failed, count = others.pop(node), max(nodes - len(found) - 1, 1)
        mean = sum(others.values()) / count
        variance = sum(seen * seen for seen in others.values()) / count - mean * mean
        uneven = max(UNEVEN, DOUBTED * (variance - mean) / (mean * mean) if mean else 0.0)
        expected = mean + 1 / count
        chance = min(1.0, nodes * mixed_tail(failed, expected, uneven))
        if failed < LEAST_FAILURES or chance > LEVEL:
            break  # none of those with fewer is one
        if len(programs) < LEAST_PROGRAMS:
            others[node] = failed
            continue
        found.append(Lemon(node, failed, failed, len(programs), round(expected, 3), chance))
    return found


def _tries(runs: Sequence[JobRun]) -> list[JobRun]:
    """Return runs without those of a program that failed on the same nodes before within the day: one trial each, so
    that a node on which more is run has no larger share of failures.
    """
    failed, tries = dict[tuple[str, tuple[str, ...]], float](), []
    for run in sorted(runs, key=attrgetter("ended")):
        key = (run.program, run.nodes)
        if run.ended - failed.get(key, -math.inf) < DAY:
            continue
        if run.failed:
            failed[key] = run.ended
        tries.append(run)
    return tries


def _worst(runs: Sequence[JobRun], nodes: int) -> Lemon | None:
    """Return the node that is least likely healthy, if any is a lemon; ``nodes``: how many there are to choose from."""
    by_size: dict[int, Counter[bool]] = defaultdict(Counter)
    by_program: dict[tuple[str, int], Counter[bool]] = defaultdict(Counter)
    on_node: dict[str, dict[tuple[str, int], Counter[bool]]] = defaultdict(lambda: defaultdict(Counter))
    for run in runs:
        size = len(run.nodes).bit_length()
        by_size[size][run.failed] += 1
        by_program[run.program, size][run.failed] += 1
        for node in run.nodes:
            on_node[node][run.program, size][run.failed] += 1
    odd = []
    for node, own in on_node.items():
        failed, count = sum(of[True] for of in own.values()), sum(of.total() for of in own.values())
        programs = len({program for (program, _), of in own.items() if of[True]})
        if failed < LEAST_FAILURES or programs < LEAST_PROGRAMS:
            continue
        expected = variance = 0.0
        for key, of in own.items():
            elsewhere, sized = by_program[key] - of, by_size[key[1]]
            failures = elsewhere[True] + SHRUNK * sized[True] / sized.total()
            each = of.total() / (elsewhere.total() + SHRUNK)  # jobs here for one elsewhere
            expected += each * failures
            variance += each * each * failures
        chance = min(1.0, nodes * mixed_tail(failed, expected, variance / (expected * expected)))
        odd.append(Lemon(node, failed, count, programs, round(expected, 3), chance))
    worst = min(odd, key=lambda lemon: (lemon.chance, lemon.expected - lemon.failed, lemon.node), default=None)
    return worst if worst is not None and worst.chance <= LEVEL else None


def mixed_tail(least: int, mean: float, uneven: float) -> float:
    """Return how likely a Poisson variable is at least so large whose mean, above 0, varies from one to the next as a
    gamma distribution does, by ``uneven`` times its square: a negative binomial distribution; 0 = it does not vary.
    """
    log = least * math.log(mean) - math.lgamma(least + 1)
    grown = 1.0 + uneven * mean
    # k-th factor of the rising product (1)(1 + uneven)(1 + 2 uneven)...
    log += sum(math.log1p(uneven * k) for k in range(least)) - least * math.log(grown)
    log -= math.log(grown) / uneven if uneven else mean
    term, total = math.exp(log), 0.0
    for k in range(least, least + 10_000):
        total += term
        term *= mean * (1.0 + uneven * k) / ((k + 1) * grown)
        if term < 1e-17 * total:
            break
    return min(1.0, total)
