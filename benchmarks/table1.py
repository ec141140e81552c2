"""Table 1 of the Arnold paper with its nodes split evenly, against the values it must have."""

from collections.abc import Mapping, Sequence

from benchmarks.report import Promise, promises, section, table
from scheduler.objective import TOLERANCE
from scheduler.placement.types import Limits
from scheduler.study import table1 as study
from scheduler.study.placement_sweep import CaseResult, sweep_placements

Values = Mapping[str, tuple[float, ...]]

OPTIMUM: Values = {"i": (1.2, 1.5, 1.2), "ii": (1.2, 1.5, 1.2), "iii": (1.8, 2.0, 1.6)}
"""Setting -> objective at alpha 0.2, 0.5, 0.8."""

PAPER: Values = {"i": (1.2, 1.5, 1.8), "ii": (1.2, 1.5, 1.8), "iii": (1.8, 3.0, 3.6)}
"""The same for the paper's program, whose placement is scored by Eq. 2."""


def measure(seconds: float) -> tuple[study.Table1Row, ...]:
    """The nine lines of the table.

    :param seconds: time limit of each algorithm on each of them.
    """
    cases = study.cases()
    return study.table1(cases, sweep_placements(cases, study.ALGORITHMS, Limits(seconds=seconds))).settings


def report(rows: Sequence[study.Table1Row]) -> str:
    """Objectives with (S, R), ratios, and the values that must come out."""
    header = ["setting", "alpha", *study.ALGORITHMS, "best baseline / paper", "paper / optimum"]
    lines = [
        [
            row.setting,
            f"{row.alpha:g}",
            *(_found(row.result(name)) for name in study.ALGORITHMS),
            _number(row.baseline_to_paper),
            _number(row.paper_to_exact),
        ]
        for row in rows
    ]
    ours = study.summary([row.baseline_to_paper for row in rows])
    best_fit = study.summary([row.best_fit_to_paper for row in rows])
    proved = sum(row.result(study.EXACT).proved for row in rows)
    return section(
        "Table 1, nodes split evenly (* proved)",
        table(header, lines),
        f"Best baseline over the paper's program: {_number(ours.largest)} at most and {_number(ours.mean)} on average; "
        f"best-fit alone: {_number(best_fit.largest)} and {_number(best_fit.mean)}; "
        f"published: {study.PUBLISHED.largest} and {study.PUBLISHED.mean}.",
        promises(
            ("every optimum proved", f"{proved} of {len(rows)}", proved == len(rows)),
            _promise("optimum", rows, study.EXACT, OPTIMUM),
            _promise("the paper's program", rows, study.PAPER, PAPER),
        ),
    )


def _promise(what: str, rows: Sequence[study.Table1Row], algorithm: str, expected: Values) -> Promise:
    found = {name: [row.result(algorithm).objective for row in rows if row.setting == name] for name in expected}
    same = all(
        value is not None and abs(value - wanted) <= TOLERANCE
        for name, values in expected.items()
        for value, wanted in zip(found[name], values, strict=True)
    )
    return (f"{what} {_settings(expected)}", "the same" if same else _settings(found), same)


def _settings(values: Mapping[str, Sequence[float | None]]) -> str:
    return "; ".join(f"({name}) " + ", ".join(_number(value, 1) for value in row) for name, row in values.items())


def _found(result: CaseResult) -> str:
    if result.objective is None or result.spread is None:
        return result.status
    return f"{result.objective:.1f} ({result.spread.dp}, {result.spread.pp})" + ("*" if result.proved else "")


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
