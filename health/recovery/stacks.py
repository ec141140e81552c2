"""Stacks of the processes of a job, what of them is compared, and the ranks that are not where the others are.

Two ranks that do the same thing never have the same text: threads are numbered, native frames carry addresses, and a
loop that polls stands on one line or the next.  A :class:`StackView` says what is left of a stack before ranks are
compared.  Ranks with the same stack make a group.  Large groups are taken for healthy: in a hang, all but a few ranks
wait in the same collective for those few (aggregation analysis, ByteRobust, arXiv 2509.16293).

Stacks come from dumps, one file for each rank, or for each process of a rank, named after the rank.  A file holds what
``py-spy dump`` prints, as text or with ``--json``; both were checked against py-spy 0.4.3.  Text lists a thread as
``Thread 7624 (idle): "MainThread"`` and below it its calls, innermost first, as
``    all_reduce (torch/distributed/distributed_c10d.py:2450)``; native frames (``--native``) have a library in place of
the file and an address where the symbol is unknown; local variables (``--locals``) are indented deeper; subprocesses
(``--subprocesses``) follow, each with a head of its own.  JSON is a list of threads in the opposite order.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from annotated_types import Interval

from ground.errors import InvalidInput
from ground.files import Source, is_folder, read_source
from ground.records import JsonRecord

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

        def call(frame: StackFrame) -> str:
            line = f":{frame.line}" if self.lines and frame.line else ""
            text = f"{frame.function} ({frame.file}{line})"
            return text if self.addresses else _ADDRESS.sub("0x?", text)

        chosen = [(process.main,) if self.threads == "main" else process.threads for process in processes]
        return tuple(sorted({tuple(map(call, thread.frames)) for threads in chosen for thread in threads}))


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
    stack_groups = [StackGroup(s, tuple(sorted(members)), tuple(sorted(outliers[s]))) for s, members in ranks.items()]
    return tuple(sorted(stack_groups, key=lambda group: (-len(group.ranks), group.ranks)))


def outliers_of(groups: Sequence[StackGroup]) -> tuple[int, ...]:
    """Return all outliers, ascending."""
    return tuple(sorted(rank for group in groups for rank in group.outliers))


_RANK = re.compile(r"(?<!local)(?<!local[-_.])rank[-_.=]?(\d{1,9})", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_JSON = re.compile(r"\s*\[\s*[\]{]")
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_PROCESS = re.compile(r"Process (\d{1,18}):")
_THREAD = re.compile(r'Thread (\S+) \((?:idle|active|active\+gil)\)(?:: "(.*)")?')
_LINE = re.compile(r"(.*):(\d{1,9})")
_RULE = re.compile(r"-+")
_LOG = re.compile(r"\[\d{4}-\d\d-\d\dT\S+ (?:ERROR|WARN|INFO|DEBUG)\b.*\].*")
_REMEDY = "give the output of `py-spy dump --pid PID`, or of it with --json"

MAX_DUMP_BYTES = 16 * 1024 * 1024  # Largest dump of one process; a large one has a few hundred kilobytes


class Dropped(JsonRecord):
    """A file that was left out under --lenient."""

    file: str
    """Its path."""
    reason: str
    """Why it could not be used."""


@dataclass(frozen=True, slots=True)
class Dumps:
    """One look at a job."""

    by_rank: Mapping[int, tuple[Process, ...]]  # processes of each rank that has a dump, ascending
    dropped: tuple[Dropped, ...] = ()


def read_dumps(paths: Sequence[str], *, ranks: int, lenient: bool = False) -> Dumps:
    """Read dumps, each process of a rank of the job once; raise InvalidInput where nothing is left.

    :param paths: files, and folders of files at any depth; hidden files are passed over.
    :param lenient: leave out files that cannot be used, and say so, instead of failing.
    """
    by_rank: dict[int, list[Process]] = {}
    dropped: list[Dropped] = []
    files: list[Path] = []
    for name in paths:
        path = Path(name)
        if is_folder(name):
            inside = (file.relative_to(path) for file in sorted(path.rglob("*")) if file.is_file())
            files += (path / file for file in inside if not any(part.startswith(".") for part in file.parts))
        else:
            files.append(path)
    for file in files:
        try:
            processes = parse_dump(read_source(file, max_bytes=MAX_DUMP_BYTES))
            rank = rank_in(file)
            if rank >= ranks:
                problem = f"rank {rank} is not one of the job's {ranks:,} ranks"
                fix = "give the job that the dumps are of; ranks are global and begin at 0"
                raise InvalidInput(problem, where=str(file), fix=fix)
            twice = {earlier.pid for earlier in by_rank.get(rank, ())} & {process.pid for process in processes}
            if twice:
                fix = (
                    "give one dump of each process; looks taken at different times go into folders of their own "
                    "(--rounds)"
                )
                raise InvalidInput(f"rank {rank} has two dumps of process {min(twice)}", where=str(file), fix=fix)
        except InvalidInput as error:
            if not lenient:
                raise
            dropped.append(Dropped(str(file), f"{error.where}: {error.message}"))
        else:
            by_rank.setdefault(rank, []).extend(processes)
    if not by_rank:
        reason = f"none of {len(dropped)} files can be used, first {dropped[0].reason}" if dropped else "there is none"
        problem = f"no stack dump: {reason}"
        raise InvalidInput(problem, where=", ".join(paths)[:200], fix="give a file for each rank: rank-0.txt, ...")
    return Dumps({rank: tuple(by_rank[rank]) for rank in sorted(by_rank)}, tuple(dropped))


def rank_in(file: Path) -> int:
    """Return the rank that stands in the name of a file, after the word rank, or as its only number.

    :raises InvalidInput: it says none, or several.
    """
    found = _RANK.findall(file.stem) or _NUMBER.findall(file.stem)[:9]
    numbers = {int(number) for number in found if len(number) < 10}
    if len(numbers) != 1:
        problem = f"the name says no rank: {'no number' if not numbers else 'more than one number'}"
        fix = "name each dump after its rank: rank-0.txt, rank-1.txt, ..."
        raise InvalidInput(problem, where=str(file), fix=fix)
    return numbers.pop()


def parse_dump(source: Source) -> tuple[Process, ...]:
    """Return processes of one dump, in order of appearance; raise InvalidInput for none, or one that is cut off."""
    if not _JSON.match(source.text):
        processes = _parse_text(source)
    else:
        from ground.documents import load_document  # loads YAML, which text needs not

        threads: dict[int, list[Thread]] = {}
        for stack in reversed(load_document(source).parse(list[_Stack])):
            calls = tuple(
                StackFrame(call.name, call.short_filename or call.filename, call.line) for call in stack.frames
            )
            number = stack.thread_id if stack.os_thread_id is None else stack.os_thread_id
            threads.setdefault(stack.pid, []).append(Thread(str(number), stack.thread_name or "", calls))
        processes = tuple(Process(pid, tuple(members)) for pid, members in threads.items())
    if not processes:
        raise InvalidInput("holds no thread", where=source.name, fix=_REMEDY)
    return processes


@dataclass
class _Call:
    name: str
    filename: str
    line: int = 0
    short_filename: str | None = None


@dataclass
class _Stack:
    pid: int
    thread_id: int
    frames: list[_Call]
    thread_name: str | None = None
    os_thread_id: int | None = None


@dataclass
class _Open:
    """A process that is being read: each thread with its number and name."""

    pid: int
    threads: list[tuple[str, str, list[StackFrame]]] = field(default_factory=list)
    in_head: bool = True


def _parse_text(source: Source) -> tuple[Process, ...]:
    opened: list[_Open] = []
    for number, styled in enumerate(source.text.split("\n"), 1):
        line = _STYLE.sub("", styled).rstrip()
        here = opened[-1] if opened else None
        if head := _PROCESS.match(line):
            opened.append(_Open(int(head[1])))
        elif here is not None and here.in_head:
            # The command line of a process may hold line breaks; what follows it is the version of Python.
            here.in_head = not line.startswith("Python v")
        elif line and not bool(
            line.startswith(("Parent Process ", " " * 8)) or _RULE.fullmatch(line) or _LOG.fullmatch(line)
        ):
            where = source.at(number)
            if line.startswith("Error:"):
                raise InvalidInput(f"py-spy failed: {line[6:].strip()[:200]}", where=where, fix="take the dump again")
            if here is None:
                raise InvalidInput(f"is no stack dump: it begins with {line[:60]!r}", where=where, fix=_REMEDY)
            if thread := _THREAD.fullmatch(line):
                here.threads.append((thread[1], thread[2] or "", []))
                continue
            function, opening, rest = line[4:].rpartition(" (")
            if not line.startswith("    ") or not opening or not rest.endswith(")") or not here.threads:
                raise InvalidInput(f"is neither a thread nor a call: {line[:60]!r}", where=where, fix=_REMEDY)
            with_line = _LINE.fullmatch(rest[:-1])
            file, place = (with_line[1], int(with_line[2])) if with_line else (rest[:-1], 0)
            here.threads[-1][2].append(StackFrame(function, file, place))
    for process in opened:
        if process.in_head or not process.threads:
            problem = f"is cut off: process {process.pid} has no thread"
            raise InvalidInput(problem, where=source.name, fix="take the dump again")
    return tuple(
        Process(process.pid, tuple(Thread(number, name, tuple(frames)) for number, name, frames in process.threads))
        for process in opened
    )
