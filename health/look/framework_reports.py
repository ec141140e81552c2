"""What launchers and straggler detectors of frameworks write into a job's log, and how a process of it ended.

A detector's slowest rank is one in every report, as some rank has to be: it is named where it is the same in most of
them, and slower than the next by more than ranks differ.  A process that was aborted or told to end is a victim.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from health.collectives.diagnosis import Certainty
from health.look.evidence import (
    Clue,
    Line,
    NextStep,
    Seat,
    Seen,
    TextFile,
    TextForm,
    Whereabouts,
    clue_by,
    line_rules,
    where,
)
from health.look.job_logs import GLOBAL
from health.look.node_reports import BROKEN_GPU

_ETPT = re.compile(r"MnEtpt/Rnk: ([\d.]+)(?:TF)?/(\d+)\s*\|\s*MxEtpt/Rnk: ([\d.]+)(?:TF)?/(\d+)")
_BOTTOM = re.compile(r"Bottom \d+ Ranks with lowest\s+Etpt\(TF\):\s*(.*)")
_VALUE = re.compile(r"([\d.]+)(?:TF)?/(\d+)")
FEWEST_REPORTS = 3  # Reports in which the same rank must be the slowest
MOSTLY = 0.75  # Share of the reports
SLOW, VERY_SLOW = 1.1, 1.25  # Factors to the fastest (or the usual) from which a rank is possibly, or likely, slow
GAP = 1.06  # Factor to the next slowest: less, and a stage or all of a kind is slow, and no rank


class ThroughputReport(NamedTuple):
    """The ranks with the least throughput in an interval, and the greatest of any, as Megatron-LM estimates them."""

    lowest: tuple[tuple[float, int], ...]  # throughput and rank, the least first
    most: float | None  # None = not said in this line
    line: Line


def read_megatron_stragglers(text: TextFile) -> Iterator[object]:
    """Yield the extremes of each interval."""
    for line in text.lines:
        if match := _ETPT.search(line.text):
            yield ThroughputReport(((float(match[1]), int(match[2])),), float(match[3]), line)
        elif match := _BOTTOM.search(line.text):
            lowest = sorted((float(value), int(rank)) for value, rank in _VALUE.findall(match[1]))
            yield ThroughputReport(tuple(lowest), None, line)


def judge_megatron_stragglers(facts: Sequence[object], _: Whereabouts) -> Iterator[object]:
    """Yield the rank that has the least throughput again and again, by more than ranks differ."""
    reports = [fact for fact in facts if isinstance(fact, ThroughputReport) and fact.lowest and fact.lowest[0][0] > 0]
    slowest = [
        (rank, report.most / least, report.line) for report in reports if report.most for (least, rank) in report.lowest
    ]
    if 0 < len(slowest) < FEWEST_REPORTS:
        what = f"{FEWEST_REPORTS} or more reports of --log-straggler"
        yield NextStep(f"{what}: one interval's slowest rank is no straggler")
    if len(slowest) < FEWEST_REPORTS:
        return
    rank, times = Counter(rank for rank, _, _ in slowest).most_common(1)[0]
    own = [(factor, line) for of, factor, line in slowest if of == rank]
    factor = median(factor for factor, _ in own)
    two = [report.lowest[:2] for report in reports if len(report.lowest) > 1]
    gaps = [second / least for (least, of), (second, _) in two if of == rank]
    if times >= MOSTLY * len(slowest) and factor >= SLOW and (not gaps or median(gaps) >= GAP):
        says = f"has the least throughput in {times} of {len(slowest)} reports, the fastest {factor:.2f} times as much"
        sure: Certainty = "likely" if factor >= VERY_SLOW else "possible"
        yield Clue("slow", sure, says, *where(*(line for _, line in own)), rank=rank, factor=factor)


_SECTION = re.compile(r"^(?:\[\w+\]:)?\s+(\w[\w ./-]*):\s*$")
_RANK_TIME = re.compile(r"\bRank (\d+): ([\d.]+) ?ms")
_WARNED = re.compile(r"STRAGGLER DETECTION WARNING: (Some \w+[^.]*)\. Affected[^:]*: ?(.*)")
_AFFECTED = re.compile(r"rank=(\d+)(?:, ?node='?([\w.-]+)'?)?")
_OF_RANKS = re.compile(r"performing \d+/(\d+) ranks")
_SCORE = re.compile(r"Rank=(\d+) Node=(\S+) Score=([\d.]+)")
_SAID = re.compile(
    r"[Ss]tragglers? (?:detected|ranks?)[^:\d]*: *\[?(\d+(?:, *\d+)*)\]?\s*$|Detected stragglers?: *\[?(\d+(?:, *\d+)*)"
)
LOW_SCORE = 0.75  # Of NVRx, 1 = as fast as the fastest: its own default is 0.7
LOWER = 0.1  # By so much a score must be below the next


def read_straggler_reports(text: TextFile) -> Iterator[object]:
    """Yield clues by the warnings, scores and sections of a detector like NVRx."""
    sections: dict[str, dict[int, list[tuple[float, Line]]]] = defaultdict(lambda: defaultdict(list))
    scores: dict[int, tuple[float, str, Line]] = {}
    section, quiet, ranks_of_job = "", False, 0
    for line in text.lines:
        quiet |= "No stragglers detected" in line.text
        if warned := _WARNED.search(line.text):
            plain = ((rank, "") for rank in re.findall(r"(?<![\w.-])\d+(?![\w.])", warned[2]))
            affected = _AFFECTED.findall(warned[2]) or [*plain]
            sure: Certainty = "likely" if len(affected) <= 2 and "section" not in warned[1] else "possible"
            for rank, node in affected if len(affected) <= 4 else ():
                says = f"the job's detector warns: {warned[1]}"
                yield Clue("slow", sure, says, *where(line), node or None, int(rank))
        elif match := _OF_RANKS.search(line.text):
            ranks_of_job = int(match[1])
        elif match := _SCORE.search(line.text):
            if ranks_of_job:
                yield Seat(int(match[1]), ranks_of_job, match[2], None, None)
            score = float(match[3]), match[2], line
            scores[int(match[1])] = min(score, scores.get(int(match[1]), score), key=lambda score: score[0])
        elif match := _SAID.search(line.text):
            for rank in re.findall(r"\d+", match[1] or match[2]):
                yield Clue("slow", "likely", "the job's detector calls it a straggler", *where(line), rank=int(rank))
        elif match := _RANK_TIME.search(line.text):
            sections[section][int(match[1])].append((float(match[2]), line))
        elif match := _SECTION.match(line.text):
            section = match[1]
    lowest = sorted((score, rank, node, line) for rank, (score, node, line) in scores.items())
    if len(lowest) > 1 and lowest[0][0] < LOW_SCORE and lowest[1][0] - lowest[0][0] >= LOWER:
        score_of, rank_of, node_of, line = lowest[0]
        says = f"the detector's score is {score_of}, the next {lowest[1][0]}"
        yield Clue("slow", "likely", says, *where(line), node_of, rank_of, factor=1 / max(score_of, 0.01))
    for section, ranks in sections.items():
        if quiet or len(ranks) < 4:
            continue
        usual = {rank: median(time for time, _ in times) for rank, times in ranks.items()}
        (slowest, of), (second, _) = sorted(((time, rank) for rank, time in usual.items()), reverse=True)[:2]
        factor = slowest / max(median(usual.values()), 1e-9)
        if factor >= VERY_SLOW and slowest >= SLOW * second:
            says = f"takes {slowest:g} ms for {section}, and the next {second:g} ms"
            yield Clue("slow", "possible", says, *where(*(line for _, line in ranks[of])), rank=of, factor=factor)


_FIELD = re.compile(r"(?:^|[\s>:])(time|host|rank|exitcode) {2,}: (\S+)")
_ERROR = r"\[rank(?P<rank>\d+)\]:(?:\[[^\]]*\])?\s*(?P<error>(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt)): "
_RAISED = re.compile(_ERROR + "(?P<words>.*)")
_OF_OTHERS = re.compile(
    r"Dist\w+Error|NCCL|nccl|[Gg]loo|[Cc]onnection|[Tt]imed? ?out|peer|Broken pipe|SIGTERM|Interrupt|ChildFailed"
    r"|TCPStore|barrier|EOFError|Signal",
)
KILLED = r"(?P<signal>4|7|9|11)\b"  # Illegal instruction, bus error, killed, segmentation fault: no end by others
ENDINGS = line_rules(rf"""
    process-died likely: was ended by signal {{signal}}, the first that mpirun noticed
        process rank (?P<rank>\d+) with PID \d+ on node (?P<node>\S*[^\s.])\.? exited on signal {KILLED}
    node-failure certain: Slurm says that the node failed
        (?:Node failure on|launch (?:for \S+ )?failed on node) (?P<node>[\w.-]+)
    program-out-of-memory likely: task {{task}} ran out of the host's memory
        srun: error: (?P<node>[\w.-]+): task (?P<task>\d+): Out Of Memory
    gpu-error likely: {{words:.120}}
        {_ERROR}(?P<words>.*{BROKEN_GPU}.*)
