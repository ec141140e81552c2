"""What the ranks of a group called under each number, and the first of which they do not agree.

All members of a group must call the same collectives in the same order, and most of them with equally many elements of
the same type.  Where they do not, the job hangs, fails or computes nonsense: the program's mistake.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from health.collectives.flight_recorder_dump import Entry
from health.collectives.stalls import Disagreement

Call = tuple[tuple[str, ...], tuple[str, ...]]  # Operations under one number, several where coalesced; their sizes


class Differing(NamedTuple):
    """A number under which ranks called different things."""

    seq: int
    kind: Disagreement
    op: str  # what most called
    others: dict[int, str]  # rank -> what it called instead; every rank where no call is that of most
    common: str  # what most called, with its size where that differs
    over: bool  # events of the device have shown that it is over on every rank


def differing(entries: Mapping[int, Sequence[Entry]]) -> Iterator[Differing]:
    """Yield the numbers under which the ranks (rank -> what it enqueued in one group) do not agree, in order."""
    under: dict[int, dict[int, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for rank, mine in entries.items():
        for entry in mine:
            under[entry.seq][rank].append(entry)
    for seq, by_rank in sorted(under.items()):
        # The beginning of what was coalesced may be overwritten on some ranks.
        kept = min(map(len, by_rank.values()))
        calls = {rank: _call(mine[-kept:]) for rank, mine in sorted(by_rank.items())}
        if len(set(calls.values())) == 1:
            continue
        ops = {rank: call[0] for rank, call in calls.items()}
        kind: Disagreement = "crossed-order"
        shown = {rank: ", ".join(call) for rank, call in ops.items()}
        if len(set(ops.values())) == 1:
            columns = [set(column) for column in zip(*(sizes for _, sizes in calls.values()), strict=True)]
            if all(len(column) == 1 or "" in column for column in columns):
                continue
            kind = "other-size"
            shown = {
                rank: ", ".join(f"{op} of {size}" if size else op for op, size in zip(*call, strict=True))
                for rank, call in calls.items()
            }
        votes = Counter(shown.values()).most_common()
        most = votes[0][0]
        tie = len(votes) > 1 and votes[0][1] == votes[1][1]
        others = {rank: what for rank, what in shown.items() if tie or what != most}
        over = all(entry.seen for mine in by_rank.values() for entry in mine)
        op = next(call[0][0] for rank, call in calls.items() if shown[rank] == most)
        yield Differing(seq, kind, op, others, most, over)


def _call(mine: Sequence[Entry]) -> Call:
    return tuple(entry.op for entry in mine), tuple(entry.size for entry in mine)
