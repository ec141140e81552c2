"""Whether a job stands still, and which nodes hold the others up, by counters of how far its processes have come.

A counter is of training steps, or of collectives that a process has begun.  The job stands still when none has moved
for a while: no completion in a window is a failure (Mycroft, arXiv 2509.03018).  In a synchronous job most have then
come equally far, and wait; the few that are behind them, or that fell silent, hold them up (ByteRobust, arXiv
2509.16293: dominant groups are healthy, outliers are suspects).  A pause of all, such as a checkpoint, leaves nobody
behind.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from ground.errors import few
from ground.quantities import plural
from health.peers.streams import MetricRecording
from health.peers.verdict import instant
from topology.flags import FAULTY, WARNING, NodeFlag

PROGRESS = "progress"  # The name of the metric in a recording
MOST_SUSPECTS = 2  # As two may fail by chance; where more are behind it is a switch, a network or the program


@dataclass(frozen=True, slots=True)
class Headway:
    """How far a job has come."""

    stands: bool | None  # whether it stands still; None = that cannot be told
    words: str
    since: datetime | None = None  # when anything last moved, or since when nothing is known to have
    suspects: Mapping[str, str] = field(default_factory=dict)  # node -> why it is taken to hold the others up
    gone: frozenset[str] = frozenset()  # suspects of which all of several processes are silent


def progress_of(recording: MetricRecording, nodes: Collection[str], *, until: float, quiet: float) -> Headway:
    """Return how far a job has come.

    :param recording: with the metric :data:`PROGRESS` of more than ``quiet`` seconds; a part of a node is a process.
    :param nodes: of the job; others are passed over.
    :param until: seconds since 1970 at which the recording was asked for.
    :param quiet: seconds without a move that are a standstill; who sends nothing for half of them is silent.
    """
    samples = recording.metrics[PROGRESS]
    order = np.lexsort((samples.time, samples.machine))
    rows, firsts = np.unique(samples.machine[order], return_index=True)
    level: dict[str, float] = {}  # of the process of each node that is farthest behind
    silent: dict[str, float] = {}  # when a process of it that is silent was last heard of
    parts = Counter[str]()
    moves, rising = [], 0
    for row, own in zip(rows.tolist(), np.split(order, firsts[1:]), strict=True):
        node, times, values = recording.machine_of(samples.machines[row]), samples.time[own], samples.value[own]
        if node not in nodes:
            continue
        parts[node] += 1
        if times[-1] <= until - quiet / 2.0:
            silent[node] = max(silent.get(node, 0.0), float(times[-1]))
            continue
        level[node] = min(level.get(node, np.inf), float(values[-1]))
        changes = np.flatnonzero(np.diff(values))
        # one that has only just appeared was started just now
        moves.append(float(times[changes[-1] + 1] if changes.size else times[0]))
        rising += bool(changes.size and moves[-1] > until - quiet and values[-1] > values[changes[-1]])
    if 2 * len(level) <= len(nodes):
        return Headway(None, f"how far it is is known of {len(level)} of its {plural(len(nodes), 'node')}")
    if max(moves) > until - quiet:
        # counters that fall, or are new, are those of processes that have been started: it may yet come to nothing
        moving = 2 * rising > len(moves)
        return Headway(False if moving else None, "it moves" if moving else "some of its processes move")
    (most, count), *_ = Counter(level.values()).most_common(1)
    if most == 0.0:
        return Headway(None, "it has not begun to count")
    since = instant(max(moves))
    words = f"nothing has moved for {until - max(moves):.0f} s on {plural(len(level), 'node')}"
    others = f"{count} others have come to {most:.15g}"
    suspects = {node: f"it has come to {own:.15g}, {others}" for node, own in sorted(level.items()) if own < most}
    for node, at in sorted(silent.items()):
        suspects[node] = f"it sends nothing since {instant(at):%Y-%m-%dT%H:%M:%SZ}, {others}"
    if 2 * count <= len(level):
        return Headway(True, f"{words}, which have come to {len({*level.values()})} different counts", since)
    if not suspects:
        unknown = len(nodes) - len(level)
        left = f", and nothing is known of {unknown}" if unknown else ""
        return Headway(
            True, f"{words}, all at {most:.15g}{left}: a pause, or which holds them up cannot be told", since
        )
    if len(suspects) > MOST_SUSPECTS:
        return Headway(True, f"{words}; {len(suspects)} are behind or silent, too many to be at fault", since)
    gone = frozenset(node for node in silent if node not in level and parts[node] > 1)
    return Headway(True, f"{words}; {few(suspects)}: {next(iter(suspects.values()))}", since, suspects, gone)


def standstill_flags(progress: Headway, ranks: Mapping[str, int], *, source: str, moves: bool) -> list[NodeFlag]:
    """Return the flags of the nodes that hold a job up.

    One that fell silent with all its processes is faulty.  That a process is behind may be its program's fault, so by
    itself it makes its node dearer by a warning's price; the store tells whether it is, once the rank is behind on
    another node as well.

    :param ranks: node -> the first rank on it.
    :param source: name of the detector, one for each job: rank 3 of another job is another program.
    :param moves: the rank is to move, so that its node is out of use.
    """
    flags = []
    for node, evidence in progress.suspects.items():
        faulty = moves or node in progress.gone
        flag = NodeFlag(
            node,
            "faulty" if faulty else "degraded",
            slowdown=FAULTY if faulty else WARNING,
            source=source,
            since=progress.since,
            evidence=f"its job stands still: {evidence}",
            rank=None if node in progress.gone else ranks.get(node),
            hardware=False,
        )
        flags.append(flag)
    return flags
