"""Options of commands that compare machines: when one stands out, and what is asked of a Prometheus server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, cast

import click
from annotated_types import Gt, Interval

from arnold.options.field_options import F, file_option, options_of, takes
from ground.errors import InvalidInput
from ground.files import read_source
from health.peers.metrics import canonical
from health.peers.sample_sources import DEFAULT_QUERIES, MACHINE_LABELS, WatchPlan

if TYPE_CHECKING:
    from health.peers.comparison import ComparisonSettings


def positive_option(name: str, help: str, **settings: Any) -> Callable[[F], F]:
    """Return an option of a positive, finite number."""
    return click.option(name, type=click.FloatRange(min=0, min_open=True), help=help, **settings)


@dataclass(frozen=True, kw_only=True)
class DetectorOptions:
    """What decides whether a machine stands out; what is not said is as in :class:`ComparisonSettings`."""

    threshold: Annotated[float | None, Gt(0)] = field(default=None, metadata={"metavar": "SCORE", "default": "7"})
    """Score from which on a machine or a part of it stands out: times the spread of its peers."""
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
        """Return the settings of a comparison, ``step`` the seconds between samples."""
        from health.peers.comparison import ComparisonSettings

        options = {
            "threshold": self.threshold,
            "continuity": self.continuity,
            "step_time_continuity": self.continuity,
            "window": self.window,
            "step": step,
        }
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        return ComparisonSettings(**given)

    @property
    def machines(self) -> list[str] | None:
        """Names of the nodes to compare, ``None`` = all; InvalidInput: not a hostlist."""
        from topology.node_names import expand_hostlist

        return None if self.only is None else expand_hostlist(self.only, where="--only")


def asks_prometheus(command: F) -> F:
    """Give a command what says which metrics are asked of a Prometheus server, of which machines, how often, and how
    they are compared; it gets them as ``endpoint``, ``plan`` and ``settings``.  A command whose flags end by
    themselves has ``hold_hours`` as an option of its own.
    """

    @click.option(
        "--prometheus", required=True, metavar="URL", help="Address of the Prometheus server, without /api/v1."
    )
    @click.option(
        "--query",
        "queries",
        multiple=True,
        metavar="METRIC=PROMQL",
        help="Metric and the query that gives it.  [default: the names of known exporters]",
    )
    @click.option(
        "--machine-label",
        metavar="LABEL",
        help="Label that names the machine.  [default: node, Hostname, .., instance]",
    )
    @file_option("--token-file", help="File with the bearer token for the server.")
    @options_of(WatchPlan, only=("every", "span", "step"))
    @positive_option("--timeout", "Seconds to wait for an answer.", metavar="SECONDS", default=10.0, show_default=True)
    @options_of(DetectorOptions)
    @takes(detector=DetectorOptions, plan=WatchPlan)
    @wraps(command)
    def call(
        *,
        prometheus: str,
        queries: tuple[str, ...],
        machine_label: str | None,
        token_file: str | None,
        timeout: float,
        detector: DetectorOptions,
        plan: WatchPlan,
        **options: Any,
    ) -> Any:
        from health.peers.watch import Endpoint

        token = ""
        if token_file is not None:
            token = read_source(token_file, max_bytes=65_536).text.strip()
            if not token.isascii() or not token.isprintable() or " " in token:
                fix = "give a file that holds the token alone"
                raise InvalidInput("is not a token: one word is wanted", where=token_file, fix=fix)
        query_of: dict[str, str] = {}
        for text in queries:
            name, equals, query = text.partition("=")
            if not equals or not canonical(name) or not query.strip():
                raise click.BadParameter(f"{text[:60]!r} is not METRIC=PROMQL.", param_hint="--query")
            query_of[canonical(name)] = query.strip()
        asked = replace(
            plan,
            queries=query_of or DEFAULT_QUERIES,
            labels=(machine_label,) if machine_label else MACHINE_LABELS,
            machines=detector.machines,
        )
        endpoint = Endpoint(prometheus, token=token, timeout=timeout)
        return command(endpoint=endpoint, plan=asked, settings=detector.settings(step=plan.step), **options)

    return cast("F", call)
