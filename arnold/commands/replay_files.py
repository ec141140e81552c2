"""What ``arnold simulate`` writes besides its numbers: rows of jobs, series over time, a Perfetto trace, the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from annotated_types import Gt

from topology.errors import InvalidInput

if TYPE_CHECKING:
    from simulator.replay import Replay
    from simulator.results.run_history import RunHistory


@dataclass(frozen=True, slots=True)
class ReplayFiles:
    """Files that were asked for."""

    jobs_out: str | None = field(default=None, metadata={"file": True})
    """One row per job: .csv, .parquet or .jsonl."""
    series_out: str | None = field(default=None, metadata={"file": True})
    """The run over time: .csv, .parquet or .jsonl."""
    series_step: Annotated[float, Gt(0)] | None = field(
        default=None, metadata={"metavar": "SECONDS", "default": "at most 480 of a round length"}
    )
    """Length of its buckets."""
    chrome_trace: str | None = field(default=None, metadata={"file": True})
    """Jobs on nodes for Perfetto; .gz packs."""
    html: str | None = field(default=None, metadata={"file": True})
    """One page with the cluster over time; needs no network."""
    compare: str | None = field(default=None, metadata={"file": True})
    """Rows of `arnold study simulate`, shown on the page."""

    def check(self) -> None:
        """Refuse what cannot be, before anything is computed for it.

        :raises InvalidInput: a file whose suffix says no format, or in no folder; two results in one file.
        """
        from arnold.exports.tables import check_suffix

        if self.jobs_out is not None:
            check_suffix(self.jobs_out, "--jobs-out")
        if self.series_out is not None:
            check_suffix(self.series_out, "--series-out")
        if self.compare is not None and self.html is None:
            raise InvalidInput("there is no page to compare on", where="--compare", fix="add --html FILE")
        if self.compare is not None and not Path(self.compare).is_file():
            raise InvalidInput("there is no such file", where=self.compare, fix="check the path")
        if self.series_step is not None and self.series_out is None:
            raise InvalidInput("there is no series to cut", where="--series-step", fix="add --series-out FILE")
        files = [Path(one).absolute() for one in (self.jobs_out, self.series_out, self.chrome_trace, self.html) if one]
        if twice := next((one for one in files if files.count(one) > 1), None):
            raise InvalidInput("two results go to one file", where=str(twice), fix="give each a file of its own")
        for one in files:
            if one.is_dir() or not one.parent.is_dir():
                reason = "it is a folder" if one.is_dir() else f"there is no folder {one.parent}"
                raise InvalidInput(f"cannot be written: {reason}", where=str(one), fix="name a file in a folder")


def write_replay(outputs: ReplayFiles, replay: Replay, past: RunHistory, *, title: str) -> list[str]:
    """Write each file, whole or not at all.

    :param past: of the run.
    :param title: name of the trace.
    :returns: what did not fit, a sentence each.
    """
    if outputs.jobs_out is not None:
        _write_jobs(outputs.jobs_out, past)
    if outputs.series_out is not None:
        _write_series(outputs.series_out, past, outputs.series_step)
    notes = [] if outputs.chrome_trace is None else _write_trace(outputs.chrome_trace, past)
    if outputs.html is not None:
        _write_page(outputs.html, past, replay, title=title, compare=outputs.compare)
    return notes


def _write_jobs(file: str, past: RunHistory) -> None:
    from arnold.exports.tables import JOB_COLUMNS, job_rows, write_rows

    names = () if past.cluster is None else past.cluster.names
    write_rows(file, list(job_rows(past.jobs, names)), JOB_COLUMNS)


def _write_series(file: str, past: RunHistory, step: float | None) -> None:
    from arnold.exports.tables import SERIES_COLUMNS, series_rows, write_rows
    from simulator.results.time_series import time_series

    most = 1_000_000
    if step is not None and past.length / step > most:
        raise InvalidInput(
            f"{step:g} seconds make {past.length / step:,.0f} buckets",
            where="--series-step",
            fix=f"give at least {past.length / most:.3g} seconds",
        )
    write_rows(file, list(series_rows(time_series(past, step=step), past.origin)), SERIES_COLUMNS)


def _write_trace(file: str, past: RunHistory) -> list[str]:
    from arnold.exports.replay_chrome_trace import attempts_to_export, chrome_trace
    from simulator.results.time_series import time_series
    from topology.files import write_file

    chosen = attempts_to_export(past)
    write_file(file, chrome_trace(past, time_series(past), chosen, packed=file.endswith(".gz")))
    if len(chosen) == len(past.attempts):
        return []
    return [f"{file} has the {len(chosen):,} largest of {len(past.attempts):,} runs of jobs: a viewer opens no more."]


def _write_page(file: str, past: RunHistory, replay: Replay, *, title: str, compare: str | None) -> None:
    from arnold.pages.replay import simulation_page
    from arnold.pages.replay.replay_page import Told
    from simulator.results.run_summary import run_summary
    from simulator.study.study_file import read_comparison
    from topology.files import write_file

    summary = run_summary(past)
    told = Told(
        title=title,
        policy=replay.settings.policy,
        algorithm=replay.settings.algorithm,
        dropped=replay.trace.dropped,
        notes=replay.trace.notes,
        fragmentation=summary.fragmentation,
    )
    compared = None if compare is None else read_comparison(compare)
    write_file(file, simulation_page(past, summary, told, compared=compared))
