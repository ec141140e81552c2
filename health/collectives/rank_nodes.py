"""Which node a rank runs on: from the records, or from a file.

The file is CSV with the header ``rank,node`` or ``host,node``; the second translates hosts as the records call them
(RAS knows addresses, the Inspector may know other names than the scheduler).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from health.collectives.recording import Member
from topology.errors import InvalidInput
from topology.files import Source
from topology.tables.bad_rows import BadRows
from topology.tables.text_rows import CsvRows


def nodes_of(members: Sequence[Member], source: Source | None = None) -> dict[int, str]:
    """Return member -> node, of those whose node is known.

    :param source: the file; ``None`` = hosts of the records are the nodes.
    :raises InvalidInput: the file cannot be used.
    """
    known = {i: member.host for i, member in enumerate(members) if member.host is not None}
    if source is None:
        return known
    key, table = _read(source)
    if key == "host":
        return {i: table.get(host, host) for i, host in known.items()}
    return known | {i: table[str(m.rank)] for i, m in enumerate(members) if str(m.rank) in table}


def _read(source: Source) -> tuple[str, Mapping[str, str]]:
    rows = CsvRows(source, BadRows(lenient=None))
    if rows.header not in (("rank", "node"), ("host", "node")):
        raise InvalidInput(
            "the header is neither rank,node nor host,node",
            where=source.at(1),
            fix="begin the file with one of the two",
        )
    key = rows.header[0]
    table: dict[str, str] = {}
    for line, cells in rows:
        if not all(cells) or (key == "rank" and not cells[0].isdecimal()):
            raise InvalidInput(
                f"is not a {key} and a node", where=source.at(line), fix="write two cells with a comma between"
            )
        name = str(int(cells[0])) if key == "rank" else cells[0]
        if table.setdefault(name, cells[1]) != cells[1]:
            raise InvalidInput(
                f"{key} {name:.60} has another node above", where=source.at(line), fix="keep one of the two"
            )
    return key, table
