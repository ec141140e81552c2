"""Every file of a folder: what it is, what reads it, and whom all of them together suspect.

Text is read line by line, however long it is, by all forms that it holds.  Recordings (of collectives, metrics,
profiles, stacks, nodes) are told by the readers of the detectors' own formats, and all of one format and folder go to
the detector together.  What neither knows is called by its likeliest name, with the command that exports it in a form
that is read.
"""

import os
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from ground.errors import ArnoldError, InvalidInput, few
from ground.files import HEAD, MAX_BYTES, MAX_LINE, ByteStream, Source, is_folder, opened, read_source
from ground.formats import begins_as_json
from ground.groups import grouped
from ground.records import JsonRecord
from health.collectives.diagnosis import PROGRAM, Certainty
from health.look.bandwidth_text import BANDWIDTH_TEXT, judge_pairs
from health.look.evidence import (
    HARDWARE,
    Clue,
    Line,
    NextStep,
    Note,
    Suspect,
    TextFile,
    TextForm,
    Whereabouts,
    gathered,
    suspects_of,
)
from health.look.in_hand import KINDS as IN_HAND
from health.look.in_hand import InHand, read_in_hand
from health.look.job_logs import JOB_LOGS
from health.look.node_reports import NODE_REPORTS
from topology.cluster import Cluster

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
            sets = grouped((_DIGITS.sub("#", path.name), (path, name)) for path, name in files)
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

    sources, broken = [], dict[str, ArnoldError]()
    for path, name in files:
        try:
            sources.append(replace(read_trace(str(path)), name=name))
        except ArnoldError as error:
            broken[name] = error
    if not sources:
        raise next(iter(broken.values()))
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
    left_out = [f"{name} {error.message}" for name, error in broken.items()]
    return "; ".join([*left_out[:3], *diagnosis.notes[:2]]), facts


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


FORMS: tuple[TextForm, ...] = (*JOB_LOGS, *NODE_REPORTS, *BANDWIDTH_TEXT)
"""All forms of text that are read line by line."""

WORDS = (
    *(b"NCCL", b"nccl", b"Xid", b"NVRM", b"ank", b"traggler", b"STRAGGLER", b"Etpt", b":\n", b":\r\n"),
    *(b"srun", b"mpirun", b"Root Cause", b"exitcode", b"host ", b"time ", b"didn't join", b"joined any"),
)
"""Of which each line of a log's forms has one: most lines of a large log have none, and are not looked at twice."""

MOST_FILES = 20_000  # Of a folder: more than a log, a dump and a profile of each of 5,000 ranks
MOST_KEPT = 10_000  # Lines of one form of one file that are kept of its beginning, and as many of its end
LONGEST = 4_000  # Bytes of a line of a log that are looked at
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # First bytes of such a text
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
_TAILS = re.compile(
    r"(?:\.(?:txt|log|out|err|json|gz|old|\d{1,3})"
    r"|[-_.](?:19|20)\d\d[-_]?\d\d[-_]?\d\d(?:[-_T.]\d\d[-_:]?\d\d(?:[-_:]?\d\d)?)?Z?"
    r"|[-_](?:before|after|crash|new|full|tail|errors?|s?xid\d*))+$",
    re.IGNORECASE,
)
"""What ends the name of a file beside what it is of: its kind, rotation and date."""
_NODE = re.compile(r"(?:^|[-_.@])((?:node|host|nid|worker|dgx|hgx|cn)-?[a-z]*\d[\w-]*?)(?=[_.@]|$)", re.IGNORECASE)
"""Names of nodes in names of files: a name of another kind, such as that of a case or an Xid, is none."""
_HOST = (
    r"((?!s?xid|[ahbv]\d+$|gb\d|case|issue|incident|run|test|job|attempt|try|step|part|boot|day|rank|r[1-4]$"
    r"|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\d)[A-Za-z][\w.-]*\d[\w.-]*)"
)
_REPORT = (
    r"(?:dmesg(?:[-_]T)?|kern(?:el)?|syslog|messages|journal(?:ctl)?|(?:dcgmi?[-_])?diag(?:[-_]r\d)?"
    r"|(?:nvidia[-_])?smi(?:[-_]q)?|perfquery)"
)
_OF_NODE = re.compile(rf"{_REPORT}[-_.]{_HOST}|{_HOST}[-_.]{_REPORT}|{_HOST}/{_REPORT}", re.IGNORECASE)
"""Names of reports as they are asked for, dmesg-NODE.txt and NODE/dmesg.txt, and the other way round."""

