"""``arnold health peers`` and ``order``: machines compared by recorded metrics, and the order of metrics learnt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import click
from annotated_types import Gt, Interval

from arnold.console.output import answer, emit_json, print_rows, progress, save_flags
from arnold.options.command import JsonCommand
from arnold.options.field_options import FILE, options_of, takes
from arnold.options.shared_options import flags_out_option, html_option, lenient_option, yes_option
from health.peers.sample_sources import SampleColumns

if TYPE_CHECKING:
    from rich.console import Console

    from health.peers.comparison import ComparisonSettings
    from health.peers.verdict import PeersVerdict


F = TypeVar("F", bound=Callable[..., Any])
PAPER_ORDER = "the order of the Minder paper"  # As the help says it


def positive_option(name: str, help: str, **settings: Any) -> Callable[[F], F]:
    """Return an option of a positive, finite number."""
    return click.option(name, type=click.FloatRange(min=0, min_open=True), help=help, **settings)


@dataclass(frozen=True, kw_only=True)
class DetectorOptions:
    """What decides whether a machine stands out; what is not said is as in :class:`ComparisonSettings`."""

    order: tuple[str, ...] = field(
        default=(),
        metadata={"option": "--metric-order", "metavar": "METRIC,..", "separator": ",", "default": PAPER_ORDER},
    )
    """Metrics to look at, in this order."""
    denoiser: str | None = field(default=None, metadata={"metavar": "NAME", "default": "level"})
    """Filter of the samples: level, median, polynomial, pca, raw or lstm-vae."""
    threshold: Annotated[float | None, Gt(0)] = field(
        default=None, metadata={"metavar": "SCORE", "default": "by the number of machines, 4 to 14"}
    )
    """Score from which on a machine stands out."""
    continuity: Annotated[float | None, Gt(0)] = field(
        default=None, metadata={"metavar": "SECONDS", "default": "240, of step times 60"}
    )
    """Seconds for which a machine must stand out."""
    window: Annotated[int | None, Interval(ge=2, le=1000)] = field(
        default=None, metadata={"option": "--window-samples", "default": "8"}
    )
    """Samples in a window."""
    only: str | None = field(default=None, metadata={"metavar": "NODE,..", "default": "all"})
    """Nodes to compare: names or Slurm hostlists."""

    def settings(self, *, step: float | None) -> ComparisonSettings:
        """Return the settings of a comparison, ``step`` the seconds between samples; UnknownName: no such denoiser."""
        from health.peers.comparison import ComparisonSettings
        from health.peers.denoise import load_denoiser
        from health.peers.metrics import canonical

        said = {
            "order": tuple(map(canonical, self.order)) or None,
            "denoiser": None if self.denoiser is None else load_denoiser(self.denoiser),
            "threshold": self.threshold,
            "continuity": self.continuity,
            "step_time_continuity": self.continuity,
            "window": self.window,
            "step": step,
        }
        given: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
        return ComparisonSettings(**given)

    @property
    def machines(self) -> list[str] | None:
        """Names of the nodes to compare, ``None`` = all; InvalidInput: not a hostlist."""
        from topology.node_names import expand_hostlist

        return None if self.only is None else expand_hostlist(self.only, where="--only")


PEERS_EXAMPLES = """\b
Examples:
  arnold health peers metrics.parquet
  arnold health peers metrics.csv --only 'n[0001-0128]' --flags-out flags.json
  arnold health peers job_1_norm.csv --machine-column worker --metric-column none --value-column batch_time_norm
  curl -s "$URL/api/v1/query_range?..." | arnold health peers - --json
  arnold health peers smi/*.csv
"""

ORDER_EXAMPLES = """\b
Examples:
  arnold health order metrics.parquet --fault 1200:1740 --fault 5300:5900
  arnold health peers new.parquet --metric-order pfc_tx_packet_rate,cpu_usage
"""


@click.command("peers", cls=JsonCommand, document="health.peers.verdict:PeersVerdict", epilog=PEERS_EXAMPLES)
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@click.option("--format", metavar="NAME", help="Format of the input.  [default: recognised by content]")
@options_of(DetectorOptions)
@flags_out_option
@yes_option
@positive_option("--sample-interval", "Seconds between samples.  [default: as sampled]", metavar="SECONDS")
@click.option("--all-metrics", is_flag=True, help="Look at all metrics, also after the first alert.")
@lenient_option
@options_of(SampleColumns)
@html_option
@takes(columns=SampleColumns, detector=DetectorOptions)
def peers(
    *,
    as_json: bool,
    html: str | None,
    files: tuple[str, ...],
    format: str | None,
    flags_out: str | None,
    yes: bool,
    sample_interval: float | None,
    all_metrics: bool,
    lenient: bool,
    columns: SampleColumns,
    detector: DetectorOptions,
) -> None:
    """Compare a job's machines with each other by their recorded metrics, after Minder.

    FILEs are Parquet or CSV with a sample a row (time, machine, metric, value) or a column a machine, CSV of nvidia-smi
    (a file a host), JSON answers of Prometheus, or the text of an exporter; - is standard input. A machine whose metric
    stays far from its peers' for minutes is flagged; one moment is shown and not judged.
    """
    from health.peers.comparison import at_moment, detect, is_moment
    from health.peers.recording_files import load_recordings
    from health.peers.verdict import judge

    columns = replace(columns, metric=None) if columns.metric == "none" else columns
    settings = detector.settings(step=sample_interval)
    with progress("Comparing machines") as say:
        recording = load_recordings(files, columns=columns, format=format, machines=detector.machines, lenient=lenient)
        moment = is_moment(recording)
        examined = []
        for one in () if moment else detect(recording, settings, everything=all_metrics):
            say(one.metric)
            examined.append(one)
    verdict = at_moment(recording) if moment else judge(recording, examined)
    save_flags(verdict.flags, flags_out, of=None if yes else verdict.machines)
    answer(verdict, partial(_print, window=settings.window), as_json=as_json, html=html)


@click.command("order", cls=JsonCommand, document="health.peers.metrics:LearntOrder", epilog=ORDER_EXAMPLES)
@click.argument("file", type=FILE)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    required=True,
    metavar="FROM:TO",
    help="When something was wrong, in seconds of the recording.",
)
@lenient_option
def order(*, as_json: bool, file: str, faults: tuple[str, ...], lenient: bool) -> None:
    """Learn from known faults which metric to ask first: a decision tree on how far the farthest machine is.

    FILE is as for `arnold health peers`; --fault says when something was wrong in it, in seconds on its clock. Needs
    scikit-learn: in a clone of Arnold, pip install '.[learn]'.
    """
    from health.peers.metrics import Labelled, learn_order
    from health.peers.recording_files import load_recording

    learnt = learn_order([Labelled(load_recording(file, lenient=lenient), [_interval(text) for text in faults])])
    if as_json:
        emit_json(learnt)
    else:
        click.echo(",".join(learnt.order))


def _interval(text: str) -> tuple[float, float]:
    begin, _, end = text.partition(":")
    try:
        start, stop = float(begin), float(end)
    except ValueError:
        start, stop = 1.0, 0.0
    if not start < stop:
        raise click.BadParameter(f"{text[:40]!r} is not FROM:TO in seconds, such as 1200:1740.", param_hint="--fault")
    return start, stop


def _print(out: Console, found: PeersVerdict, *, window: int) -> None:
    """Print the verdict, and of each metric which machine stood out longest, as an alert counts it.

    :param window: samples of a window.
    """
    from health.peers.comparison import counted_seconds

    out.print(found.verdict, style="bold red" if found.flags else "bold green", soft_wrap=True)
    headers = ("metric", "machines", "sampled", "stood out longest", "for", "alert after", "score")
    rows = []
    for metric in found.metrics:
        longest = metric.stretches[0] if metric.stretches else None
        shown, score = ("-", "-"), "-"
        if longest:
            shown = longest.machine, f"{counted_seconds(longest, step=metric.step, window=window):.0f} s"
            score = f"{longest.score:.1f}"
        rows.append(
            (metric.metric, metric.machines, f"every {metric.step:g} s", *shown, f"{metric.needed:.0f} s", score)
        )
    if any(metric.step for metric in found.metrics):
        print_rows(out, headers, rows, title="Metrics, as asked", left=["stood out longest"])
    for note in found.notes:
        out.print(f"Note: {note}", soft_wrap=True)
