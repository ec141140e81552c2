"""How often a placement is proved optimal, how large the gap is where it is not, and how long it takes."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from benchmarks.instances import FAMILIES
from benchmarks.report import Promise, promises, section, table
from benchmarks.rows import Campaign, Row
from ground.quantities import percent

SHARE_PROVED, SHARE_TIGHT = 0.98, 0.92
MEAN_GAP = 0.04
MEDIAN_SECONDS = 0.002


def report(campaign: Campaign, rows: Sequence[Row]) -> str:
    """The rows of one algorithm as a table of families, promises and what is left open."""
    groups = [(family, [row for row in rows if row.family == family]) for family in FAMILIES]
    groups = [(family, group) for family, group in groups if group] + [("all", list(rows))]
    header = ["family", "instances", "proved", "share", "mean gap of the rest", "largest", "p50 s", "p85 s", "p99 s"]
    title = f"{campaign.algorithm}: {len(rows)} instances of seed {campaign.seed}, {campaign.seconds:g} s each"
    return section(
        title,
        table(header, [_line(family, group) for family, group in groups]),
        promises(*kept(rows)),
        "Pairs (S, R) refuted: " + _counts(rows) + ".",
        _open(rows),
    )


def kept(rows: Sequence[Row]) -> list[Promise]:
    """The promises of a whole run."""
    share, tight = _share(rows), _share([row for row in rows if row.family == "tight"])
    gap = _mean_gap(rows)
    median = float(np.median([row.seconds for row in rows]))
    without = sum(row.objective is None for row in rows)
    return [
        (f"at least {SHARE_PROVED:.0%} proved optimal", f"{share:.1%}", share >= SHARE_PROVED),
        (f"at least {SHARE_TIGHT:.0%} of the tight ones", f"{tight:.1%}", tight >= SHARE_TIGHT),
        (f"mean gap of the rest at most {MEAN_GAP:.0%}", percent(gap), gap is None or gap <= MEAN_GAP),
        (f"p50 of the solver at most {MEDIAN_SECONDS:g} s", f"{median:.4f} s", median <= MEDIAN_SECONDS),
        ("a valid placement for every instance", f"{len(rows) - without} of {len(rows)}", without == 0),
    ]


def _share(rows: Sequence[Row]) -> float:
    """The share of instances that are proved; none is all of none."""
    return sum(row.proved for row in rows) / len(rows) if rows else 1.0


def _line(family: str, rows: Sequence[Row]) -> list[str]:
    proved = sum(row.proved for row in rows)
    gaps = _gaps(rows)
    quantiles = np.quantile([row.seconds for row in rows], (0.5, 0.85, 0.99))
    return [
        family,
        str(len(rows)),
        str(proved),
        f"{proved / len(rows):.1%}",
        percent(_mean_gap(rows)),
        percent(max(gaps, default=None)),
        *(f"{seconds:.3f}" for seconds in quantiles),
    ]


def _gaps(rows: Sequence[Row]) -> list[float]:
    return [row.gap for row in rows if row.gap is not None and not row.proved]


def _mean_gap(rows: Sequence[Row]) -> float | None:
    gaps = _gaps(rows)
    return fmean(gaps) if gaps else None


def _counts(rows: Sequence[Row]) -> str:
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row.refuted_by)
    return ", ".join(f"{by} {count}" for by, count in total.most_common()) or "none"


def _open(rows: Sequence[Row]) -> str:
    """The instances without a proof, for whoever wants to settle them."""
    left = [row for row in rows if not row.proved]
    if not left:
        return ""
    header = ["instance", "family", "cells", "domains", "alpha", "status", "S", "R", "bound", "gap"]
    lines = [
        [
            str(row.number),
            row.family,
            f"{row.rows}x{row.columns}",
            str(len(row.free)),
            str(row.alpha),
            row.status,
            *("-" if value is None else str(value) for value in (row.dp, row.pp)),
            "-" if row.bound is None else f"{row.bound:.2f}",
            percent(row.gap),
        ]
        for row in left
    ]
    return "Left open:\n\n" + table(header, lines)
