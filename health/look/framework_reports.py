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
from health.look.evidence import Clue, Line, NextStep, Seen, TextFile, TextForm, Whereabouts, line_numbers
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
    """The least and greatest throughput of a rank in an interval, as Megatron-LM estimates it."""

    least: float
    rank: int
    most: float
    file: str
    line: Line


class Slowest(NamedTuple):
    """The lowest throughputs of an interval, with their ranks."""

    values: tuple[tuple[float, int], ...]


def read_megatron_stragglers(text: TextFile) -> Iterator[object]:
    """Yield the extremes of each interval."""
    for line in text.lines:
        if match := _ETPT.search(line.text):
            yield ThroughputReport(float(match[1]), int(match[2]), float(match[3]), text.name, line)
        elif match := _BOTTOM.search(line.text):
            yield Slowest(tuple(sorted((float(value), int(rank)) for value, rank in _VALUE.findall(match[1]))))


def judge_megatron_stragglers(facts: Sequence[object], _: Whereabouts) -> Iterator[object]:
    """Yield the rank that has the least throughput again and again, by more than ranks differ."""
    reports = [fact for fact in facts if isinstance(fact, ThroughputReport) and fact.least > 0]
    if not reports:
        return
    rank, times = Counter(report.rank for report in reports).most_common(1)[0]
    own = [report for report in reports if report.rank == rank]
    factor = median(report.most / report.least for report in own)
    gaps = [
        fact.values[1][0] / fact.values[0][0]
        for fact in facts
        if isinstance(fact, Slowest) and len(fact.values) > 1 and fact.values[0][1] == rank and fact.values[0][0] > 0
    ]
    alone = not gaps or median(gaps) >= GAP
    if len(reports) >= FEWEST_REPORTS and times >= MOSTLY * len(reports) and factor >= SLOW and alone:
        says = f"has the least throughput in {times} of {len(reports)} reports, the fastest {factor:.2f} times as much"
        lines = line_numbers(report.line for report in own if report.file == own[0].file)
        yield Clue(
            "slow", "likely" if factor >= VERY_SLOW else "possible", says, own[0].file, lines, rank=rank, factor=factor
        )
    elif len(reports) < FEWEST_REPORTS:
        yield NextStep(
            f"{FEWEST_REPORTS} or more reports of --log-straggler: one interval's slowest rank is no straggler"
        )


_SECTION = re.compile(r"^(?:\[\w+\]:)?\s+(\w[\w ./-]*):\s*$")
_RANK_TIME = re.compile(r"\bRank (\d+): ([\d.]+) ?ms")
_WARNED = re.compile(r"STRAGGLER DETECTION WARNING: (Some \w+[^.]*)\. Affected[^:]*: ?(.*)")
_AFFECTED = re.compile(r"rank=(\d+)(?:, ?node='?([\w.-]+)'?)?")
_SCORE = re.compile(r"Rank=(\d+) Node=(\S+) Score=([\d.]+)")
_SAID = re.compile(
    r"[Ss]tragglers? (?:detected|ranks?)[^:\d]*: *\[?(\d+(?:, *\d+)*)\]?\s*$|Detected stragglers?: *\[?(\d+(?:, *\d+)*)"
)
LOW_SCORE = 0.75  # Of NVRx, 1 = as fast as the fastest: its own default is 0.7
LOWER = 0.1  # By so much a score must be below the next


def read_straggler_reports(text: TextFile) -> Iterator[object]:
    """Yield clues by the warnings, scores and sections of a detector like NVRx."""
    sections: dict[str, dict[int, list[tuple[float, Line]]]] = defaultdict(lambda: defaultdict(list))
    scores: list[tuple[float, int, str, Line]] = []
    section, quiet = "", False
    for line in text.lines:
        quiet |= "No stragglers detected" in line.text
        if warned := _WARNED.search(line.text):
            affected = _AFFECTED.findall(warned[2]) or [
                (rank, "") for rank in re.findall(r"(?<![\w.-])\d+(?![\w.])", warned[2])
            ]
            few = len(affected) <= 2 and "section" not in warned[1]
            sure: Certainty = "likely" if few else "possible"
            says = f"the job's detector warns: {warned[1]}"
            for rank, node in affected if len(affected) <= 4 else ():
                yield Clue("slow", sure, says, text.name, (line.number,), node or None, int(rank))
        elif match := _SCORE.search(line.text):
            scores.append((float(match[3]), int(match[1]), match[2], line))
        elif match := _SAID.search(line.text):
            says = "the job's detector calls it a straggler"
            for rank in re.findall(r"\d+", match[1] or match[2]):
                yield Clue("slow", "likely", says, text.name, (line.number,), rank=int(rank))
        elif match := _RANK_TIME.search(line.text):
            sections[section][int(match[1])].append((float(match[2]), line))
        elif match := _SECTION.match(line.text):
            section = match[1]
    lowest = sorted(
        {rank: (score, rank, node, line) for score, rank, node, line in sorted(scores, key=lambda s: -s[0])}.values(),
        key=lambda s: s[0],
    )
    if len(lowest) > 1 and lowest[0][0] < LOW_SCORE and lowest[1][0] - lowest[0][0] >= LOWER:
        score, rank, node, line = lowest[0]
        says = f"the detector's score is {score}, the next {lowest[1][0]}"
        yield Clue("slow", "likely", says, text.name, (line.number,), node, rank, factor=1 / max(score, 0.01))
    for section, ranks in sections.items():
        if quiet or len(ranks) < 4:
            continue
        usual = {rank: median(time for time, _ in times) for rank, times in ranks.items()}
        (slowest, rank), (second, _) = sorted(((time, rank) for rank, time in usual.items()), reverse=True)[:2]
        if slowest >= VERY_SLOW * median(usual.values()) and slowest >= SLOW * second:
            says = f"takes {slowest:g} ms for {section}, and the next {second:g} ms"
            lines = line_numbers(line for _, line in ranks[rank])
            yield Clue("slow", "possible", says, text.name, lines, rank=rank, factor=slowest / median(usual.values()))


