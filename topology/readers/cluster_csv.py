"""Our own format: a CSV with a row for each node.

``node``, then one column per level from broad to close (any names), then optional ``gpus`` (default 8), ``free_gpus``
(default gpus), ``slowdown`` (empty or 1.0 healthy, 1.3 = 30 % slower, ``faulty`` = never use), ``since`` and ``until``
(when it began and ends, with a time zone; empty = open), ``gpu_type`` (such as ``H100``; empty = not said),
``sharing`` (how the node hands out its GPUs in parts, such as ``time-slicing x4``; empty = whole), ``cache`` (names
of the images that the node has, between spaces) and ``taints`` (``KEY=VALUE:EFFECT``, as kubectl writes them, between
spaces: they keep jobs off that do not tolerate them). Columns whose name begins with ``@`` (``@power``) are second
hierarchies, wherever they stand; an empty cell = the node is in none of its domains.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches

from ground.errors import InvalidInput, InvalidTopology, TooLarge, did_you_mean
from ground.files import Source
from ground.formats import FileFormat, text_of
from ground.rows import BadRows, CsvRows
from topology.build import build_cluster, second_fault
from topology.cluster import DEFAULT_GPUS, MAX_LEVELS, MAX_NODES, SECOND, Node
from topology.flags import FAULTY, HEALTHY, FlagKind, NodeFlag, parse_slowdown
from topology.readers.reading import Reading
from topology.taints import Taint, parse_taint

NODE = "node"
GPUS, FREE_GPUS, GPU_TYPE, SHARING, CACHE = "gpus", "free_gpus", "gpu_type", "sharing", "cache"
TAINTS, TIMES = "taints", ("since", "until")
ATTRIBUTES = (GPUS, FREE_GPUS, "slowdown", *TIMES, GPU_TYPE, SHARING, CACHE, TAINTS)

_SEPARATORS = (";", "\t", "|")
_LEVELS = ("spine", "slice")  # Terms of networks that a misspelt "since" looks like
_BETWEEN = re.compile(r"[,;\t|]")
_INTEGER = re.compile(r"[-+]?[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class Table:
    """A CSV text of rows with as many cells as its header, all without surrounding space."""

    source: Source
    header: tuple[str, ...]
    header_line: int
    rows: list[list[str]]
    lines: list[int]  # of each row

    def place(self, row: int) -> str:
        """Return where a row stands."""
        return self.source.at(self.lines[row])


def read_table(source: Source) -> Table:
    """Read a CSV text of as many rows as a cluster may have nodes, each as long as the header; skip empty lines."""
    table = CsvRows(source, BadRows(lenient=None))
    rows: list[list[str]] = []
    lines: list[int] = []
    for line, row in table:
        rows.append(row)
        lines.append(line)
        if len(rows) > MAX_NODES:
            many = f"the table has more than {MAX_NODES:,} rows"
            raise TooLarge(many, where=source.name, fix="describe a part of it")
    return Table(source, table.header, table.header_line, rows, lines)


class ClusterCsv:
    """Reader of the cluster CSV."""

    format = FileFormat(
        "csv",
        source="a CSV whose first column is `node`, then a column per level",
        export="`arnold topology convert FILE --to csv`",
        read="levels, second hierarchies, GPUs and their types, use, slowdowns, images",
        left_out="",
        marks=("node,",),
    )
    chooses_levels = False

    def likeness(self, head: bytes) -> float:
        """Return whether the first column of the first line is ``node``; or nearly so, to say what is wrong with it."""
        first = _BETWEEN.split(text_of(head).lstrip().split("\n", 1)[0])[0]
        return float(first.strip(" \"'").lower() == NODE)

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the table."""
        table = read_table(source)
        if fault := _header_fault(table.header):
            raise InvalidInput(fault[0], where=source.at(table.header_line), fix=fault[1])
        tree, beside = _levels(table.header), _second(table.header)
        names, second = ([table.header[at] for at in columns] for columns in (tree, beside))
        column = {name: i for i, name in enumerate(table.header)}
        gpus_at, free_at, type_at, sharing_at, taints_at, cache_at = map(
            column.get, (GPUS, FREE_GPUS, GPU_TYPE, SHARING, TAINTS, CACHE)
        )
        nodes: list[Node] = []
        flags: list[NodeFlag] = []
        taints_of: dict[int, tuple[Taint, ...]] = {}
        cached: dict[str, set[str]] = {}
        for i, row in enumerate(table.rows):
            gpus = _integer(table, i, gpus_at, DEFAULT_GPUS)
            free = _integer(table, i, free_at, gpus)
            gpu_type, sharing = ("" if at is None else row[at] for at in (type_at, sharing_at))
            path, others = tuple(row[at] for at in tree), tuple(row[at] for at in beside)
            nodes.append(Node(row[0], path, gpus, free, gpu_type=gpu_type, second_path=others, sharing=sharing))
            if "slowdown" in column:
                since, until = (_time(table, i, column.get(name)) for name in TIMES)
                if (slowdown := _slowdown(table, i, column["slowdown"])) > HEALTHY:
                    kind: FlagKind = "faulty" if slowdown == FAULTY else "straggler"
                    flags.append(NodeFlag(row[0], kind, slowdown, source="cluster file", since=since, until=until))
            if taints_at is not None and row[taints_at]:
                taints_of[i] = _taints(table, i, taints_at)
            for image in row[cache_at].split() if cache_at is not None else ():
                if not image.isprintable():
                    odd = f"the name of an image has control characters: {image[:60]!r}"
                    raise InvalidTopology(odd, where=table.place(i), fix="use printable characters")
                cached.setdefault(image, set()).add(row[0])
        active = [flag for flag in flags if flag.active(now)]
        cluster = build_cluster(names, nodes, second=second, flags=active, where=table.place)
        left_out = f"slowdowns that do not hold now, left out: {len(flags) - len(active)}"
        notes = (left_out,) if len(active) < len(flags) else ()
        images = {image: frozenset(having) for image, having in cached.items()}
        assumed = not {GPUS, FREE_GPUS} & {*table.header}
        return Reading(cluster.with_taints(taints_of).replace(gpus_assumed=assumed, cached=images), notes)


