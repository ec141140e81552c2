"""Which node a rank runs on: from the records, or from a file.

The file is CSV with the header ``rank,node`` or ``host,node``; the second translates hosts as the records call them
(RAS knows addresses, the Inspector may know other names than the scheduler).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence

from health.collectives.recording import Member
from topology.errors import InvalidInput
from topology.files import Source


def nodes_of(members: Sequence[Member], source: Source | None = None) -> dict[int, str]:
    """Member -> node, of those whose node is known.

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
    rows = csv.reader(source.text.splitlines())
    header = [name.strip() for name in next(rows, [])]
    if header not in (["rank", "node"], ["host", "node"]):
        raise InvalidInput(
            "the header is neither rank,node nor host,node",
            where=source.at(1),
            fix="begin the file with one of the two",
        )
    table: dict[str, str] = {}
    for number, row in enumerate(rows, 2):
        if not row:
            continue
        cells = [cell.strip() for cell in row]
        if len(cells) != 2 or not all(cells) or (header[0] == "rank" and not cells[0].isdecimal()):
            raise InvalidInput(
                f"is not a {header[0]} and a node", where=source.at(number), fix="write two cells with a comma between"
            )
        name = str(int(cells[0])) if header[0] == "rank" else cells[0]
        if table.setdefault(name, cells[1]) != cells[1]:
            raise InvalidInput(
                f"{header[0]} {name:.60} has another node above", where=source.at(number), fix="keep one of the two"
            )
    return header[0], table
