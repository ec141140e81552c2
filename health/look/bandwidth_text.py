"""Bandwidth tests as text: tables of nccl-tests, and lists of pairs of nodes with what was measured.

Tables are compared where operation, number of ranks, number of nodes and message size are the same, and not else.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from health.look.evidence import Clue, NextStep, Note, TextFile, TextForm, Whereabouts
from health.pairs.group_testing import Pair, findings_of

_NODE = r"\"?((?!eth|ib\d|mlx|gpu\d|bond|en[ops]\d|cuda|rank|lo\b)[A-Za-z][\w.-]*\d[\w.-]*|\d+\.\d+\.\d+\.\d+)\"?"
_PAIR = re.compile(
    rf"[ \t]*{_NODE}[ \t]*[,;:|<> \t-]+[ \t]*{_NODE}[ \t,;:=|]+([\d.]+)[ \t]*(?:GB/?p?s)?[ \t\r]*$", re.MULTILINE
)
_HOST = re.compile(r"#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+(\d+)", re.IGNORECASE)
_TEST = re.compile(r"Collective test starting: (\w+)")
_BEGINS = re.compile(r"^\s*#\s*(?:nThread|Collective test starting|Using devices)")
FEWEST_TABLES = 4  # Tests of single nodes that can be compared
SLOWER = 1.12  # Factor from which a node's own test is slow


class MeasuredPair(NamedTuple):
    """A row of a list of pairs, or a table of two nodes."""

    pair: Pair
    file: str
    line: int
    test: str  # what makes tests comparable


class NodeTest(NamedTuple):
    """A table of one node, or of more than two."""

    nodes: tuple[str, ...]
    bandwidth: float
    file: str
    line: int
    test: str


def read_pair_list(text: TextFile) -> Iterator[object]:
    """Yield each pair of a list."""
    for line in text.lines:
        if (match := _PAIR.match(line.text)) and match[1] != match[2]:
            yield MeasuredPair(Pair(match[1], match[2], float(match[3])), text.name, line.number, "pairs")


def read_nccl_tests(text: TextFile) -> Iterator[object]:
    """Yield what each table says of its largest size, and clues by wrong results."""
    hosts, ranks, test, column, last = dict[str, None](), 0, "", None, None

    def table() -> Iterator[object]:
        if last is None or not hosts:
            return
        size, bandwidth, number, wrong = last
        nodes = tuple(hosts)
        kind = f"{test or 'nccl-tests'} of {ranks} ranks on {len(nodes)} nodes, {size} bytes"
        if wrong:
            says = f"{wrong} wrong results of {kind}"
            if len(nodes) == 1:
                yield Clue("wrong-results", "likely", says, text.name, (number,), nodes[0])
            else:
                yield NextStep(f"{says}: find the node by tests of each alone, or arnold health isolate")
        if len(nodes) == 2:
            yield MeasuredPair(Pair(*nodes, bandwidth), text.name, number, kind)
        else:
            yield NodeTest(nodes, bandwidth, text.name, number, kind)

    for line in text.lines:
        words = line.text.split()
        if _BEGINS.match(line.text) and last is not None:
            yield from table()
            hosts, ranks, column, last = {}, 0, None, None
        if match := _TEST.search(line.text):
            test = match[1]
        elif match := _HOST.search(line.text):
            hosts[match[2]] = None
            ranks += 1
        elif line.text.lstrip().startswith("#") and "busbw" in words:
            column = words[1:].index("busbw") if words[0] == "#" else words.index("busbw")
        elif column is not None and len(words) > column + 1 and words[0].isdecimal():
            try:
                wrong = sum(int(word) for word in (words[column + 1], words[-1]) if word.isdecimal())
                row = (int(words[0]), float(words[column]), line.number, wrong)
            except ValueError:
                continue
            worst = wrong + (last[3] if last else 0)
            last = (*max(row[:3], last[:3] if last else row[:3]), worst)
    yield from table()
    if not hosts:
        yield Note("names no node: the lines '#  Rank ... on NODE' at the beginning of the output are missing")


def judge_bandwidths(facts: Sequence[object], _: Whereabouts) -> Iterator[object]:
    """Yield nodes that make pairs slow, by group testing, and nodes slower alone than the others alone."""
    pairs: dict[str, list[MeasuredPair]] = defaultdict(list)
    tests: dict[str, list[NodeTest]] = defaultdict(list)
    for fact in facts:
        if isinstance(fact, MeasuredPair):
            pairs[fact.test].append(fact)
        elif isinstance(fact, NodeTest):
            tests[fact.test].append(fact)
    for measured in pairs.values():
        findings = findings_of([row.pair for row in measured])
        for suspect in findings.suspects:
            rows = [measured[row] for row in suspect.pairs]
            says = f"slow in {len(rows)} of its pairs: {', '.join(f'{row.pair.bandwidth:g} GB/s' for row in rows[:4])}"
            lines = tuple(row.line for row in rows if row.file == rows[0].file)
            yield Clue("slow-link", suspect.sure, says, rows[0].file, lines, suspect.place.name, factor=suspect.factor)
        if findings.suspects and any(suspect.sure == "possible" for suspect in findings.suspects):
            yield NextStep("test what is in doubt: arnold health pairs plan --cluster CLUSTER --results PAIRS.csv")
        for row in measured:
            for node in (row.pair.a, row.pair.b):
                if node in findings.cleared:
                    says = f"{row.pair.bandwidth:g} GB/s with another node"
                    yield Clue("fast-link", "likely", says, row.file, (row.line,), node, clears=True)
    for alone in tests.values():
        usual = median(test.bandwidth for test in alone)
        for test in alone if len(alone) >= FEWEST_TABLES and usual > 0 else ():
            if len(test.nodes) == 1 and test.bandwidth * SLOWER < usual:
                says = f"{test.bandwidth:g} GB/s alone, and {usual:g} usually: {test.test}"
                factor = usual / max(test.bandwidth, 0.01)
                yield Clue("slow-node", "likely", says, test.file, (test.line,), test.nodes[0], factor=factor)
        if len(alone) == 1 and len(alone[0].nodes) > 2:
            nodes = len(alone[0].nodes)
            yield NextStep(f"one test of {nodes} nodes names none: test pairs, arnold health pairs plan --suspects ...")


BANDWIDTH_TEXT = (
    TextForm(
        "nccl-tests",
        re.compile(r"#\s*nThread \d+|#\s*Collective test starting|#\s+size\s+count.*busbw|#\s+Using devices"),
        read_nccl_tests,
        judge_bandwidths,
        document=True,
    ),
    TextForm(
        "bandwidth-pairs",
        re.compile(rf"^{_PAIR.pattern}\n{_PAIR.pattern}", re.MULTILINE),
        read_pair_list,
        judge_bandwidths,
        document=True,
    ),
)