def _levels(header: tuple[str, ...]) -> list[int]:
    """Return the columns of levels: all before the first attribute but those of second hierarchies."""
    end = next((i for i, name in enumerate(header) if name in ATTRIBUTES), len(header))
    return [i for i in range(1, end) if not header[i].startswith(SECOND)]


def _second(header: tuple[str, ...]) -> list[int]:
    """Return the columns of second hierarchies."""
    return [i for i, name in enumerate(header) if name.startswith(SECOND)]


def _header_fault(header: tuple[str, ...]) -> tuple[str, str] | None:
    """Return what is wrong with the header, and what to do about it."""
    if header[:1] != (NODE,):
        first = header[0] if header else ""
        if separator := next((mark for mark in _SEPARATORS if first.lower().startswith(f"{NODE}{mark}")), ""):
            what = "tabs" if separator == "\t" else repr(separator)
            return f"the columns are separated by {what}", "separate them by commas"
        return f"the first column is {first!r}", f"{did_you_mean(first, [NODE])}name it {NODE!r}"
    if len(_levels(header)) > MAX_LEVELS:
        return f"the table has {len(header)} columns", f"describe the tree with at most {MAX_LEVELS} levels"
    if "" in header:
        return f"column {header.index('') + 1} has no name", "name every column"
    levels = _levels(header)
    for name in (header[at] for at in levels):
        close = get_close_matches(name.lower(), ATTRIBUTES, n=1, cutoff=0.8)
        if close and name.lower() not in _LEVELS:
            alike = f"the level column {name!r} looks like the attribute {close[0]!r}"
            return alike, f"did you mean {close[0]!r}? Else give the level another name"
    rest = [name for i, name in enumerate(header) if i and i not in levels and not name.startswith(SECOND)]
    for name in rest:
        if name not in ATTRIBUTES:
            order = f"level columns come before; then only {', '.join(ATTRIBUTES)}"
            return f"unknown column {name!r} after {rest[0]!r}", f"{did_you_mean(name, ATTRIBUTES)}{order}"
    return second_fault([header[at] for at in _second(header)], [header[at] for at in levels])


def _taints(table: Table, row: int, column: int) -> tuple[Taint, ...]:
    text, node = table.rows[row][column], table.rows[row][0]
    try:
        taints = tuple(map(parse_taint, text.split()))
    except ValueError as error:
        fix = "write dedicated=vision:NoSchedule, several with spaces between them"
        raise InvalidTopology(f"a taint of node {node!r}: {error}", where=table.place(row), fix=fix) from None
    if bare := next((taint for taint in taints if not taint.effect), None):
        idle = f"the taint {bare} of node {node!r} has no effect"
        raise InvalidTopology(idle, where=table.place(row), fix=f"write {bare}:NoSchedule")
    return taints


def _time(table: Table, row: int, column: int | None) -> datetime | None:
    text = "" if column is None else table.rows[row][column]
    if column is None or not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = datetime.min
    if time.tzinfo is None:
        timeless = f"{table.header[column]} of node {table.rows[row][0]!r} is {text[:60]!r}, no time with a time zone"
        fix = "write a time such as 2026-11-17T14:00:00Z, or leave the cell empty"
        raise InvalidTopology(timeless, where=table.place(row), fix=fix)
    return time


def _integer(table: Table, row: int, column: int | None, default: int) -> int:
    text = "" if column is None else table.rows[row][column]
    if column is None or not text:
        return default
    if not _INTEGER.fullmatch(text):
        shown = repr(text if len(text) <= 60 else f"{text[:57]}...")
        odd = f"{table.header[column]} of node {table.rows[row][0]!r} is {shown}, not a whole number"
        fix = f"write a number such as {DEFAULT_GPUS}, or leave the cell empty"
        raise InvalidTopology(odd, where=table.place(row), fix=fix)
    return int(text)


def _slowdown(table: Table, row: int, column: int | None) -> float:
    text = "" if column is None else table.rows[row][column]
    if not text:
        return HEALTHY
    try:
        return parse_slowdown(text)
    except ValueError as error:
        odd = f"slowdown of node {table.rows[row][0]!r}: {error}"
        fix = "write a factor such as 1.3 (30 % slower), 'faulty', or leave the cell empty"
        raise InvalidTopology(odd, where=table.place(row), fix=fix) from None
