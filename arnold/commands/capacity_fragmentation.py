"""``arnold capacity fragmentation``: what still fits, by job shape."""

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
  arnold capacity fragmentation --cluster cluster.csv
  arnold capacity fragmentation --made 22x93 --busy-share 0.8 --html fragmentation.html
  arnold capacity fragmentation --cluster topology.conf --busy busy.txt --shape 8x8 --shape 8x16 --json
"""


@click.command(
    "fragmentation",
    cls=JsonCommand,
    document="arnold.documents.capacity.fragmentation:FragmentationDocument",
    epilog=EXAMPLES,
)
@cluster_or_made_options
@click.option(
    "--shape", "shapes", multiple=True, metavar="TPxPP", help="Shape of jobs; may be repeated  [default: 8x1 .. 8x16]"
)
@click.option("--alpha", type=click.FloatRange(0, 1), callback=finite, default=0.3, show_default=True, metavar="SHARE")
@click.option("--level", metavar="NAME", help="Level whose domains count  [default: the broadest with several]")
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True, max=3_600),
    callback=finite,
    default=0.3,
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
    shapes: tuple[str, ...],
    alpha: float,
    level: str | None,
    time_limit: float,
    **source: Any,
) -> None:
    """Say what still fits, by job shape, and what fragmentation costs against an empty cluster."""
    from arnold.documents.capacity.fragmentation import fragmentation_document
    from simulator.capacity.fragmentation import fragmentation
    from simulator.capacity.fragmentation_sheet import fragmentation_sheet

    cluster, name = cluster_of(**source)
    chosen = shapes_of(shapes, cluster)
    with progress("Shapes", total=len(chosen)) as step:
        answer = fragmentation(
            cluster, source=name, shapes=chosen, alpha=alpha, level=level, seconds=time_limit, step=step
        )
    document = fragmentation_document(answer)
    show(fragmentation_sheet(answer), document, as_json=as_json, html=html, svg=svg)
