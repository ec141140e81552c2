"""Our own format: a CSV with a row for each node.

``node``, then one column per level from broad to close (any names), then optional ``gpus`` (default 8), ``free_gpus``
(default gpus), ``slowdown`` (empty or 1.0 healthy, 1.3 = 30 % slower, ``faulty`` = never use), ``since`` and ``until``
(when it began and ends, with a time zone; empty = open), ``gpu_type`` (such as ``H100``; empty = not said),
``sharing`` (how the node hands out its GPUs in parts, such as ``time-slicing x4``; empty = whole), ``cache`` (names
of the images that the node has, between spaces), ``taints`` (``KEY=VALUE:EFFECT``, as kubectl writes them, between
spaces: they keep jobs off that do not tolerate them) and ``rails`` (network cards of the node for traffic between
nodes; empty = not said). Columns whose name begins with ``@`` (``@power``) are second hierarchies, wherever they stand;
an empty cell = the node is in none of its domains.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from itertools import islice, repeat

from ground.errors import InvalidInput, InvalidTopology, TooLarge, did_you_mean
from ground.files import Source
from ground.formats import FileFormat, text_of
from ground.records import EARLIEST, LATEST
from ground.rows import BadRows, CsvRows
from topology.build import NodeColumns, build_cluster, second_fault
from topology.cluster import DEFAULT_GPUS, MAX_LEVELS, MAX_NODES, SECOND
from topology.flags import FAULTY, HEALTHY, FlagKind, NodeFlag, parse_slowdown
from topology.readers.reading import Reading, TopologyReader
from topology.taints import Taint, parse_taint

NODE = "node"
GPUS, FREE_GPUS, GPU_TYPE, SHARING, CACHE = "gpus", "free_gpus", "gpu_type", "sharing", "cache"
TAINTS, SLOWDOWN, TIMES, RAILS = "taints", "slowdown", ("since", "until"), "rails"
ATTRIBUTES = (GPUS, FREE_GPUS, SLOWDOWN, *TIMES, GPU_TYPE, SHARING, CACHE, TAINTS, RAILS)

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
    columns: Sequence[tuple[str, ...]]  # cells of all rows, column by column
    lines: Sequence[int]  # of each row

    def place(self, row: int) -> str:
        """Return where a row stands."""
        return self.source.at(self.lines[row])

    def column(self, name: str) -> tuple[str, ...]:
        """Return the cells of a column; empty cells where the table has no such column."""
        return self.columns[self.header.index(name)] if name in self.header else ("",) * len(self.lines)

    def filled(self, name: str) -> Iterator[tuple[int, str]]:
        """Yield rows whose cell of a column is not empty, with the cell."""
        return ((row, cell) for row, cell in enumerate(self.column(name)) if cell) if name in self.header else iter(())


def read_table(source: Source) -> Table:
    """Read a CSV text of as many rows as a cluster may have nodes, each as long as the header; skip empty lines."""
    table = CsvRows(source, BadRows(lenient=None))
    columns = table.columns(MAX_NODES + 1)
    lines: Sequence[int]
    if columns is not None:
        lines = range(table.header_line + 1, table.header_line + 1 + len(columns[0]))
    else:
        table = CsvRows(source, BadRows(lenient=None))
        numbered = list(islice(table, MAX_NODES + 1))
        lines = [line for line, _ in numbered]
        columns = list(zip(*(row for _, row in numbered), strict=True)) or [()] * len(table.header)
    if len(lines) > MAX_NODES:
        many = f"the table has more than {MAX_NODES:,} rows"
        raise TooLarge(many, where=source.name, fix="describe a part of it")
    return Table(source, table.header, table.header_line, columns, lines)


class ClusterCsv(TopologyReader):
    """Reader of the cluster CSV."""

    format = FileFormat(
        "csv",
        source="a CSV whose first column is `node`, then a column per level",
        export="`arnold topology convert FILE --to csv`",
        read="levels, second hierarchies, GPUs and their types, use, slowdowns, images",
        left_out="",
        marks=("node,",),
    )

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
        names = table.columns[0]
        gpus = _integers(table, GPUS, repeat(DEFAULT_GPUS))
        free = _integers(table, FREE_GPUS, gpus)
        flags = _flags(table)
        taints = {row: _taints(table, row, cell) for row, cell in table.filled(TAINTS)}
        cached: dict[str, set[str]] = {}
        for row, cell in table.filled(CACHE):
            for image in cell.split():
                if not image.isprintable():
                    odd = f"the name of an image has control characters: {image[:60]!r}"
                    raise InvalidTopology(odd, where=table.place(row), fix="use printable characters")
                cached.setdefault(image, set()).add(names[row])
        nodes = NodeColumns(
            names,
            [table.columns[at] for at in tree],
            gpus,
            free,
            gpu_types=table.column(GPU_TYPE),
            second=[table.columns[at] for at in beside],
            sharing=dict(table.filled(SHARING)),
        )
        level_names, second = ([table.header[at] for at in columns] for columns in (tree, beside))
        active = [flag for flag in flags if flag.active(now)]
        cluster = build_cluster(level_names, nodes, second=second, flags=active, where=table.place)
        left_out = f"slowdowns that do not hold now, left out: {len(flags) - len(active)}"
        notes = (left_out,) if len(active) < len(flags) else ()
        images = {image: frozenset(having) for image, having in cached.items()}
        assumed = not {GPUS, FREE_GPUS} & {*table.header}
        cluster = cluster.with_taints(taints).replace(gpus_assumed=assumed, cached=images, rails=_rails(table))
        return Reading(cluster, notes)


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
    levels = _levels(header)
    if len(levels) > MAX_LEVELS:
        return f"the table has {len(header)} columns", f"describe the tree with at most {MAX_LEVELS} levels"
    if "" in header:
        return f"column {header.index('') + 1} has no name", "name every column"
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


def _integers(table: Table, name: str, default: Iterable[int]) -> list[int]:
    """Return a column of whole numbers; an empty cell, and all without such a column, has the default of its row."""
    cells = table.column(name)
    numbers: dict[str, int] = {}  # each way to write one is looked at once
    for cell in dict.fromkeys(cells):
        if _INTEGER.fullmatch(cell):
            numbers[cell] = int(cell)
        elif cell:
            row, shown = cells.index(cell), repr(cell if len(cell) <= 60 else f"{cell[:57]}...")
            odd = f"{name} of node {table.columns[0][row]!r} is {shown}, not a whole number"
            fix = f"write a number such as {DEFAULT_GPUS}, or leave the cell empty"
            raise InvalidTopology(odd, where=table.place(row), fix=fix)
    if "" in cells:
        return [numbers[cell] if cell else usual for cell, usual in zip(cells, default, strict=False)]
    return [numbers[cell] for cell in cells]


def _flags(table: Table) -> list[NodeFlag]:
    """Return what the slowdowns say of nodes; when it began and ends stands beside."""
    if SLOWDOWN not in table.header:
        return []
    times = [{row: _time(table, row, name, cell) for row, cell in table.filled(name)} for name in TIMES]
    flags = []
    for row, cell in table.filled(SLOWDOWN):
        node = table.columns[0][row]
        try:
            slowdown = parse_slowdown(cell)
        except ValueError as error:
            fix = "write a factor such as 1.3 (30 % slower), 'faulty', or leave the cell empty"
            raise InvalidTopology(f"slowdown of node {node!r}: {error}", where=table.place(row), fix=fix) from None
        if slowdown > HEALTHY:
            since, until = (of_row.get(row) for of_row in times)
            if since is not None and until is not None and until <= since:
                backwards = f"the slowdown of node {node!r} ends before it begins"
                raise InvalidTopology(backwards, where=table.place(row), fix="correct until, or since")
            kind: FlagKind = "faulty" if slowdown == FAULTY else "straggler"
            flags.append(NodeFlag(node, kind, slowdown, source="cluster file", since=since, until=until))
    return flags


def _rails(table: Table) -> dict[int, int]:
    """Return the network cards of each node of which they are said."""
    counts = _integers(table, RAILS, repeat(0)) if RAILS in table.header else []
    rails = {row: counts[row] for row, _ in table.filled(RAILS)}
    for row, count in rails.items():
        if count < 1:
            fix = "give its network cards for traffic between nodes, such as 8, or leave the cell empty"
            raise InvalidTopology(f"node {table.columns[0][row]!r} has {count} rails", where=table.place(row), fix=fix)
    return rails


def _taints(table: Table, row: int, cell: str) -> tuple[Taint, ...]:
    node = table.columns[0][row]
    try:
        taints = tuple(map(parse_taint, cell.split()))
    except ValueError as error:
        fix = "write dedicated=vision:NoSchedule, several with spaces between them"
        raise InvalidTopology(f"a taint of node {node!r}: {error}", where=table.place(row), fix=fix) from None
    if bare := next((taint for taint in taints if not taint.effect), None):
        idle = f"the taint {bare} of node {node!r} has no effect"
        raise InvalidTopology(idle, where=table.place(row), fix=f"write {bare}:NoSchedule")
    return taints


def _time(table: Table, row: int, name: str, cell: str) -> datetime:
    try:
        time = datetime.fromisoformat(cell)
    except ValueError:
        time = datetime.min
    if time.tzinfo is None or not EARLIEST <= time <= LATEST:
        timeless = f"{name} of node {table.columns[0][row]!r} is {cell[:60]!r}, no time with a time zone"
        fix = "write a time such as 2026-11-17T14:00:00Z, or leave the cell empty"
        raise InvalidTopology(timeless, where=table.place(row), fix=fix)
    return time