_TAG = re.compile(
    r"(?:\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|[+-]\d\d:?\d\d)? ?)?"
    r"(?:(?P<task>\[pod/[^]]+\]|\[\d+,\d+\]<\w+>:| *\d+:)|\w{3} [ \d]\d [\d:]{8} (?P<host>\S+) [^ :]+:"
    r"|(?P<node>[A-Za-z][\w.-]*\d[\w.-]*):)?(?: |$|(?<=>:))"
)
"""What srun -l, mpirun, kubectl logs, journald and pdsh put before each line of a document."""

ARCHIVE = re.compile(rb"\A(?:PK\x03\x04|\xfd7zXZ|BZh|\x28\xb5\x2f\xfd|(?s:.{257})ustar)")
"""What is not read, whatever lines are in it: whose file each is of, and so of which node, is lost."""

STRANGERS: tuple[tuple[re.Pattern[bytes], str, str], ...] = (
    (
        re.compile(rb"\A\x80[\x02-\x05]"),
        "a pickle, such as a Flight Recorder dump",
        "JSON where it was written: arnold health collectives --converter > flight_recorder_to_json.py",
    ),
    (re.compile(rb"<nvidia_smi_log>"), "XML of nvidia-smi", "text: nvidia-smi -q"),
    (
        re.compile(rb"Driver Version:.*CUDA Version|\| +NVIDIA-SMI "),
        "the overview of nvidia-smi",
        "text: nvidia-smi -q",
    ),
    (re.compile(rb"Health Monitor Report"), "the report of dcgmi health", "text: dcgmi diag -r 3"),
    (re.compile(rb"\A# gpu +pwr"), "the table of nvidia-smi dmon", "text: nvidia-smi -q, or metrics: dcgm-exporter"),
    (re.compile(rb"nsys-rep|NSight", re.IGNORECASE), "a report of Nsight Systems", "a profile of torch.profiler"),
    (ARCHIVE, "an archive", "its files"),
    (
        re.compile(rb"^(?:(?:kern *:\w+ *: )?\[(?: *\d+\.\d{6}|\w{3} \w{3} .{16})\]|.{9,40} kernel:) ", re.MULTILINE),
        "kernel-log",
        "",
    ),
    (re.compile(rb"NodeGUID|PortGUID|\bmlx5_"), "text about InfiniBand", "counters: ibqueryerrors"),
    (
        re.compile(rb"Thread 0x|#0 +0x|Thread \d+ \(LWP"),
        "stacks of gdb or faulthandler",
        "py-spy dump --pid PID > rank-N.txt",
    ),
    (
        re.compile(rb"NCCL version \d|\[rank\d+\]:|^ ?iteration +\d+/|it/s[,\]]|(?:slurmstepd|srun): ", re.MULTILINE),
        "job-log",
        "",
    ),
)
"""What no form reads: what it looks like, and what to give instead; nothing = a log without a line of any form."""


class LookedAt(JsonRecord):
    """What one file of the folder is."""

    name: str
    """Its name below the folder."""
    kind: str
    """What it is: a name, or several with commas; unknown = nothing that is known."""
    read: bool
    """Whether it was read."""
    note: str = ""
    """What was passed over, or why it was not read and what to give instead; empty = nothing."""


@dataclass(frozen=True, slots=True)
class FolderLook:
    """What a folder holds, and who is suspected."""

    files: tuple[LookedAt, ...]
    suspects: tuple[Suspect, ...]
    next: tuple[str, ...]
    nodes: int  # that the files name


