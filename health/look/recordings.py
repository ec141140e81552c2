"""Recordings in a folder, each put to the detector of its kind: collectives, metrics, profiles, stacks, nodes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ground.errors import ArnoldError
from ground.files import MAX_BYTES, ByteStream, read_source
from ground.formats import begins_as_json
from health.collectives.diagnosis import PROGRAM, Certainty
from health.look.evidence import Clue, NextStep
from health.look.in_hand import InHand

MOST_BYTES = 2 * 1024**3  # Of all recordings of one format that are read at once

STACKS, NODES = "py-spy", "kubernetes-nodes"
_DIGITS = re.compile(r"\d+")
Files = list[tuple[Path, str]]

Recordings = defaultdict[tuple[str, str, str], Files]
"""Files by what reads them: kind of detector, format, folder -> path and name of each."""


def kind_of_recording(stream: ByteStream, path: Path, name: str, recordings: Recordings) -> tuple[str, bool]:
    """Return the format of a file as the detectors' readers know it, empty = none does, and whether lines of it may say
    something by themselves: those of a log or of a scrape do, those of JSON do not.
    """
    from health.collectives.reading import COLLECTIVES_READERS
    from health.peers.recording_files import METRIC_READERS
    from health.whatif.converters import PROFILE_READERS

    head = stream.head
    is_json = begins_as_json(head)
    groups = (("profiles", PROFILE_READERS), ("collectives", COLLECTIVES_READERS), ("metrics", METRIC_READERS))
    for kind, group in groups:
        for reader in group.load_all():
            if reader.likeness(head) == 1.0:
                recordings[kind, reader.format.name, str(path.parent)].append((path, name))
                return reader.format.name, not is_json
    text = head.decode("utf-8", errors="replace")
    other = ""
    if (text.startswith("Process ") and "Python v" in text[:4000]) or (
        is_json and '"frames"' in text and '"pid"' in text
    ):
        other = STACKS
    elif is_json and '"kind"' in text and ('"Node"' in text or '"List"' in text):
        other = NODES
    if other:
        recordings[other, other, str(path.parent)].append((path, name))
    return other, not other


def detect_in(recordings: Recordings, hand: InHand) -> Iterator[tuple[str, str, str, list[object] | None]]:
    """Yield for each file its name, its format, a note, and what all of its format and folder say together, at the
    first of them; ``None`` = it was not read.
    """
    detectors = {
        "collectives": _collectives,
        "profiles": _profiles,
        "metrics": _metrics,
        STACKS: _stacks,
        NODES: _nodes,
    }
    left = [(kind, format, files) for (kind, format, _), files in recordings.items()]
    while left:
        kind, format, files = left.pop()
        try:
            if sum(path.stat().st_size for path, _ in files) > MOST_BYTES:
                note, facts = f"larger than {MOST_BYTES // 2**30} GB together: give them to arnold health {kind}", None
            else:
                note, facts = detectors[kind](format, files, hand)
        except (ArnoldError, OSError) as error:
            sets: dict[str, Files] = defaultdict(list)
            for path, name in files:
                sets[_DIGITS.sub("#", path.name)].append((path, name))
            if len(sets) > 1:  # those of another job, or of another moment, go by other names
                left += [(kind, format, one) for one in sets.values()]
                continue
            problem, fix = (error.message, error.fix) if isinstance(error, ArnoldError) else (str(error), "look at it")
            note, facts = f"not read: {problem}; {fix}", None
        for i, (_, name) in enumerate(files):
            yield name, format, note, None if facts is None else facts if i == 0 else []


def _collectives(format: str, files: Files, hand: InHand) -> tuple[str, list[object]]:
    """Return what dumps and recordings of collectives say."""
    from health.collectives.diagnosis import CAUSES
    from health.collectives.flagging import nodes_of
    from health.collectives.reading import diagnose_files, read_trace

    sources, broken = [], []
    for path, name in files:
        try:
            sources.append(replace(read_trace(str(path)), name=name))
        except ArnoldError as error:
            broken.append(f"{name} {error.message}")
    _, diagnosis = diagnose_files(sources, format=format, lenient=True)
    node_of = nodes_of(diagnosis.members)
    facts: list[object] = []
    for culprit in diagnosis.culprits:
        member = diagnosis.members[culprit.member]
        rank = member.rank
        cause = culprit.cause or diagnosis.cause
        kind = f"program-{cause}" if cause in PROGRAM else cause
        of_rank = re.compile(rf"(?<!\d){rank}(?!\d)")
        file = next((name for path, name in files if rank is not None and of_rank.search(path.stem)), files[0][1])
        # the map knows better than a host that a dump names, which may be where it was converted
        node = None if rank in hand.seats else node_of.get(culprit.member)
        facts.append(Clue(kind, culprit.certainty, CAUSES[cause], file, (), node, rank, factor=culprit.factor))
    return "; ".join([*broken[:3], *diagnosis.notes[:2]]), facts


def _metrics(format: str, files: Files, _: InHand) -> tuple[str, list[object]]:
    """Return which machines stand out among their peers."""
    from health.peers.comparison import ComparisonSettings, detect, is_moment
    from health.peers.recording_files import load_recordings
    from health.peers.sample_sources import SampleColumns
    from health.peers.verdict import judge

    recording = load_recordings([str(path) for path, _ in files], columns=SampleColumns(), format=format, lenient=True)
    if is_moment(recording):
        return "one moment: machines are compared by what they do for minutes", []
    found = judge(recording, list(detect(recording, ComparisonSettings())))
    sure: dict[str, Certainty] = {"faulty": "likely", "straggler": "likely", "degraded": "possible"}
    clues = [
        Clue(f"metrics-{flag.kind}", sure[flag.kind], flag.evidence, files[0][1], (), flag.node) for flag in found.flags
    ]
    return found.verdict, list(clues)


def _profiles(format: str, files: Files, hand: InHand) -> tuple[str, list[object]]:
    """Return which rank a job waits for, by its profiles."""
    from tempfile import TemporaryDirectory

    from health import whatif
    from health.whatif.conversion import ConversionSettings, heed, read_statement, verdict_with, write_conversion
    from health.whatif.converters import convert, sizes_of
    from health.whatif.trace import layout_of, read_metadata

    paths = [str(path) for path, _ in files]
    sizes = hand.sizes or sizes_of(paths, source=format)
    layout = layout_of(sizes)
    conversion = convert(paths, layout, ConversionSettings(guessed=hand.sizes is None), source=format)
    with TemporaryDirectory() as folder:
        trace, meta, _ = write_conversion(conversion, sizes, folder)
        statement = read_statement(trace)
        partial = statement is not None and bool(statement.absent)
        replayed = whatif.prepare(
            whatif.read_trace(str(trace), sizes=read_metadata(read_source(str(meta))), lenient=True, partial=partial),
            lenient=True,
        )
        analysis, _ = heed(whatif.analyse(replayed), statement)
        workers = whatif.slow_workers(replayed, analysis)
    arrivals = None if statement is None else statement.arrivals
    verdict = verdict_with(analysis, arrivals, () if statement is None else statement.breakdown)
    # of a worker of several ranks of which nobody knows who, the node of all is named
    facts: list[object] = []
    for worker in workers:
        of_worker = (worker.dp, worker.stage)
        first = layout.representative(*of_worker)
        seats = [hand.seats.get(first + k) for k in range(layout.tp * layout.dsp)]
        homes = {None if seat is None else seat.node for seat in seats}
        node, rank = homes.pop() if len(homes) == 1 else None, conversion.rank_of(of_worker, layout)
        facts.append(Clue("slow", "likely", verdict, files[0][1], (), node, rank, factor=worker.factor))
    if not facts and analysis.cause == "late-rank" and arrivals is not None and arrivals.culprit is not None:
        facts.append(Clue("slow", "likely", verdict, files[0][1], (), rank=arrivals.culprit.rank))
    return verdict, facts


def _stacks(_: str, files: Files, __: InHand) -> tuple[str, list[object]]:
    """Return which ranks stand elsewhere than most."""
    from health.recovery.stacks import MAX_DUMP_BYTES, StackView, group_stacks, outliers_of, parse_dump, rank_in

    view, signatures, names = StackView(), {}, {}
    for path, name in files:
        rank = rank_in(path)
        signatures[rank] = view.signature(parse_dump(read_source(path, max_bytes=MAX_DUMP_BYTES)))
        names[rank] = name
    outliers = outliers_of(group_stacks(signatures))
    few = 0 < len(outliers) <= max(1, len(signatures) // 8) and len(signatures) >= 4
    says = "its stack is not that of most ranks"
    clues = [Clue("stack", "possible", says, names[rank], (), rank=rank) for rank in outliers if few]
    step = "arnold health evict DIR --job job.yaml says which group of machines the stacks point at"
    return f"{len(signatures)} ranks, {len(outliers)} of them elsewhere than most", [*clues, NextStep(step)]


def _nodes(_: str, files: Files, __: InHand) -> tuple[str, list[object]]:
    """Return what monitors say of nodes of Kubernetes."""
    from health.flags.imports import MONITORS, read_reports

    clues, nodes = [], 0
    for path, name in files:
        source = read_source(path, max_bytes=MAX_BYTES)
        for monitor in MONITORS:
            reports = read_reports(source, by=monitor)
            nodes = reports.nodes
            for flag in reports.flags:
                sure: Certainty = "likely" if flag.kind == "faulty" else "possible"
                clues.append(Clue(f"node-{flag.kind}", sure, f"{monitor}: {flag.evidence}", name, (), flag.node))
    return f"{nodes:,} nodes", list(clues)
