"""Which format the files are, and their diagnosis.

Formats are recognised by content; all files of a run have the same one.  A pickle is refused unread: unpickling runs
whatever its author wrote into it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from ground.errors import InvalidInput, UnknownName, did_you_mean
from ground.files import MAX_BYTES, Source, decode_source, read_bytes, unpacked
from ground.formats import FileFormat, unknown_format
from health.collectives import flight_recorder, inspector, progress, ras
from health.collectives.diagnosis import Culprit, Diagnosis, diagnose, diagnose_snapshot
from health.collectives.flight_recorder import read_flight_recorder
from health.collectives.inspector import BANDWIDTH, SECONDS, Averages, latecomers, read_inspector, read_prometheus
from health.collectives.progress import NAME, read_progress
from health.collectives.ras import read_ras
from health.collectives.trigger_settings import TriggerSettings

CONVERTER = "flight_recorder_to_json.py"
"""The script that turns pickles into JSON where they were written; it lies beside this module."""

PICKLE, LAST_PROTOCOL = 0x80, 5  # First byte of a pickle, and the most that its second, the protocol, may be
_HEAD = 100_000  # Characters that are looked at to recognise a format


def read_trace(path: str) -> Source:
    """Return the text of one file as :func:`~ground.files.read_source` does; refuse a pickle."""
    name, data = read_bytes(path, max_bytes=MAX_BYTES)
    if len(data) > 1 and data[0] == PICKLE and data[1] <= LAST_PROTOCOL:
        raise InvalidInput(
            "is a pickle, and a pickle from elsewhere can run any program: it is not read",
            where=name,
            fix=f"turn it into JSON on the machine that wrote it: python3 {CONVERTER} FILE; "
            f"the script comes with arnold: arnold health collectives --converter > {CONVERTER}",
        )
    return decode_source(name, unpacked(name, data, max_bytes=MAX_BYTES))


def diagnose_files(
    sources: Sequence[Source],
    *,
    format: str | None = None,
    settings: TriggerSettings | None = None,
    lenient: bool = False,
) -> tuple[str, Diagnosis]:
    """Return the format of the files, all of one, and their diagnosis.

    :param format: one of :data:`FORMATS`; ``None`` = recognised by content.
    :param lenient: drop rows that cannot be used, and whole dumps of the Flight Recorder.
    """
    if format is not None and format not in FORMATS:
        wrong = f"there is no format {format!r:.40}"
        fix = f"{did_you_mean(format, FORMATS)}use one of: {', '.join(FORMATS)}"
        raise UnknownName(wrong, where="--format", fix=fix)
    kind = format or _common_format(sources, lenient=lenient)
    return kind, FORMATS[kind](sources, settings or TriggerSettings(), lenient)


def _common_format(sources: Sequence[Source], *, lenient: bool) -> str:
    """Return the format that all files have; leniently, broken ones among dumps of the Flight Recorder do not count."""
    known: list[tuple[Source, str]] = []
    broken: list[InvalidInput] = []
    for source in sources:
        try:
            known.append((source, recognise(source)))
        except InvalidInput as error:
            broken.append(error)
    if broken and not (lenient and known and known[0][1] == "flight-recorder"):
        raise broken[0]
    first, kind = known[0]
    for source, other in known:
        if other != kind:
            what = f"is {other}, while {first.name} is {kind}"
            raise InvalidInput(what, where=source.name, fix="give files of one format in a run")
    return kind


def recognise(source: Source) -> str:
    """Return the format of a file; raise :class:`InvalidInput` where it is none that is known."""
    head = source.text[:_HEAD].lstrip()
    line = head.split("\n", 1)[0]
    if f'"{NAME}"' in line or ('"type"' in line and '"comm"' in line):
        return "progress"
    if '"coll_perf"' in line or '"dump_stats"' in line or '"inspector_output_format_version"' in line:
        return "inspector"
    if head.startswith("{") and '"pg_config"' in source.text:
        return "flight-recorder"
    if head.startswith("{") and '"communicators"' in head and '"nccl_version"' in head:
        return "ras"
    if SECONDS in head or BANDWIDTH in head:
        return "prometheus"
    broken = False
    if head.startswith("{"):
        try:
            json.loads(line)
        except (ValueError, RecursionError):
            broken = True
    if broken:
        raise InvalidInput("is broken or truncated JSON", where=source.name, fix="get the file again")
    wrong, fix = unknown_format(READERS, head, kind="collectives")
    raise InvalidInput(wrong, where=source.name, fix=fix)


def _of_averages(averages: Averages) -> Diagnosis:
    """Return the members that come last as possible culprits: averages never show more."""
    late = latecomers(averages)
    return Diagnosis(
        averages.members,
        averages.groups,
        "straggler" if late else "healthy",
        "late" if late else "none",
        tuple(Culprit(member, "possible", late[member]) for member in sorted(late, key=lambda m: -late[m])),
        tuple(g for g, group in enumerate(averages.groups) if set(late) & set(group.members)),
        notes=averages.notes,
        settled=False,
    )


Reader = Callable[[Sequence[Source], TriggerSettings, bool], Diagnosis]

READERS: dict[FileFormat, Reader] = {
    progress.FORMAT: lambda sources, settings, lenient: diagnose(read_progress(sources, lenient=lenient), settings),
    inspector.FORMAT: lambda sources, settings, lenient: diagnose(read_inspector(sources, lenient=lenient), settings),
    inspector.INSPECTOR_PROMETHEUS_FORMAT: lambda sources, _, lenient: _of_averages(
        read_prometheus(sources, lenient=lenient)
    ),
    flight_recorder.FORMAT: lambda sources, _, lenient: diagnose_snapshot(
        *read_flight_recorder(sources, lenient=lenient)
    ),
    ras.FORMAT: lambda sources, *_: diagnose_snapshot(*read_ras(sources)),
}
"""Each format -> from its files, settings and whether to be lenient to a diagnosis."""

FORMATS = {format.name: read for format, read in READERS.items()}
"""Name of each format -> its reader."""