_FIELD = re.compile(r"^\W*(?:\[\w+\]:)?\s*(time|host|rank|exitcode)\s*: (\S+)")
_MPI = re.compile(r"process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+)")
_NODE_FAILED = re.compile(r"Node failure on ([\w.-]+)|launch (?:for \S+ )?failed on node ([\w.-]+)")
_OOM = re.compile(r"srun: error: ([\w.-]+): task (\d+): Out Of Memory")
_RAISED = re.compile(r"\[rank(\d+)\]:(?:\[[^\]]*\])?\s*((?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt)): (.*)")
_OF_OTHERS = re.compile(
    r"Dist\w+Error|NCCL|nccl|[Gg]loo|[Cc]onnection|[Tt]imed? ?out|peer|Broken pipe|SIGTERM|Interrupt|ChildFailed"
    r"|TCPStore|barrier|EOFError|Signal",
)
KILLED = {
    9: "killed",
    7: "ended by a bus error",
    11: "ended by a segmentation fault",
    4: "ended by an illegal instruction",
}


class Raised(NamedTuple):
    """An exception of a rank that is not about others."""

    rank: int
    error: str
    file: str
    line: int


def read_endings(text: TextFile) -> Iterator[object]:
    """Yield how processes ended, as torchrun, mpirun, Slurm and Python say it."""
    first: dict[str, tuple[str, Line]] = {}
    in_root = False
    for line in text.lines:
        if spoken := GLOBAL.search(line.text):
            yield Seen(int(spoken[1]))
        if "Root Cause" in line.text:
            in_root, first = True, {}
        elif in_root and (match := _FIELD.search(line.text)):
            first[match[1]] = (match[2], line)
            if match[1] == "exitcode":
                in_root = False
                yield from _of_torchrun(first, text.name)
        elif match := _MPI.search(line.text):
            if int(match[3]) in KILLED:
                says = f"was {KILLED[int(match[3])]}, the first that mpirun noticed"
                yield Clue(
                    "process-died", "likely", says, text.name, (line.number,), match[2].rstrip("."), int(match[1])
                )
        elif match := _NODE_FAILED.search(line.text):
            says = "Slurm says that the node failed"
            yield Clue("node-failure", "certain", says, text.name, (line.number,), match[1] or match[2])
        elif match := _OOM.search(line.text):
            says = f"task {match[2]} ran out of the host's memory"
            yield Clue("program-out-of-memory", "likely", says, text.name, (line.number,), match[1])
        elif match := _RAISED.search(line.text):
            if BROKEN_GPU.search(match[3]):
                yield Clue("gpu-error", "likely", match[3][:120], text.name, (line.number,), rank=int(match[1]))
            elif not _OF_OTHERS.search(match[2] + match[3]):
                yield Raised(int(match[1]), f"{match[2]}: {match[3][:100]}", text.name, line.number)


def _of_torchrun(fields: dict[str, tuple[str, Line]], file: str) -> Iterator[object]:
    """Yield a clue by the failure that an agent of torchrun saw first, where it is no abort or end by others."""
    code = fields["exitcode"][0].strip("-")
    if fields["exitcode"][0].startswith("-") and code.isdecimal() and int(code) in KILLED and "rank" in fields:
        node = fields["host"][0] if "host" in fields else None
        says = f"was {KILLED[int(code)]}, the first failure that torchrun observed"
        where = line_numbers(line for _, line in fields.values())
        yield Clue("process-died", "likely", says, file, where, node, int(fields["rank"][0]))


def judge_endings(facts: Sequence[object], known: Whereabouts) -> Iterator[object]:
    """Yield ranks that raised an error of their own, where few did and others were there to see."""
    raised = {fact.rank: fact for fact in reversed([fact for fact in facts if isinstance(fact, Raised)])}
    others = known.seen - raised.keys()
    if raised and len(raised) * 2 <= len(others):
        for rank, fact in sorted(raised.items()):
            sure: Certainty = "likely" if len(raised) == 1 else "possible"
            yield Clue("program-exception", sure, fact.error, fact.file, (fact.line,), rank=rank)


FRAMEWORK_REPORTS = (
    TextForm(
        "megatron-straggler",
        re.compile(r"MnEtpt/Rnk|Ranks with lowest\s+Etpt"),
        read_megatron_stragglers,
        judge_megatron_stragglers,
    ),
    TextForm(
        "straggler-report",
        re.compile(
            r"[Ss]traggler|STRAGGLER|Rank=\d+ Node=\S+ Score=|\bRank \d+: [\d.]+ ?ms|^(?:\[\w+\]:)?\s\s+\w[\w ./-]*:$"
        ),
        read_straggler_reports,
        sign=re.compile(r"Straggler Report|[Ss]tragglers? [Dd]etect|STRAGGLER DETECTION|Rank=\d+ Node=\S+ Score="),
    ),
    TextForm(
        "launcher-log",
        re.compile(
            r"Root Cause|^\W*(?:\[\w+\]:)?\s*(?:time|host|rank|exitcode)\s*: |mpirun noticed|srun: error"
            r"|\[rank\d+\]:.*(?:Error|Exception)\b"
        ),
        read_endings,
        judge_endings,
        sign=re.compile(r"Root Cause|exitcode|mpirun noticed|srun: error|(?:Error|Exception)\b"),
    ),
)
