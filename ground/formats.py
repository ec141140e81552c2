"""Formats of files: what a user should know of each, and which of them a file is of.

Every kind of files (clusters, job traces, profiles, collectives, metrics) has readers, one a format, each a plug-in of
the kind's group.  They say the same few things of their formats, so that recognition, errors and the page of formats in
the documentation are made from one place.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable
from typing import ClassVar, Protocol, TypeVar

from ground.errors import InvalidInput
from ground.files import ByteStream, Content, Source
from ground.plugins import PluginGroup
from ground.records import JsonRecord

NEAR = 0.5  # Share of its marks from which a format is the nearest one to a text: less may be chance
NEARLY = 0.5  # Likeness from which a reader is asked what is wrong with a file that no reader recognises

_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\{|\[\s*(?:[{\[\]\"]|\Z))")


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


class Format(Protocol):
    """Reads one format: a class (or any callable without arguments), registered as an entry point, makes an object with
    this face.  The kind of files adds its own ``read``.
    """

    @property
    def format(self) -> FileFormat:
        """What users should know of the format; its name is that of ``--format``."""

    def likeness(self, head: bytes) -> float:
        """Return how much the beginning of a file looks like this format: 1 = it is, 0 = not at all.

        What lies between is for a file that may be of this format, such as a table of which some columns are missing:
        when no reader says 1, the one with most is asked to read, to say what is wrong.

        :param head: the first bytes of the file, unpacked, about 64 thousand.
        """


class Marked:
    """A reader of a format that a pattern tells."""

    mark: ClassVar[re.Pattern[str]]  # What stands in the beginning of every such file, and in no other

    def likeness(self, head: bytes) -> float:
        """Return whether the mark stands in the beginning of a file."""
        return float(self.mark.search(text_of(head)) is not None)


F = TypeVar("F", bound=Format)


class FormatGroup(PluginGroup[F]):
    """The readers of one kind of files, by the names of their formats."""

    def __init__(
        self,
        group: str,
        *,
        kind: str,
        option: str = "--format",
        error: type[InvalidInput] = InvalidInput,
        first: str = "",
    ) -> None:
        super().__init__(group, unknown=f"no format of {kind} is called", where=option)
        self.kind = kind  # as ``arnold formats`` calls it
        self.option = option  # names the format; empty = none does
        self.error = error  # of a file that no reader recognises, or more than one
        self.first = first  # our own format that is asked first; what is of it is of no other

    def asked(self, head: bytes) -> list[F]:
        """Return the readers to ask about a file: all; or the first alone, where it says that the file is of its own
        format, so that what is not used is not imported.
        """
        if self.first and (reader := self.load(self.first)).likeness(head) == 1.0:
            return [reader]
        return list(self.load_all())

    def formats(self) -> list[FileFormat]:
        """Return all formats that can be read."""
        return [reader.format for reader in self.load_all()]


def recognise(
    group: FormatGroup[F],
    source: Source | Content | ByteStream,
    *,
    stranger: Callable[[str], tuple[str, str] | None] = lambda _: None,
) -> F:
    """Return the reader of a file, by its content.

    :param stranger: from the beginning of a file in none of the formats to what it is and what to give instead;
        ``None`` = it is nothing that is known.
    :raises InvalidInput: (of the group's class) no reader, or more than one, recognises it.
    """
    head = source.head.removeprefix(BOM_UTF8)
    readers = group.asked(head)
    likeness = [reader.likeness(head) for reader in readers]
    best = max(likeness, default=0.0)
    fitting = [reader for reader, like in zip(readers, likeness, strict=True) if like == best]
    if best >= NEARLY and len(fitting) == 1:
        return fitting[0]
    if best == 1.0:
        names = " and ".join(reader.format.name for reader in fitting)
        fix = f"say which with {group.option}" if group.option else "give one of these alone"
        raise group.error(f"looks like {names} at once", where=source.name, fix=fix)
    text = text_of(head)
    formats = [reader.format for reader in readers]
    wrong, fix = stranger(text) or unknown_format(formats, text, kind=group.kind, option=group.option)
    raise group.error(wrong, where=source.name, fix=fix)


def text_of(head: bytes) -> str:
    """Return the beginning of a file as text, whatever it holds; a byte order mark is left out."""
    return head.decode("utf-8-sig", errors="replace")


def begins_as_json(head: bytes) -> bool:
    """Return whether a file begins as an object or a list of such does; a log may begin with ``[default0]:``."""
    return _JSON.match(head) is not None


def unknown_format(formats: Iterable[FileFormat], text: str, *, kind: str, option: str = "--format") -> tuple[str, str]:
    """Return what is wrong with a text in none of some formats, and what to do: the nearest, and what it lacks for it.

    :param kind: of the files, as ``arnold formats`` calls it.
    """
    formats = list(formats)
    fault = "is in no format that is known"
    if (close := nearest(formats, text)) is not None:
        best, missing = close
        fault += f"; nearest is {best.name} ({best.source}){', without ' if missing else ''}{' and '.join(missing)}"
    names = ", ".join(sorted(format.name for format in formats))
    which = f", or say which with {option}" if option else ""
    return fault, f"give one of {names}{which}; arnold formats {kind} says what they are"


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
