"""``arnold capacity spares``: how many spares a job needs for a target ETTR."""

from __future__ import annotations

import click

from arnold.commands.capacity_show import figure_options, show
from arnold.commands.command import JsonCommand
from arnold.commands.instance import finite
from arnold.commands.output import progress

EXAMPLES = """\b
Examples:
  arnold capacity spares --nodes 1200 --target 0.9
  arnold capacity spares --nodes 1200 --failures llama3 --restart hot-update --html spares.html
  arnold capacity spares --nodes 2048 --failures 6.5 --job-checkpoint-write 30 --repair-hours 48 --json
"""


@click.command("spares", cls=JsonCommand, document="arnold.documents.capacity.spares:SparesDocument", epilog=EXAMPLES)
@click.option("--nodes", required=True, type=click.IntRange(1, 1_000_000), metavar="N", help="Nodes of the job.")
@click.option(
    "--target",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    callback=finite,
    default=0.95,
    show_default=True,
    metavar="SHARE",
    help="ETTR to reach.",
)
@click.option(
    "--failures",
    default="rsc-1",
    show_default=True,
    metavar="RATE-or-NAME",
    help="Failures per 1,000 node-days, or rsc-1, rsc-2, llama3, byterobust.",
)
@click.option(
    "--restart",
    default="300",
    show_default=True,
    metavar="SECONDS|requeue|hot-update",
    help="From a failure to training again; by name, ByteRobust's costs and the time to see a failure.",
)
@click.option("--gpus-per-node", type=click.IntRange(1, 4096), default=8, show_default=True, metavar="N")
@click.option(
    "--job-checkpoint-write",
    type=click.FloatRange(min=0, min_open=True, max=86_400),
    callback=finite,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="That writing its checkpoint keeps the job from training.",
)
@click.option(
    "--job-checkpoint-interval",
    type=click.FloatRange(min=0, min_open=True, max=1e9),
    callback=finite,
    metavar="SECONDS",
    help="Productive time between checkpoints  [default: the best]",
)
@click.option(
    "--repair-hours",
    type=click.FloatRange(min=0, min_open=True, max=8_766),
    callback=finite,
    default=24.0,
    show_default=True,
    metavar="HOURS",
    help="Until a failed node is back, on average.",
)
@click.option("--days", type=click.FloatRange(1, 3_660), default=180.0, show_default=True, help="Of each run.")
@click.option("--runs", type=click.IntRange(2, 10_000), default=20, show_default=True, help="Of the Monte Carlo.")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="Same seed, same answer.")
@figure_options
def command(
    *,
    as_json: bool,
    html: str | None,
    svg: str | None,
    nodes: int,
    target: float,
    failures: str,
    restart: str,
    gpus_per_node: int,
    job_checkpoint_write: float,
    job_checkpoint_interval: float | None,
    repair_hours: float,
    days: float,
    runs: int,
    seed: int,
) -> int:
    """Say how many spares a job needs, by formula and by Monte Carlo.

    Exits 3 if no number of spares reaches the target.
    """
    from arnold.documents.capacity.spares import spares_document
    from simulator.capacity.spares import SparesQuestion, spares
    from simulator.capacity.spares_sheet import spares_sheet
    from simulator.failures.rates import failure_rate
    from simulator.failures.restart import parse_restart

    question = SparesQuestion(
        nodes=nodes,
        target=target,
        rate=failure_rate(failures),
        restart=parse_restart(restart).mean_seconds(gpus=nodes * gpus_per_node),
        write=job_checkpoint_write,
        interval=job_checkpoint_interval,
        repair_hours=repair_hours,
        days=days,
        runs=runs,
        seed=seed,
    )
    with progress(f"{nodes:,} nodes") as step:
        answer = spares(question, step=step)
    show(spares_sheet(answer), spares_document(answer), as_json=as_json, html=html, svg=svg)
    return 0 if answer.needed is not None else 3
