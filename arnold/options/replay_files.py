"""What ``arnold simulate`` writes besides its numbers: rows of jobs, series over time, a Perfetto trace, the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from annotated_types import Gt

from ground.errors import InvalidInput
from ground.files import write_files

if TYPE_CHECKING:
    from simulator.replay import Replay
    from simulator.results import RunSummary, TimeSeries
    from simulator.run_history import RunHistory
    from simulator.sheet import TextTable

PAGE_BUCKETS = 300  # Most buckets of a chart of the page


@dataclass(frozen=True, slots=True)
class ReplayFiles:
    """Files that were asked for."""

    jobs_out: str | None = field(default=None, metadata={"file": "result"})
    """Write a row for each job: .csv, .parquet or .jsonl."""
    series_out: str | None = field(default=None, metadata={"file": "result"})
    """Write the run over time: .csv, .parquet or .jsonl."""
    series_step: Annotated[float, Gt(0)] | None = field(
        default=None, metadata={"metavar": "SECONDS", "default": "at most 480 of a round length"}
    )
    """Seconds of a row of --series-out."""
    chrome_trace: str | None = field(default=None, metadata={"file": "result"})
    """Write a Chrome trace for Perfetto, packed where the name ends in .gz."""
    html: str | None = field(default=None, metadata={"file": "result"})
    """Save a page with tables and drawings: one file that needs no network."""
    study: str | None = field(default=None, metadata={"file": True})
    """Runs that `arnold study simulate --runs-out` saved, to show on the page of --html."""

    def check(self) -> None:
        """Refuse what cannot be, before anything is computed for it.

        :raises InvalidInput: a file whose suffix says no format, or in no folder.
        """
        from arnold.exports.tables import check_suffix

        if self.jobs_out is not None:
            check_suffix(self.jobs_out, "--jobs-out")
        if self.series_out is not None:
            check_suffix(self.series_out, "--series-out")
        if self.study is not None and self.html is None:
            raise InvalidInput("there is no page to compare on", where="--study", fix="add --html FILE")
        if self.study is not None and not Path(self.study).is_file():
            raise InvalidInput("there is no such file", where=self.study, fix="check the path")
        if self.series_step is not None and self.series_out is None:
            raise InvalidInput("there is no series to cut", where="--series-step", fix="add --series-out FILE")
        files = (self.jobs_out, self.series_out, self.chrome_trace, self.html)
        for one in (Path(file).absolute() for file in files if file):
            if one.is_dir() or not one.parent.is_dir():
                reason = "it is a folder" if one.is_dir() else f"there is no folder {one.parent}"
                raise InvalidInput(f"cannot be written: {reason}", where=str(one), fix="name a file in a folder")

    @property
    def buckets(self) -> Mapping[str, tuple[float | None, int]]:
        """The files that show the run over time -> seconds of a bucket (``None`` = a round number), most buckets."""
        from simulator.results import MOST

        cuts = (
            (self.series_out, self.series_step, MOST),
            (self.chrome_trace, None, MOST),
            (self.html, None, PAGE_BUCKETS),
        )
        return {file: (step, most) for file, step, most in cuts if file is not None}


def write_replay(
    outputs: ReplayFiles,
    replay: Replay,
    past: RunHistory,
    summary: RunSummary,
    *,
    tables: Sequence[TextTable],
    series: Mapping[str, TimeSeries],
) -> list[str]:
    """Make all files, then write each, whole or not at all.

    :param past: of the run, as the summary and the tables, which say what it says besides.
    :param series: the same in the :attr:`ReplayFiles.buckets` of each file.
    :returns: what did not fit, a sentence each.
    """
    from arnold.exports.tables import job_table, series_table
    from simulator.start_ups import seconds_by_job

    made: dict[str, str | bytes] = {}
    notes: list[str] = []
    if (file := outputs.jobs_out) is not None:
        startup = {} if replay.startups is None else seconds_by_job(past, replay.startups.log)
        made[file] = job_table(file, past, startup)
    if (file := outputs.series_out) is not None:
        made[file] = series_table(file, series[file], past.origin)
    if (file := outputs.chrome_trace) is not None:
        made[file], notes = _chrome_trace(file, past, series[file])
    if (file := outputs.html) is not None:
        from arnold.pages.replay.replay_page import simulation_page
        from simulator.study import read_comparison

        compared = None if outputs.study is None else read_comparison(outputs.study)
        made[file] = simulation_page(past, summary, replay, series[file], tables=tables, compared=compared)
    write_files(made)
    return notes


def _chrome_trace(file: str, past: RunHistory, over_time: TimeSeries) -> tuple[bytes, list[str]]:
    from arnold.exports.replay_chrome_trace import attempts_to_export, chrome_trace

    chosen, all_of_them = attempts_to_export(past), len(past.attempts)
    content = chrome_trace(past, over_time, chosen, packed=file.endswith(".gz"))
    if len(chosen) == all_of_them:
        return content, []
    return content, [f"{file} has the {len(chosen):,} largest of {all_of_them:,} runs of jobs: a viewer opens no more."]
