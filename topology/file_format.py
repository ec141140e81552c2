"""What a user should know of a format of files: the facts of each reader, and the format that a text is nearest to.

The readers of every kind of file (clusters, traces, profiles) say the same few things of their formats, so that errors
and the table of formats in the documentation are made from one place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format that is read."""

    name: str  # as in --format: "slurm-conf"
    source: str  # where such a file comes from and what it looks like, one line: "Slurm topology.conf, lines of ..."
    export: str  # the command that makes one, or the file's name where it is published
    read: str  # what is read of it
    left_out: str  # what is in it and not read; empty = nothing
    marks: tuple[str, ...] = ()  # words (keys, columns) that stand in every such file, small letters


def format_table(formats: Iterable[FileFormat]) -> str:
    """Return a table of Markdown of formats, by name."""
    head = "| format | where it comes from | how to get it | what is read | what is left out |"
    rows = []
    for one in sorted(formats, key=lambda one: one.name):
        facts = (f"`{one.name}`", one.source, one.export, one.read, one.left_out or "nothing")
        rows.append(f"| {' | '.join(fact.replace('|', chr(92) + '|') for fact in facts)} |")
    return "\n".join([head, "| --- | --- | --- | --- | --- |", *rows, ""])


def nearest(formats: Iterable[FileFormat], text: str) -> tuple[FileFormat, tuple[str, ...]] | None:
    """Return the format of which the greatest share of marks stands in a text, and the marks that do not.

    ``None`` = no format has any of its marks in it.
    """
    small = text.lower()
    shares = {one: sum(mark in small for mark in one.marks) / len(one.marks) for one in formats if one.marks}
    best = max(shares, key=lambda one: (shares[one], len(one.marks)), default=None)
    if best is None or not shares[best]:
        return None
    return best, tuple(mark for mark in best.marks if mark not in small)
