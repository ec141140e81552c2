"""The options that say how machines are compared, shared by ``arnold health peers`` and ``watch``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from arnold.commands.field_options import FILE, finite

if TYPE_CHECKING:
    from health.peers import ComparisonSettings

F = TypeVar("F", bound=Callable[..., Any])


def positive_option(name: str, help: str, **settings: Any) -> Callable[[F], F]:
    """Return an option of a positive, finite number."""
    return click.option(name, type=click.FloatRange(min=0, min_open=True), callback=finite, help=help, **settings)


def detector_options(function: F) -> F:
    """Return what decides whether a machine stands out."""
    for option in (
        click.option("--flags-out", type=FILE, metavar="FILE", help="Write the flags here, for --flags of `place`."),
        click.option("--nodes", metavar="NODE,..", help="Compare only these: names or Slurm hostlists."),
        click.option("--window", type=click.IntRange(2, 1000), help="Samples in a window  [default: 8]"),
        positive_option(
            "--continuity",
            "How long a machine has to stand out  [default: 240; in step times 60]",
            metavar="SECONDS",
        ),
        positive_option("--threshold", "Score of a candidate  [default: by machines, 4 to 14]"),
        click.option("--denoiser", metavar="NAME", help="level (default), median, polynomial, pca, raw, lstm-vae"),
        click.option("--order", metavar="METRIC,..", help="Metrics to ask first  [default: the Minder paper's order]"),
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
    from health.peers import ComparisonSettings, load_denoiser
    from health.peers.metrics import canonical

    said = {"threshold": threshold, "step": step, "window": window, "continuity": continuity}
    given: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    if order is not None:
        given["order"] = tuple(canonical(name) for name in order.split(",") if name.strip())
    if denoiser is not None:
        given["denoiser"] = load_denoiser(denoiser)
    if continuity is not None:
        given["step_time_continuity"] = continuity
    return ComparisonSettings(**given)


def machines_of(nodes: str | None) -> list[str] | None:
    """Return names of ``--nodes``.

    :raises InvalidInput: not a hostlist.
    """
    if nodes is None:
        return None
    from topology.hostlist import expand_hostlist

    return expand_hostlist(nodes, where="--nodes")
