"""NCCL Inspector, Prometheus text: mean times of collectives since the last dump, one file for each GPU.

Read as the textfile exporter writes them, in both dialects of labels: ``node``, ``gpu``, ``comm_name``, ... (v5.1, NCCL
2.29.2 and later) and ``hostname``, ``rank``, ``comm_id``, ... (before).  There are no sequence numbers and no times of
single operations: what can be said is who spends less time in the same collectives than the others of its group, which
is who comes last.  That is a hint, never a flag.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median
from typing import NamedTuple

from health.collectives.json_fields import TaintedRanks
from health.collectives.recording import Member, RankGroup
from topology.errors import InvalidInput
from topology.files import Source
from topology.tables.bad_rows import BadRow

SECONDS = "nccl_collective_exec_time_microseconds"
BANDWIDTH = "nccl_bus_bandwidth_gbs"

LATE = 0.5
"""Share of the others' median time inside a collective below which a member comes late."""

PERSISTENT = 0.75
"""Share of its collectives in which it must."""

_LINE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+(-?\d+))?\s*")
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"\s*(?:,|$)')


class Task(NamedTuple):
    """Collectives that can be compared: of one group, one operation, one size."""

    group: int
    op: str
    size: str


@dataclass(frozen=True, slots=True)
class Averages:
    """Mean times inside collectives.

    :param microseconds: task -> member -> mean time inside.
    :param bandwidth: task -> member -> bus bandwidth, GB/s.
    """

    members: tuple[Member, ...]
    groups: tuple[RankGroup, ...]
    microseconds: dict[Task, dict[int, float]]
    bandwidth: dict[Task, dict[int, float]]
    notes: tuple[str, ...] = ()


def read_prometheus(sources: Sequence[Source], *, lenient: bool = False) -> Averages:
    """Return the averages in Prometheus text files; of a series that stands twice the last value counts.

    :param lenient: drop lines that cannot be used, and say how many.
    :raises InvalidInput: a line cannot be used; no collective in the files.
    """
    rows = TaintedRanks(lenient=lenient)
    samples: list[tuple[str, dict[str, str], float]] = []
    for source in sources:
        for number, line in enumerate(source.text.splitlines(), 1):
            if not line or line.isspace() or line.startswith("#"):
                continue
            try:
                name, labels, value = _sample(line)
                if name in (SECONDS, BANDWIDTH):
                    _identity(labels)
                    samples.append((name, labels, value))
            except BadRow as bad:
                rows.refuse(bad, source.at(number))
    if not samples:
        raise InvalidInput(
            f"holds no {SECONDS}",
            where=sources[0].name,
            fix="run the job with NCCL_INSPECTOR_ENABLE=1 and NCCL_INSPECTOR_PROM_DUMP=1",
        )
    return _averages(samples, rows.counted())


def latecomers(averages: Averages) -> dict[int, float]:
    """Return member -> by how much less time than the others it spends inside, if it does so in most collectives."""
    low: Counter[int] = Counter()
    of: Counter[int] = Counter()
    ratio: dict[int, list[float]] = defaultdict(list)
    for times in averages.microseconds.values():
        if len(times) < 3:
            continue
        for member, mine in times.items():
            others = median(time for other, time in times.items() if other != member)
            of[member] += 1
            if others > 0 and mine <= LATE * others:
                low[member] += 1
                ratio[member].append(others / max(mine, 1e-3))
    return {member: median(ratio[member]) for member, count in low.items() if count >= PERSISTENT * of[member]}


def _averages(samples: Sequence[tuple[str, dict[str, str], float]], notes: tuple[str, ...]) -> Averages:
    members: dict[tuple[str, str], int] = {}
    groups: dict[str, set[int]] = defaultdict(set)
    for _, labels, _ in samples:
        host, unit, comm = _identity(labels)
        groups[comm].add(members.setdefault((host, unit), len(members)))
    number_of = {comm: i for i, comm in enumerate(groups)}
    microseconds: dict[Task, dict[int, float]] = defaultdict(dict)
    bandwidth: dict[Task, dict[int, float]] = defaultdict(dict)
    for name, labels, value in samples:
        host, unit, comm = _identity(labels)
        task = Task(number_of[comm], labels["collective"], labels.get("message_size", ""))
        (microseconds if name == SECONDS else bandwidth)[task][members[host, unit]] = value
    found = tuple(Member(f"{host} {unit}", None, host) for host, unit in members)
    made = tuple(RankGroup(comm, "", tuple(sorted(who))) for comm, who in groups.items())
    return Averages(found, made, dict(microseconds), dict(bandwidth), notes)


def _identity(labels: dict[str, str]) -> tuple[str, str, str]:
    """Return host, GPU or rank on it, and communicator.

    :raises BadRow: a label is missing.
    """
    host = labels.get("node") or labels.get("hostname")
    unit = labels.get("gpu") or labels.get("gpu_device_id") or (f"rank {labels['rank']}" if "rank" in labels else None)
    comm = labels.get("comm_id") or labels.get("comm_name")
    if not host or not unit or not comm or "collective" not in labels:
        raise BadRow("a label is missing: node or hostname, gpu or rank, comm_name or comm_id, collective")
    return host, unit, f"{comm} ({labels['nranks']} ranks)" if "nranks" in labels else comm


def _sample(line: str) -> tuple[str, dict[str, str], float]:
    match = _LINE.fullmatch(line)
    if match is None:
        raise BadRow("is not a line of Prometheus text")
    name, inner, number = match.group(1), match.group(2) or "", match.group(3)
    labels, here = {}, 0
    while here < len(inner):
        label = _LABEL.match(inner, here)
        if label is None:
            raise BadRow('the labels are not a list of name="value"')
        labels[label.group(1)], here = label.group(2), label.end()
    try:
        value = float(number)
    except ValueError:
        raise BadRow(f"the value is {number!r:.40}, not a number") from None
    if not isfinite(value) or value < 0:
        raise BadRow(f"the value is {number!r:.40}, not a number of at least 0")
    return name, labels, value
