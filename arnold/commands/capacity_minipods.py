"""``arnold capacity minipods``: how large minipods should be, and what oversubscription costs."""

from __future__ import annotations

import click

from arnold.commands.capacity_show import figure_options, show
from arnold.commands.command import JsonCommand
from arnold.commands.instance import finite
from arnold.commands.output import progress

EXAMPLES = """\b
Examples:
  arnold capacity minipods
  arnold capacity minipods --nodes 4096 --size 128 --size 256 --oversubscription 4 --html minipods.html
  arnold capacity minipods --job 8x16x20 --algorithms exact,gpu-packing --json
"""


@click.command(
    "minipods", cls=JsonCommand, document="arnold.documents.capacity.minipods:MinipodsDocument", epilog=EXAMPLES
)
@click.option("--nodes", type=click.IntRange(8, 100_000), default=2048, show_default=True, help="Of each cluster.")
@click.option(
    "--size", "sizes", multiple=True, type=click.IntRange(1), metavar="N", help="Nodes of a minipod; may be repeated."
)
@click.option(
    "--oversubscription",
    "ratios",
    multiple=True,
    type=click.FloatRange(1, 1000),
    callback=lambda ctx, parameter, values: tuple(finite(ctx, parameter, value) for value in values),
    metavar="RATIO",
    help="Between minipods; may be repeated.",
)
@click.option("--busy-share", type=click.FloatRange(0, 1), callback=finite, default=0.6, show_default=True)
@click.option("--job", "jobs", multiple=True, metavar="TPxPPxROWS", help="A job, in PP groups; may be repeated.")
@click.option("--algorithms", default="exact,best-fit", show_default=True, metavar="A,B,..")
@click.option("--seeds", type=click.IntRange(1, 1000), default=5, show_default=True, help="States of each cluster.")
@click.option("--alpha", type=click.FloatRange(0, 1), callback=finite, default=0.3, show_default=True, metavar="SHARE")
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True, max=3_600),
    callback=finite,
    default=0.5,
    show_default=True,
    metavar="SECONDS",
    help="For each placement.",
)
@figure_options
def command(
    *,
    as_json: bool,
    html: str | None,
    svg: str | None,
    nodes: int,
    sizes: tuple[int, ...],
    ratios: tuple[float, ...],
    busy_share: float,
    jobs: tuple[str, ...],
    algorithms: str,
    seeds: int,
    alpha: float,
    time_limit: float,
) -> None:
    """Say what throughput is left by size of minipod and oversubscription between them."""
    from arnold.documents.capacity.minipods import minipods_document
    from simulator.capacity.minipods import JOBS, MinipodQuestion, minipod_sizes
    from simulator.capacity.minipods_sheet import minipods_sheet
    from simulator.capacity.shape import parse_job

    usual = MinipodQuestion(nodes=2048)
    question = MinipodQuestion(
        nodes=nodes,
        sizes=tuple(dict.fromkeys(sizes)) or tuple(size for size in usual.sizes if size <= nodes),
        ratios=tuple(dict.fromkeys(ratios)) or usual.ratios,
        busy_share=busy_share,
        jobs=tuple(parse_job(job) for job in jobs) or JOBS,
        algorithms=tuple(dict.fromkeys(name.strip() for name in algorithms.split(","))),
        seeds=seeds,
        alpha=alpha,
        seconds=time_limit,
    )
    with progress("Minipods", total=len(question.sizes)) as step:
        answer = minipod_sizes(question, step=step)
    show(minipods_sheet(answer), minipods_document(answer), as_json=as_json, html=html, svg=svg)