def look_at_folder(
    folder: str, *, given: Mapping[str, Source] | None = None, cluster: Cluster | None = None
) -> FolderLook:
    """Read every file of a folder and of those in it.

    :param given: what is known of the job beside, by the kinds of :mod:`health.look.in_hand`; the folder may hold it.
    :raises ArnoldError: it is no folder, or has no file, or more than can be looked at; what was given cannot be used.
    """
    sources, hand = {**(given or {})}, read_in_hand(given or {}, cluster)
    files = dict[str, LookedAt]()
    facts = defaultdict[str, list[object]](list)
    recordings: Recordings = defaultdict(list)
    for path, name in _files(folder):
        if (of_job := _in_hand(path, name)) is not None:
            files[name], source = of_job
            if source is not None and files[name].kind not in sources:
                sources[files[name].kind] = source
            continue
        files[name], found = _read(path, name, recordings, hand)
        for kind, items in found.items():
            facts[kind] += items
    hand = read_in_hand(sources, cluster)
    for name, kind, note, said in detect_in(recordings, hand):
        known = files[name]
        kinds = [known.kind, kind] if known.read else [kind]
        notes = filter(None, (known.note if known.read else "", note))
        files[name] = LookedAt(name, ", ".join(dict.fromkeys(kinds)), read=said is not None, note="; ".join(notes))
        facts[kind] += said or ()
    known_of = Whereabouts(spell=hand.node)
    said_by_all = list(chain.from_iterable(facts.values()))
    known_of.learn(said_by_all)
    known_of.seats |= hand.seats
    known_of.names |= hand.hosts
    clues, wanted = list[Clue](), dict[str, None]()
    judged = (form.judge(facts[form.kind], known_of) for form in FORMS if form.judge and facts[form.kind])
    of_pairs = judge_pairs(said_by_all, hand.cluster)
    for item in chain(said_by_all, chain.from_iterable(judged), of_pairs):
        match item:
            case Clue():
                clues.append(item)
            case NextStep():
                wanted[item.words] = None
    suspects = suspects_of(clues, known_of)
    for suspect in suspects:
        if suspect.kind in HARDWARE and suspect.node is None and suspect.rank is None:
            form = "call it dmesg-NODE.txt, diag-NODE.txt or smi-NODE.txt"
            wanted[f"say of which node {suspect.why[0].file} is: {form}, or put it into a folder of that name"] = None
    nodes = {seat.node for seat in known_of.seats.values()} | {clue.node for clue in clues if clue.node}
    nodes |= {node for name in files if (node := node_in(name, hand)) is not None}
    wanted |= dict.fromkeys(_by_the_network(suspects, hand.cluster))
    return FolderLook(tuple(files.values()), tuple(suspects), tuple(wanted), len(nodes))


def _by_the_network(suspects: Iterable[Suspect], cluster: Cluster | None) -> Iterator[str]:
    """Yield what the cluster's topology says of suspects: those it does not have, and a domain that several share."""
    if cluster is None:
        return
    accused = {suspect.node: None for suspect in suspects if suspect.node is not None and not suspect.of_program}
    if strange := [node for node in accused if node not in cluster.index_of]:
        yield f"{few(strange)} is no node of the cluster: say which it is, by --node-map with the columns host,node"
    known = [cluster.index(node) for node in accused if node in cluster.index_of]
    if len(known) < 2:
        return
    for level in reversed(cluster.levels):  # the closest that all share, of which the cluster has several
        domains = {int(level.domain_of[node]) for node in known}
        if len(domains) == 1 and len(level.domains) > 1:
            names = few(cluster.names[node] for node in known)
            where = f"{level.name} {level.domains[domains.pop()]}"
            plan = f"arnold health pairs plan --cluster CLUSTER --suspects {','.join(cluster.names[n] for n in known)}"
            yield f"{names} are all in {where}, which may be at fault in their place: {plan}"
            return


def _in_hand(path: Path, name: str) -> tuple[LookedAt, Source | None] | None:
    """Return what a file is that says where ranks run or the degrees, and its text; ``None`` = it is another."""
    if path.suffix.lower() not in (".json", ".csv", ".yaml", ".yml", ".txt") or not path.is_file():
        return None
    with path.open("rb") as file:
        head = file.read(HEAD)
    kind = next((kind for kind, looks in IN_HAND if looks.search(head)), None)
    if kind is None:
        return None
    try:
        source = read_source(str(path))
        read_in_hand({kind: source})
    except ArnoldError as error:
        return LookedAt(name, kind, read=False, note=f"not read: {error.message}"), None
    return LookedAt(name, kind, read=True), source


def _files(folder: str) -> Iterator[tuple[Path, str]]:
    """Yield each file with its name below the folder, in order of names; what is hidden is left out."""
    root = Path(folder)
    if not is_folder(folder):
        problem = "this is a file" if folder and root.exists() else "there is no such folder"
        fix = "give the folder that holds everything of the job: logs, dumps, dmesg, tests"
        raise InvalidInput(problem, where=folder or "''", fix=fix)
    names = []
    for here, folders, of_folder in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        names += [Path(here) / name for name in of_folder if not name.startswith(".")]
        if len(names) > MOST_FILES:
            raise InvalidInput(f"holds more than {MOST_FILES:,} files", where=folder, fix="give a folder of one job")
    if not names:
        raise InvalidInput("holds no file", where=folder, fix="put the job's logs, dumps and reports into it")
    for path in sorted(names):
        yield path, str(path.relative_to(root))


