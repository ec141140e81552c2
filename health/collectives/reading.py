"""Which format the files are, and their diagnosis.

Formats are recognised by content; all files of a run have the same one.  A pickle is refused unread: unpickling runs
whatever its author wrote into it.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ground.errors import InvalidInput
from ground.files import MAX_BYTES, Source, decode_source, read_bytes, unpacked
from ground.formats import Format, FormatGroup, recognise
from ground.plugins import noted
from ground.records import checked
from health.collectives.diagnosis import Diagnosis
from health.collectives.trigger_settings import TriggerSettings

CONVERTER = "flight_recorder_to_json.py"
"""The script that turns pickles into JSON where they were written; it lies beside this module."""

PICKLE, LAST_PROTOCOL = 0x80, 5  # First byte of a pickle, and the most that its second, the protocol, may be


class CollectivesReader(Format, Protocol):
    """Reads one format of records of collectives; an entry point in the group ``arnold.collectives_readers``."""

    def read(self, sources: Sequence[Source], *, settings: TriggerSettings, lenient: bool) -> Diagnosis:
        """Return the diagnosis of a job by its files, all of this format.

        :param settings: how records over time are watched.
        :param lenient: drop rows that cannot be used, and note so.
        :raises InvalidInput: a file cannot be used.
        """


def _broken_json(head: str) -> tuple[str, str] | None:
    """Return what is wrong with a document that begins as JSON and is none."""
    first_line = head.lstrip().split("\n", 1)[0]
    if first_line.startswith("{"):
        try:
            json.loads(first_line)
        except (ValueError, RecursionError):
            return "is broken or truncated JSON", "get the file again"
    return None


COLLECTIVES_READERS: FormatGroup[CollectivesReader] = FormatGroup("arnold.collectives_readers", kind="collectives")
"""All formats that can be read."""


def read_trace(path: str) -> Source:
    """Return the text of one file as :func:`~ground.files.read_source` does, also an empty one; refuse a pickle."""
    return _text(*read_bytes(path, max_bytes=MAX_BYTES))


def read_traces(
    paths: Iterable[str | Path], *, lenient: bool, say: Callable[[str], object] = str
) -> tuple[list[Source], list[InvalidInput]]:
    """Return the texts of files, and what is wrong with those that hold none, of which there are some only leniently.

    :param say: is called with the name of each file before it is read.
    :raises InvalidInput: a file is not there or may not be read; strictly, as :func:`read_trace`.
    """
    sources, unread = list[Source](), list[InvalidInput]()
    for path in paths:
        say(str(path))
        name, data = read_bytes(path, max_bytes=MAX_BYTES)
        try:
            sources.append(_text(name, data))
        except InvalidInput as error:
            if not lenient:
                raise
            unread.append(error)
    return sources, unread


def _text(name: str, data: bytes) -> Source:
    if len(data) > 1 and data[0] == PICKLE and data[1] <= LAST_PROTOCOL:
        raise InvalidInput(
            "is a pickle, and a pickle from elsewhere can run any program: it is not read",
            where=name,
            fix=f"turn it into JSON on the machine that wrote it: python3 {CONVERTER} FILE; "
            f"the script comes with arnold: arnold health collectives --converter > {CONVERTER}",
        )
    return decode_source(name, unpacked(name, data, max_bytes=MAX_BYTES), may_be_empty=True)


@checked
def diagnose_files(
    sources: Sequence[Source],
    *,
    unread: Sequence[InvalidInput] = (),
    format: str | None = None,
    settings: TriggerSettings | None = None,
    lenient: bool = False,
) -> tuple[str, Diagnosis]:
    """Return the format of the files, all of one, and their diagnosis.

    :param unread: what is wrong with further files of the job, which hold no text.
    :param format: its name; ``None`` = recognised by content.
    :param lenient: drop rows that cannot be used, and whole dumps of the Flight Recorder, and note so.
    """
    said = None if format is None else COLLECTIVES_READERS.load(format)
    recognised: list[tuple[Source, CollectivesReader]] = []
    strange = [*unread]
    for source in sources:
        try:
            if not source.text.strip():
                raise InvalidInput("is empty", where=source.name, fix="give a file with content")
            recognised.append((source, said or recognise(COLLECTIVES_READERS, source, stranger=_broken_json)))
        except InvalidInput as error:
            strange.append(error)
    # among dumps of the Flight Recorder broken ones are left out
    if strange and not (lenient and recognised and recognised[0][1].format.name == "flight-recorder"):
        raise strange[0]
    first, reader = recognised[0]
    for source, other in recognised:
        if other.format.name != reader.format.name:
            problem = f"is {other.format.name}, while {first.name} is {reader.format.name}"
            raise InvalidInput(problem, where=source.name, fix="give files of one format in a run")
    texts = [source for source, _ in recognised]
    with noted(f"reading {first.name}"):
        diagnosis = reader.read(texts, settings=settings or TriggerSettings(), lenient=lenient)
    left_out = (f"left out {error.where}: {error.message}" for error in strange)
    return reader.format.name, replace(diagnosis, notes=(*left_out, *diagnosis.notes))
