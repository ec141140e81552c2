"""What a user should know of a format of files: the facts of each reader, and the format that a text is nearest to.

The readers of every kind of file (clusters, traces, profiles) say the same few things of their formats, so that errors
and the page of formats in the documentation are made from one place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ground.records import JsonRecord

NEAR = 0.5  # Share of its marks from which a format is the nearest one to a text: less may be chance


@dataclass(frozen=True, slots=True)
class FileFormat(JsonRecord):
    """A format that is read."""

    name: str
    """Name, as `--format` takes it: ``slurm-conf``."""
    source: str
    """Where such a file comes from and what it looks like, in a line."""
    export: str
    """The command that makes one, or the file's name where it is published."""
    read: str
    """What is read of it."""
    left_out: str
    """What is in it and not read; empty = nothing."""
    marks: tuple[str, ...] = ()
    """Words (keys, columns) that stand in every such file, small letters."""


def unknown_format(formats: Iterable[FileFormat], text: str, *, kind: str) -> tuple[str, str]:
    """Return what is wrong with a text in none of some formats, and what to do: the nearest, and what it lacks for it.

    :param kind: of the files, as ``arnold formats`` calls it.
    """
    formats = list(formats)
    fault = "is in no format that is known"
    if (close := nearest(formats, text)) is not None:
        best, missing = close
        fault += f"; nearest is {best.name} ({best.source}){', without ' if missing else ''}{' and '.join(missing)}"
    names = ", ".join(sorted(format.name for format in formats))
    return fault, f"give one of {names}, or say which with --format; arnold formats {kind} says what they are"


def nearest(formats: Iterable[FileFormat], text: str) -> tuple[FileFormat, tuple[str, ...]] | None:
    """Return the format of which the greatest share of marks stands in a text, and the marks that do not.

    ``None`` = no format has half of its marks in it.
    """
    small = text.lower()
    marked = (format for format in formats if format.marks)
    shares = {format: sum(mark in small for mark in format.marks) / len(format.marks) for format in marked}
    best = max(shares, key=lambda format: (shares[format], len(format.marks)), default=None)
    if best is None or shares[best] < NEAR:
        return None
    return best, tuple(mark for mark in best.marks if mark not in small)
