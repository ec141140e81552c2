"""Stack dumps of a job: one file for each rank, or for each process of a rank, named after the rank."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from health.recovery.pyspy import parse_dump
from health.recovery.stacks import Process
from topology.errors import InvalidInput
from topology.files import read_source
from topology.json_record import JsonRecord

_RANK = re.compile(r"(?<!local)(?<!local[-_.])rank[-_.=]?(\d{1,9})", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")

MAX_DUMP_BYTES = 16 * 1024 * 1024
"""Largest dump of one process; a large one has a few hundred kilobytes."""


@dataclass(frozen=True, slots=True)
class Dropped(JsonRecord):
    """A file that was left out under --lenient."""

    file: str
    """Its path."""
    reason: str
    """Why it could not be used."""


@dataclass(frozen=True, slots=True)
class Dumps:
    """One look at a job.

    :param by_rank: processes of each rank that has a dump, ascending.
    :param dropped: files that could not be used.
    """

    by_rank: Mapping[int, tuple[Process, ...]]
    dropped: tuple[Dropped, ...] = ()


def read_dumps(paths: Sequence[str], *, ranks: int, lenient: bool = False) -> Dumps:
    """Read dumps.

    :param paths: files, and folders of files at any depth; hidden files are passed over.
    :param ranks: how many the job has.
    :param lenient: leave out files that cannot be used, and say so, instead of failing.
    :raises InvalidInput: a file is no dump, its name says no rank of the job, a process of a rank is there twice; or
        nothing is left.
    """
    by_rank: dict[int, list[Process]] = {}
    dropped: list[Dropped] = []
    for file in _files(paths):
        try:
            processes = parse_dump(read_source(file, max_bytes=MAX_DUMP_BYTES))
            rank = _rank_of(file, ranks)
            _check_new(by_rank.get(rank, []), processes, rank, file)
        except InvalidInput as error:
            if not lenient:
                raise
            dropped.append(Dropped(str(file), f"{error.where}: {error.message}"))
        else:
            by_rank.setdefault(rank, []).extend(processes)
    if not by_rank:
        reason = f"none of {len(dropped)} files can be used, first {dropped[0].reason}" if dropped else "there is none"
        raise InvalidInput(
            f"no stack dump: {reason}", where=", ".join(paths)[:200], fix="give a file for each rank: rank-0.txt, ..."
        )
    return Dumps({rank: tuple(by_rank[rank]) for rank in sorted(by_rank)}, tuple(dropped))


def _files(paths: Sequence[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        if not path.is_dir():
            yield path
            continue
        inside = (file.relative_to(path) for file in sorted(path.rglob("*")) if file.is_file())
        yield from (path / file for file in inside if not any(part.startswith(".") for part in file.parts))


def _rank_of(file: Path, ranks: int) -> int:
    """Return the rank in the name of a file: after the word ``rank``, else the only number.

    :raises InvalidInput: there is none, more than one, or one that the job does not have.
    """
    found = {int(number) for number in _RANK.findall(file.stem) or _NUMBER.findall(file.stem)[:9] if len(number) < 10}
    if len(found) != 1:
        raise InvalidInput(
            f"the name says no rank: {'no number' if not found else 'more than one number'}",
            where=str(file),
            fix="name each dump after its rank: rank-0.txt, rank-1.txt, ...",
        )
    rank = found.pop()
    if rank >= ranks:
        raise InvalidInput(
            f"rank {rank} is not one of the job's {ranks:,} ranks",
            where=str(file),
            fix="give the job that the dumps are of; ranks are global and begin at 0",
        )
    return rank


def _check_new(known: Sequence[Process], processes: Sequence[Process], rank: int, file: Path) -> None:
    twice = {process.pid for process in known} & {process.pid for process in processes}
    if twice:
        raise InvalidInput(
            f"rank {rank} has two dumps of process {min(twice)}",
            where=str(file),
            fix="give one dump of each process; looks taken at different times go into folders of their own (--rounds)",
        )
