"""``arnold capacity grow``: what one more minipod buys."""

from __future__ import annotations

from typing import Any

import click

from arnold.commands.capacity_cluster import cluster_of, cluster_or_made_options, shapes_of
from arnold.commands.capacity_show import figure_options, show
from arnold.commands.command import JsonCommand
from arnold.commands.instance import finite
from arnold.commands.output import progress

EXAMPLES = """\b
Examples:
  arnold capacity grow --made 11x93
  arnold capacity grow --cluster cluster.csv --busy busy.txt --more 1 --more 4 --html grow.html
  arnold capacity grow --cluster cluster.csv --shape 8x16 --policy priority-age --load 0.8 --json
"""


@click.command("grow", cls=JsonCommand, document="arnold.documents.capacity.grow:GrowDocument", epilog=EXAMPLES)
@cluster_or_made_options
@click.option(
    "--more", multiple=True, type=click.IntRange(1, 1000), metavar="N", help="Domains to add; may be repeated."
)
@click.option(
    "--domain-nodes", type=click.IntRange(1, 100_000), metavar="N", help="Of each  [default: as many as most have]"
)
@click.option("--shape", "shapes", multiple=True, metavar="TPxPP", help="Shape of jobs; may be repeated.")
@click.option("--alpha", type=click.FloatRange(0, 1), callback=finite, default=0.3, show_default=True, metavar="SHARE")
@click.option("--level", metavar="NAME", help="Level of the domains  [default: the broadest with several]")
@click.option("--policy", default="fifo-backfill", show_default=True, metavar="NAME", help="Queue policy.")
@click.option(
    "--load",
    type=click.FloatRange(min=0, min_open=True, max=2),
    callback=finite,
    default=1.1,
    show_default=True,
    metavar="SHARE",
    help="GPU time that the workload asks for.",
)
@click.option(
    "--days",
    type=click.FloatRange(min=0, min_open=True, max=366),
    callback=finite,
    default=1.0,
    show_default=True,
    help="Of the workload.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True, max=60),
    callback=finite,
    default=0.3,
    show_default=True,
    metavar="SECONDS",
    help="For each placement by the exact algorithm.",
)
@figure_options
def command(
    *,
    as_json: bool,
    html: str | None,
    svg: str | None,
    more: tuple[int, ...],
    domain_nodes: int | None,
    shapes: tuple[str, ...],
    alpha: float,
    level: str | None,
    policy: str,
    load: float,
    days: float,
    time_limit: float,
    **source: Any,
) -> None:
    """Say what one more minipod buys: waiting, the largest job, the objective of a job."""
    from arnold.documents.capacity.grow import grow_document
    from simulator.capacity.grow import GrowQuestion, grow
    from simulator.capacity.grow_sheet import grow_sheet

    cluster, name = cluster_of(**source)
    question = GrowQuestion(
        more=tuple(sorted(set(more))) or (1, 2),
        nodes=domain_nodes,
        shapes=shapes_of(shapes, cluster),
        alpha=alpha,
        level=level,
        load=load,
        days=days,
        policy=policy,
        seed=source["seed"],
        seconds=time_limit,
    )
    with progress("Clusters", total=len(question.more) + 1) as step:
        answer = grow(cluster, question, source=name, step=step)
    show(grow_sheet(answer), grow_document(answer), as_json=as_json, html=html, svg=svg)