def _read(path: Path, name: str, recordings: Recordings, hand: InHand) -> tuple[LookedAt, dict[str, list[object]]]:
    """Read a file as text of all forms that it holds, and put it to the recordings where it is one."""
    if not path.is_file():
        return LookedAt(name, "no file", read=False), {}
    if path.suffix.lower() == ".md" or path.name.upper() in ("README", "LICENSE", "NOTICE", "README.TXT"):
        return LookedAt(name, "documentation", read=False), {}
    try:
        with opened(path) as (_, raw):
            stream = ByteStream(name, raw)
            kind, is_text = kind_of_recording(stream, path, name, recordings)
            kept = _lines_of(stream) if is_text and not ARCHIVE.search(stream.head) else {}
            head, damaged = stream.head, stream.damaged
    except ArnoldError as error:
        return LookedAt(name, "unknown", read=False, note=error.message), {}
    found, node = {}, node_in(name, hand)
    for form in FORMS:
        lines = kept.get(form.kind)
        if lines and any(re.search(form.sign, line.text) for line in lines):
            texts = _speakers(TextFile(name, lines, node)) if form.document else [TextFile(name, lines, node)]
            found[form.kind] = gathered(chain.from_iterable(map(form.read, texts)))
    notes = [item.words for items in found.values() for item in items if isinstance(item, Note)]
    notes += ["cut off or damaged: what came before was read"] if damaged else []
    if found or kind:
        return LookedAt(name, ", ".join(found) or kind, read=bool(found), note="; ".join(notes)), found
    for looks, what, instead in STRANGERS:
        if looks.search(head):
            if not instead:
                return LookedAt(name, what, read=True, note="nothing in it speaks against anybody"), {}
            note = f"this looks like {what}; not read; export it as {instead}"
            return LookedAt(name, "unknown", read=False, note=note), {}
    empty, binary = not head.strip(), b"\0" in head and not head.startswith(UTF_16)
    what = "empty" if empty else "binary" if binary else "unknown"
    note = "" if empty else "not read: no form of text or recording that is known; arnold formats lists them"
    return LookedAt(name, what, read=False, note="; ".join(filter(None, (note, *notes)))), {}


def _lines_of(stream: ByteStream) -> dict[str, list[Line]]:
    """Return the lines of each form in a text: of a long one the first and the last of them."""
    encoding = "utf-16" if stream.head.startswith(UTF_16) else "utf-8"
    begins = stream.head.decode(encoding, errors="replace").removeprefix("\ufeff")
    documents = [form for form in FORMS if form.document and re.search(form.marks, begins, re.MULTILINE)]
    logs = [(form, re.compile(form.marks)) for form in FORMS if not form.document]
    if encoding == "utf-16":
        decoded = stream.content().getvalue().decode(encoding, errors="replace")
        rows: Iterator[tuple[int, bytes]] = ((k, row.encode()) for k, row in enumerate(decoded.splitlines(True), 1))
    else:
        rows = stream.raw_lines(MAX_LINE if documents else LONGEST)
    kept: dict[str, tuple[list[Line], deque[Line]]] = {}
    for number, data in rows:
        of_log = any(word in data for word in WORDS)
        if not documents and not of_log:
            continue
        text = _STYLE.sub("", data.decode("utf-8", errors="replace")).rstrip().removeprefix("\ufeff")
        of_line = [form for form, marks in logs if marks.search(text[:LONGEST])] if of_log else []
        for form in (*documents, *of_line):
            first, last = kept.setdefault(form.kind, ([], deque(maxlen=MOST_KEPT)))
            (first if len(first) < MOST_KEPT else last).append(Line(number, text, stream.name))
    return {kind: [*first, *last] for kind, (first, last) in kept.items()}


def _speakers(text: TextFile) -> list[TextFile]:
    """Return a document for each that a launcher or collector tagged the lines of, without the tags; else the text."""
    tags = [_TAG.match(line.text) for line in text.lines if line.text]
    if not all(tag is not None and tag[0].strip() for tag in tags):
        return [text]
    texts = defaultdict[tuple[str | None, str | None], list[Line]](list)
    for line, tag in zip((line for line in text.lines if line.text), tags, strict=True):
        assert tag is not None
        texts[tag["task"], tag["node"] or tag["host"]].append(line._replace(text=line.text[tag.end() :]))
    return [TextFile(text.name, lines, node or text.node) for (_, node), lines in texts.items()]


def node_in(name: str, hand: InHand) -> str | None:
    """Return the node that the name of a file or of its folder is of; ``None`` = it names none, or several."""
    for part in reversed(Path(name).parts):
        if (known := hand.node_in(part)) or (known := hand.node_in(part.partition(".")[0])):
            return known
    parts = [_TAILS.sub("", part) for part in Path(name).parts]
    for asked in (_OF_NODE.fullmatch(parts[-1]), _OF_NODE.fullmatch("/".join(parts[-2:]))):
        if asked is not None:
            return asked[asked.lastindex or 0]
    for part in reversed(parts):
        found = {match[1] for match in _NODE.finditer(part)}
        if len(found) == 1:
            return found.pop()
    return None
