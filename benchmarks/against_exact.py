"""Whether any other algorithm ever finds a better placement than the one under test."""

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from benchmarks.report import promises, section, table
from benchmarks.rows import Row
from scheduler.objective import TOLERANCE


def report(best: str, rows: Mapping[str, Sequence[Row]]) -> str:
    """Every algorithm against one of them, instance by instance.

    :param best: the algorithm under test.
    :param rows: algorithm -> its rows, all over the same instances.
    """
    ours = rows[best]
    lines, beaten = [], 0
    for name, theirs in sorted(rows.items()):
        if name == best:
            continue
        better = [_better(a, b) for a, b in zip(theirs, ours, strict=True)]
        beaten += sum(better)
        lines.append(_line(name, theirs, ours, better=sum(better)))
    header = ["algorithm", "placed", "better", "as good", "mean ratio", "largest ratio", "p50 s"]
    return section(
        f"All other algorithms against {best}: {len(ours)} instances",
        table(header, lines),
        "Ratio: its objective over ours, where it found a placement.",
        promises((f"no algorithm ever better than {best}", f"{beaten} times", beaten == 0)),
    )


def _better(theirs: Row, ours: Row) -> bool:
    if theirs.objective is None:
        return False
    return ours.objective is None or theirs.objective < ours.objective - TOLERANCE


def _line(name: str, theirs: Sequence[Row], ours: Sequence[Row], *, better: int) -> list[str]:
    ratios = [
        a.objective / b.objective
        for a, b in zip(theirs, ours, strict=True)
        if a.objective is not None and b.objective is not None
    ]
    return [
        name,
        str(len(ratios)),
        str(better),
        str(sum(abs(ratio - 1.0) <= TOLERANCE for ratio in ratios)),
        f"{fmean(ratios):.2f}" if ratios else "-",
        f"{max(ratios):.2f}" if ratios else "-",
        f"{np.median([row.seconds for row in theirs]):.3f}",
    ]
