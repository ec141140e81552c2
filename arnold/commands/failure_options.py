"""What goes wrong in a replay, on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from arnold.commands.instance import finite
from topology.errors import InvalidInput

if TYPE_CHECKING:
    from simulator.failures.replay import FailureSettings

F = TypeVar("F", bound=Callable[..., Any])

DEFAULTS: dict[str, Any] = {
    "mix": "llama3",
    "stragglers": 0.0,
    "repair_hours": 24.0,
    "restart": "300",
    "job_checkpoint_interval": None,
    "job_checkpoint_write": 10.0,
    "spares": 0,
}
"""Options that mean nothing without ``--failures``."""


def failure_options(command: F) -> F:
    """``--failures`` and what belongs to it."""
    for option in (
        click.option(
            "--spares",
            type=click.IntRange(0),
            default=DEFAULTS["spares"],
            metavar="N",
            help="Nodes that wait for others to fail  [default: 0]",
        ),
        click.option(
            "--job-checkpoint-write",
            type=click.FloatRange(min=0, min_open=True, max=86_400),
            callback=finite,
            default=DEFAULTS["job_checkpoint_write"],
            metavar="SECONDS",
            help="That writing its checkpoint keeps a job from training  [default: 10]",
        ),
        click.option(
            "--job-checkpoint-interval",
            type=click.FloatRange(min=0, min_open=True, max=1e9),
            callback=finite,
            metavar="SECONDS",
            help="Between the checkpoints of a job  [default: the best for each]",
        ),
        click.option(
            "--restart",
            default=DEFAULTS["restart"],
            metavar="SECONDS|requeue|hot-update",
            help="From a failure to training again  [default: 300]",
        ),
        click.option(
            "--repair-hours",
            type=click.FloatRange(min=0, min_open=True, max=8_766),
            callback=finite,
            default=DEFAULTS["repair_hours"],
            metavar="HOURS",
            help="Until failed hardware is back, on average  [default: 24]",
        ),
        click.option(
            "--stragglers",
            type=click.FloatRange(0, 1_000),
            callback=finite,
            default=DEFAULTS["stragglers"],
            metavar="RATE",
            help="Nodes that become slow, per 1,000 node-days  [default: 0]",
        ),
        click.option(
            "--mix", default=DEFAULTS["mix"], metavar="NAME", help="What fails: llama3 (default), byterobust."
        ),
        click.option(
            "--failures",
            metavar="RATE-or-NAME",
            help="Failures per 1,000 node-days, or rsc-1, rsc-2, llama3, byterobust  [default: nothing fails]",
        ),
    ):
        command = option(command)
    return command


def take_failures(options: dict[str, Any]) -> FailureSettings | None:
    """Take the failure options out of all options.

    :raises InvalidInput: an option that means nothing without ``--failures``.
    :raises UnknownName: no rate or mix is called that.
    """
    given = {name: options.pop(name) for name in DEFAULTS}
    rate = options.pop("failures")
    if rate is None and not given["stragglers"]:
        if changed := [name for name, value in given.items() if value != DEFAULTS[name]]:
            option = "--" + changed[0].replace("_", "-")
            raise InvalidInput("means nothing without --failures", where=option, fix="add for example --failures rsc-1")
        return None
    from simulator.failures.kinds import failure_mix
    from simulator.failures.process import FailureModel
    from simulator.failures.rates import failure_rate
    from simulator.failures.replay import FailureSettings
    from simulator.failures.restart import parse_restart
    from simulator.failures.slowness import Slowness

    model = FailureModel(
        rate=failure_rate(rate or "0"),
        mix=failure_mix(given["mix"]),
        repair_hours=given["repair_hours"],
        slowness=Slowness(given["stragglers"]),
    )
    return FailureSettings(
        model,
        restart=parse_restart(given["restart"]),
        interval=given["job_checkpoint_interval"],
        write=given["job_checkpoint_write"],
        spares=given["spares"],
    )
