"""Bandwidth tests as text: tables of nccl-tests, and lists of pairs of nodes with what was measured.

Tables are compared where operation, number and model of GPUs, number of nodes and message size are the same, and not
else.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from ground.groups import grouped
from ground.quantities import plural
from health.look.evidence import Clue, Line, NextStep, Note, TextFile, TextForm, Whereabouts, where
from health.pairs.group_testing import Pair, findings_of
from topology.cluster import Cluster

_NODE = r"\"?((?!eth|ib\d|mlx|gpu\d|bond|en[ops]\d|cuda|rank|lo\b)[A-Za-z][\w.-]*\d[\w.-]*|\d+\.\d+\.\d+\.\d+)\"?"
_PAIR = rf"[ \t]*{_NODE}[ \t]*[,;:|<> \t-]+[ \t]*{_NODE}[ \t,;:=|]+([\d.]+)[ \t]*(?:GB/?p?s)?[ \t\r]*$"
_HOST = re.compile(
    r"#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+\d+(?:\s+\[\S+\]\s*(.*))?", re.IGNORECASE
)
_TEST = re.compile(r"Collective test starting: (\w+)")
_BEGINS = re.compile(r"^\s*#\s*(?:nThread|Collective test starting|Using devices)")
FEWEST_TABLES = 4  # Tests of single nodes that can be compared
SLOWER = 1.12  # Factor from which a node's own test is slow


class Measured(NamedTuple):
    """What a row of a list of pairs, or the table of a test, says."""

    nodes: tuple[str, ...]
    bandwidth: float  # GB/s
    line: Line
    test: str  # what makes tests comparable


def read_pair_list(text: TextFile) -> Iterator[object]:
    """Yield each pair of a list."""
    for line in text.lines:
        if (match := re.match(_PAIR, line.text)) and match[1] != match[2]:
            yield Measured((match[1], match[2]), float(match[3]), line, "pairs")


def read_nccl_tests(text: TextFile) -> Iterator[object]:
    """Yield what each table says of its largest size, and clues by wrong results."""
    hosts, devices, test, column, wrong = list[str](), dict[str, None](), "", None, 0
    largest: tuple[int, float, Line] | None = None  # bytes, bandwidth

    def table() -> Iterator[object]:
        if largest is None or not hosts:
            return
        size, bandwidth, line = largest
        nodes = tuple(dict.fromkeys(hosts))
        of = " and ".join(filter(None, devices)) or "GPUs"
        kind = f"{test or 'nccl-tests'} of {len(hosts)} {of} on {plural(len(nodes), 'node')}, {size} bytes"
        says = f"{wrong} wrong results of {kind}"
        if wrong and len(nodes) == 1:
            yield Clue("wrong-results", "likely", says, *where(line), nodes[0])
        elif wrong:
            yield NextStep(f"{says}: find the node by tests of each alone, or arnold health isolate")
        yield Measured(nodes, bandwidth, line, kind)

    for line in text.lines:
        words = line.text.split()
        if _BEGINS.match(line.text) and largest is not None:
            yield from table()
            hosts, devices, column, largest, wrong = [], {}, None, None, 0
        if match := _TEST.search(line.text):
            test = match[1]
        elif match := _HOST.search(line.text):
            hosts.append(match[2])
            devices[(match[3] or "").strip()] = None
        elif line.text.lstrip().startswith("#") and "busbw" in words:
            column = words[1:].index("busbw") if words[0] == "#" else words.index("busbw")
        elif column is not None and len(words) > column + 1 and words[0].isdecimal():
            try:
                row = (int(words[0]), float(words[column]), line)
            except ValueError:
                continue
            largest = max(row, largest or row)
            wrong += sum(int(word) for word in (words[column + 1], words[-1]) if word.isdecimal())
    yield from table()
    if not hosts:
        yield Note("names no node: the lines '#  Rank ... on NODE' at the beginning of the output are missing")


def judge_tables(facts: Sequence[object], _: Whereabouts) -> Iterator[object]:
    """Yield nodes slower alone than the others alone."""
    tests = grouped((fact.test, fact) for fact in facts if isinstance(fact, Measured) and len(fact.nodes) != 2)
    for alone in tests.values():
        usual = median(test.bandwidth for test in alone)
        for test in alone if len(alone) >= FEWEST_TABLES and usual > 0 else ():
            if len(test.nodes) == 1 and test.bandwidth * SLOWER < usual:
                says = f"{test.bandwidth:g} GB/s alone, and {usual:g} usually: {test.test}"
                factor = usual / max(test.bandwidth, 0.01)
                yield Clue("slow-node", "likely", says, *where(test.line), test.nodes[0], factor=factor)
        if len(alone) == 1 and (nodes := len(alone[0].nodes)) > 2:
            yield NextStep(f"one test of {nodes} nodes names none: test pairs, arnold health pairs plan --suspects ...")


def judge_pairs(facts: Iterable[object], cluster: Cluster | None) -> Iterator[object]:
    """Yield what makes pairs slow, by group testing: nodes, and where the cluster has all of them its uplinks too."""
    tests = grouped((fact.test, fact) for fact in facts if isinstance(fact, Measured) and len(fact.nodes) == 2)
    for measured in tests.values():
        known = cluster if cluster and all(n in cluster.index_of for row in measured for n in row.nodes) else None
        findings = findings_of([Pair(row.nodes[0], row.nodes[1], row.bandwidth) for row in measured], known)
        for suspect in findings.suspects:
            rows, place = [measured[row] for row in suspect.pairs], suspect.place
            bandwidths = ", ".join(f"{row.bandwidth:g} GB/s" for row in rows[:4])
            lines = where(*(row.line for row in rows))
            if place.kind == "node":
                says = f"slow in {len(rows)} of its pairs: {bandwidths}"
                yield Clue("slow-link", suspect.sure, says, *lines, place.name, factor=suspect.factor)
            else:
                says = f"{place.kind} {place}: {len(rows)} pairs over it are slow: {bandwidths}"
                kind = f"slow-{place.kind}"
                yield Clue(kind, suspect.sure, says, *lines, factor=suspect.factor, domain=str(place))
        if any(suspect.sure == "possible" for suspect in findings.suspects):
            yield NextStep("test what is in doubt: arnold health pairs plan --cluster CLUSTER --results PAIRS.csv")
        for row in measured:
            for node in (node for node in row.nodes if node in findings.cleared):
                says = f"{row.bandwidth:g} GB/s with another node"
                yield Clue("fast-link", "likely", says, *where(row.line), node, clears=True)


BANDWIDTH_TEXT = (
    TextForm(
        "nccl-tests",
        r"#\s*nThread \d+|#\s*Collective test starting|#\s+size\s+count.*busbw|#\s+Using devices",
        read_nccl_tests,
        judge_tables,
        document=True,
    ),
    TextForm("bandwidth-pairs", rf"^{_PAIR}\n{_PAIR}", read_pair_list, document=True),
)
