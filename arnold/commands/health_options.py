"""The options that say how machines are compared, shared by ``arnold health peers`` and ``watch``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from arnold.commands.field_options import FILE, finite

if TYPE_CHECKING:
    from health.peers import ComparisonSettings

F = TypeVar("F", bound=Callable[..., Any])

POSITIVE = click.FloatRange(min=0, min_open=True)


def detector_options(function: F) -> F:
    """Return what decides whether a machine stands out."""
    for option in reversed(
        (
            click.option(
                "--order", metavar="METRIC,..", help="Metrics to ask first  [default: the Minder paper's order]"
            ),
            click.option("--denoiser", metavar="NAME", help="level (default), median, polynomial, pca, raw, lstm-vae"),
            click.option(
                "--threshold",
                type=POSITIVE,
                callback=finite,
                help="Score of a candidate  [default: by machines, 4 to 14]",
            ),
            click.option(
                "--continuity",
                type=POSITIVE,
                callback=finite,
                metavar="SECONDS",
                help="How long a machine has to stand out  [default: 240; in step times 60]",
            ),
            click.option("--window", type=click.IntRange(2, 1000), help="Samples in a window  [default: 8]"),
            click.option("--nodes", metavar="NODE,..", help="Compare only these: names or Slurm hostlists."),
            click.option(
                "--flags-out", type=FILE, metavar="FILE", help="Write the flags here, for --flags of `place`."
            ),
        )
    ):
        function = option(function)
    return function


def settings_of(
    *,
    order: str | None,
    denoiser: str | None,
    threshold: float | None,
    continuity: float | None,
    window: int | None,
    step: float | None = None,
) -> ComparisonSettings:
    """Return ComparisonSettings from options; what was not said stays as it is by default.

    :raises UnknownName: no such denoiser.
    """
    from dataclasses import replace

    from health.peers import ComparisonSettings, load_denoiser
    from health.peers.metrics import canonical

    settings = ComparisonSettings(threshold=threshold, step=step)
    if order is not None:
        settings = replace(settings, order=tuple(canonical(name) for name in order.split(",") if name.strip()))
    if denoiser is not None:
        settings = replace(settings, denoiser=load_denoiser(denoiser))
    if continuity is not None:
        settings = replace(settings, continuity=continuity, step_time_continuity=continuity)
    return settings if window is None else replace(settings, window=window)


def machines_of(nodes: str | None) -> list[str] | None:
    """Return names of ``--nodes``.

    :raises InvalidInput: not a hostlist.
    """
    if nodes is None:
        return None
    from topology.hostlist import expand_hostlist

    return expand_hostlist(nodes, where="--nodes")