""")
"""How a process or node ended, in a line of mpirun, Slurm or Python."""


class Raised(NamedTuple):
    """An exception of a rank that is not about others."""

    rank: int
    error: str
    line: Line


def read_endings(text: TextFile) -> Iterator[object]:
    """Yield how processes ended, as torchrun, mpirun, Slurm and Python say it."""
    first: dict[str, tuple[str, Line]] | None = None  # what torchrun says of the failure that it observed first
    for line in text.lines:
        if spoken := GLOBAL.search(line.text):
            yield Seen(int(spoken[1]))
        if "Root Cause" in line.text:
            first = {}
        elif first is not None and (field := _FIELD.search(line.text)):
            first[field[1]] = field[2], line
            if field[1] == "exitcode":
                if first.get("rank", ("",))[0].isdecimal() and (killed := re.fullmatch("-" + KILLED, field[2])):
                    says = f"was ended by signal {killed['signal']}, the first failure that torchrun observed"
                    lines, node = (of for _, of in first.values()), first.get("host", (None,))[0]
                    yield Clue("process-died", "likely", says, *where(*lines), node, int(first["rank"][0]))
                first = None
        elif clue := clue_by(ENDINGS, line):
            yield clue
        elif (raised := _RAISED.search(line.text)) and not _OF_OTHERS.search(raised["error"] + raised["words"]):
            yield Raised(int(raised["rank"]), f"{raised['error']}: {raised['words'][:100]}", line)


def judge_endings(facts: Sequence[object], known: Whereabouts) -> Iterator[object]:
    """Yield ranks that raised an error of their own, where few did and others were there to see."""
    raised = {fact.rank: fact for fact in reversed([fact for fact in facts if isinstance(fact, Raised)])}
    others = known.seen - raised.keys()
    if raised and len(raised) * 2 <= len(others):
        for rank, fact in sorted(raised.items()):
            sure: Certainty = "likely" if len(raised) == 1 else "possible"
            yield Clue("program-exception", sure, fact.error, *where(fact.line), rank=rank)


FRAMEWORK_REPORTS = (
    TextForm(
        "megatron-straggler",
        r"MnEtpt/Rnk|Ranks with lowest\s+Etpt",
        read_megatron_stragglers,
        judge_megatron_stragglers,
    ),
    TextForm(
        "straggler-report",
        r"[Ss]traggler|STRAGGLER|performing \d+/\d+ ranks|Rank=\d+ Node=\S+ Score="
        r"|\bRank \d+: [\d.]+ ?ms|^(?:\[\w+\]:)?\s\s+\w[\w ./-]*:$",
        read_straggler_reports,
        sign=r"Straggler Report|[Ss]tragglers? [Dd]etect|STRAGGLER DETECTION|Rank=\d+ Node=\S+ Score=",
    ),
    TextForm(
        "launcher-log",
        rf"Root Cause|{_FIELD.pattern}|mpirun noticed|srun: error"
        r"|\[rank\d+\]:.*(?:Error|Exception)\b",
        read_endings,
        judge_endings,
        sign=r"Root Cause|exitcode|mpirun noticed|srun: error|(?:Error|Exception)\b",
    ),
)
