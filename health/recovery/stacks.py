"""Stacks of the processes of a job, what of them is compared, and the ranks that are not where the others are.

Two ranks that do the same thing never have the same text: threads are numbered, native frames carry addresses, and a
loop that polls stands on one line or the next.  A :class:`StackView` says what is left of a stack before ranks are
compared.  Ranks with the same stack make a group.  Large groups are taken for healthy: in a hang, all but a few ranks
wait in the same collective for those few (aggregation analysis, ByteRobust, arXiv 2509.16293).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

from annotated_types import Interval

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")

MAIN_THREAD = "MainThread"

Signature = tuple[tuple[str, ...], ...]
"""What of a rank is compared: a stack for each thread that counts, innermost frame first."""


DOMINANT = 0.5  # A group is dominant from this share of the largest group on


class StackFrame(NamedTuple):
    """One call."""

    function: str
    file: str  # as the dump calls it: a path, a shared library, or <frozen runpy>
    line: int = 0  # 0 = unknown, as in native frames


class Thread(NamedTuple):
    """One thread of a process."""

    number: str  # the system's number of it; that of the main thread is the process's (Linux)
    name: str  # empty = it has none
    frames: tuple[StackFrame, ...]  # innermost first; empty where a thread runs no Python


class Process(NamedTuple):
    """Threads of one process, the oldest first; at least one."""

    pid: int
    threads: tuple[Thread, ...]

    @property
    def main(self) -> Thread:
        """The thread called MainThread, else that with the number of the process, else the oldest."""
        named = (thread for thread in self.threads if thread.name == MAIN_THREAD)
        numbered = (thread for thread in self.threads if thread.number == str(self.pid))
        return next(named, None) or next(numbered, self.threads[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class StackView:
    """What of a stack is compared, and with which others; helper threads are rarely all in the same place."""

    compare: Literal["job", "stage"] = "job"
    """Whether each rank is compared with all others, or with those of its pipeline stage."""
    threads: Literal["main", "all"] = "main"
    """Threads of a process whose stacks are compared."""
    lines: bool = False
    """Compare line numbers too."""
    addresses: bool = False
    """Compare addresses of native calls too."""
    dominant: Annotated[float, Interval(gt=0, le=1)] = field(default=DOMINANT, metadata={"metavar": "SHARE"})
    """Stacks with at least this share of the ranks of the most common stack count as healthy."""

    def signature(self, processes: Iterable[Process]) -> Signature:
        """Return what of a rank is compared, whatever the order of processes and threads; equal ones count once."""
        chosen = [(process.main,) if self.threads == "main" else process.threads for process in processes]
        return tuple(sorted({tuple(map(self._call, thread.frames)) for threads in chosen for thread in threads}))

    def _call(self, frame: StackFrame) -> str:
        line = f":{frame.line}" if self.lines and frame.line else ""
        text = f"{frame.function} ({frame.file}{line})"
        return text if self.addresses else _ADDRESS.sub("0x?", text)


@dataclass(frozen=True, slots=True)
class StackGroup:
    """Ranks with the same stack."""

    signature: Signature
    ranks: tuple[int, ...]
    outliers: tuple[int, ...]  # those of them that are not in a dominant group among the ranks they are compared with


def group_stacks(
    signatures: Mapping[int, Signature], *, dominant: float = DOMINANT, kin: Callable[[int], int] | None = None
) -> tuple[StackGroup, ...]:
    """Group ranks by stack, the largest group first.

    :param dominant: a group at least this large relative to the largest is healthy, in (0, 1].
    :param kin: ranks are compared with those of the same number: their stage; ``None`` = with all.
    """
    strata: dict[int, dict[Signature, list[int]]] = defaultdict(lambda: defaultdict(list))
    for rank, signature in signatures.items():
        strata[kin(rank) if kin else 0][signature].append(rank)
    ranks: dict[Signature, list[int]] = defaultdict(list)
    outliers: dict[Signature, list[int]] = defaultdict(list)
    for groups in strata.values():
        least = dominant * max(len(members) for members in groups.values())
        for signature, members in groups.items():
            ranks[signature] += members
            if len(members) < least:
                outliers[signature] += members
    found = [StackGroup(s, tuple(sorted(members)), tuple(sorted(outliers[s]))) for s, members in ranks.items()]
    return tuple(sorted(found, key=lambda group: (-len(group.ranks), group.ranks)))


def outliers_of(groups: Sequence[StackGroup]) -> tuple[int, ...]:
    """Return all outliers, ascending."""
    return tuple(sorted(rank for group in groups for rank in group.outliers))
