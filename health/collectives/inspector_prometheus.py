"""NCCL Inspector, Prometheus text: mean times of collectives since the last dump, one file for each GPU.

Read as the textfile exporter writes them, in both dialects of labels: ``node``, ``gpu``, ``comm_name``, ... (v5.1, NCCL
2.29.2 and later) and ``hostname``, ``rank``, ``comm_id``, ... (before).  There are no sequence numbers and no times of
single operations: what can be said is that a rank spends less time in the same collectives than the others of its
group, and so comes last.  That is a hint, never a flag.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median
from typing import NamedTuple

from ground.errors import InvalidInput
from ground.files import Source
from ground.formats import FileFormat
from ground.rows import BadRow, exporter_line
from health.collectives.json_fields import TaintedRanks
from health.collectives.recording import Member, RankGroup

FORMAT = FileFormat(
    "prometheus",
    source="NCCL Inspector as Prometheus text (NCCL 2.29.2 and later, and the older labels): a file a GPU",
    export="NCCL_INSPECTOR_ENABLE=1 NCCL_INSPECTOR_PROM_DUMP=1",
    read="mean time of each GPU in collectives of one communicator, operation and size",
    left_out="bandwidths, other metrics",
    marks=("nccl_collective_exec_time_microseconds",),
)

SECONDS = "nccl_collective_exec_time_microseconds"
BANDWIDTH = "nccl_bus_bandwidth_gbs"

LATE = 0.5  # Share of the others' median time inside a collective below which a member comes late
PERSISTENT = 0.75  # Share of its collectives in which it must
FEWEST = 3  # Members that a collective needs: of two it is not known which is the odd one
Task = tuple[int, str, str]  # Collectives that can be compared: of one group, one operation, one size


class _Sample(NamedTuple):
    """One value of one GPU, or rank, of a host in a communicator."""

    name: str
    host: str
    unit: str
    comm: str
    op: str
    size: str
    value: float


@dataclass(frozen=True, slots=True)
class Averages:
    """Mean times inside collectives."""

    members: tuple[Member, ...]
    groups: tuple[RankGroup, ...]
    microseconds: dict[Task, dict[int, float]]  # task -> member -> mean time inside
    notes: tuple[str, ...]


def read_prometheus(sources: Sequence[Source], *, lenient: bool = False) -> Averages:
    """Return the averages in Prometheus text files; of a series that stands twice the last value counts."""
    bad_rows = TaintedRanks(lenient=lenient)
    samples: list[_Sample] = []
    for source in sources:
        lines = enumerate(source.text.splitlines(), 1)
        told = ((number, line) for number, line in lines if line.strip() and not line.startswith("#"))
        samples += [sample for _, sample in bad_rows.keep(told, _sample, source) if sample is not None]
    if not samples:
        wrong, fix = f"holds no {SECONDS}", "run the job with NCCL_INSPECTOR_ENABLE=1 and NCCL_INSPECTOR_PROM_DUMP=1"
        raise InvalidInput(wrong, where=sources[0].name, fix=fix)
    members: dict[tuple[str, str], int] = {}
    groups: dict[str, set[int]] = defaultdict(set)
    for sample in samples:
        groups[sample.comm].add(members.setdefault((sample.host, sample.unit), len(members)))
    number_of = {comm: i for i, comm in enumerate(groups)}
    microseconds: dict[Task, dict[int, float]] = defaultdict(dict)
    for sample in samples:
        if sample.name == SECONDS:
            microseconds[number_of[sample.comm], sample.op, sample.size][members[sample.host, sample.unit]] = (
                sample.value
            )
    return Averages(
        tuple(Member(f"{host} {unit}", None, host) for host, unit in members),
        tuple(RankGroup(comm, "", tuple(sorted(of_group))) for comm, of_group in groups.items()),
        microseconds,
        bad_rows.counted(),
    )


def latecomers(averages: Averages) -> dict[int, float]:
    """Return member -> by how much less time than the others it spends inside, if it does so in most collectives."""
    tasks: Counter[int] = Counter()
    ratios: dict[int, list[float]] = defaultdict(list)
    for times in averages.microseconds.values():
        if len(times) < FEWEST:
            continue
        for member, mine in times.items():
            others = median(time for other, time in times.items() if other != member)
            tasks[member] += 1
            if others > 0 and mine <= LATE * others:
                ratios[member].append(others / max(mine, 1e-3))  # a nanosecond stands for no time at all
    return {member: median(less) for member, less in ratios.items() if len(less) >= PERSISTENT * tasks[member]}


def _sample(line: str) -> _Sample | None:
    """Return the sample of a line, ``None`` = of another metric; raise :class:`BadRow` where it cannot be used."""
    name, labels, value, _ = exporter_line(line)
    if not isfinite(value) or value < 0:
        raise BadRow(f"the value is {value!r:.40}, not a number of at least 0")
    if name not in (SECONDS, BANDWIDTH):
        return None
    host = labels.get("node") or labels.get("hostname")
    unit = labels.get("gpu") or labels.get("gpu_device_id") or (f"rank {labels['rank']}" if "rank" in labels else None)
    comm = labels.get("comm_id") or labels.get("comm_name")
    if not host or not unit or not comm or "collective" not in labels:
        raise BadRow("a label is missing: node or hostname, gpu or rank, comm_name or comm_id, collective")
    comm = f"{comm} ({labels['nranks']} ranks)" if "nranks" in labels else comm
    return _Sample(name, host, unit, comm, labels["collective"], labels.get("message_size", ""), value)
