"""``arnold capacity reserve``: when a large job would fit, and what reserving for it costs the others."""

from __future__ import annotations

from typing import Any

import click

from arnold.commands.capacity_cluster import check_no_state, cluster_with_notes, sizes_of
from arnold.commands.capacity_show import figure_options, show
from arnold.commands.command import JsonCommand
from arnold.commands.instance import FILE, finite, state_options
from arnold.commands.output import progress

EXAMPLES = """\b
Examples:
  arnold capacity reserve
  arnold capacity reserve --made 6x32 --job 8x8x14 --html reserve.html
  arnold capacity reserve --notice-hours 8 --load 0.8 --policies arnold,fifo-backfill --json
"""

HOURS = click.FloatRange(min=0, min_open=True, max=720)


@click.command(
    "reserve", cls=JsonCommand, document="arnold.documents.capacity.reserve:ReserveDocument", epilog=EXAMPLES
)
@click.option("--cluster", type=FILE, metavar="FILE", help="The cluster, in any known format; the replay empties it.")
@state_options
@click.option(
    "--made", default="22x93", show_default=True, metavar="MxN", help="Without --cluster: minipods and nodes of each."
)
@click.option("--job", default="8x8x150", show_default=True, metavar="TPxPPxROWS", help="The large job, in PP groups.")
@click.option("--notice-hours", type=HOURS, callback=finite, default=4.0, show_default=True, help="Before it arrives.")
@click.option("--run-hours", type=HOURS, callback=finite, default=24.0, show_default=True, help="That it runs.")
@click.option("--after-hours", type=HOURS, callback=finite, default=8.0, show_default=True, help="That others submit.")
@click.option(
    "--load",
    type=click.FloatRange(min=0, min_open=True, max=2),
    callback=finite,
    default=0.9,
    show_default=True,
    metavar="SHARE",
    help="GPU time that the others ask for.",
)
@click.option(
    "--longest-hours", type=HOURS, callback=finite, default=4.0, show_default=True, help="That any of the others runs."
)
@click.option("--policies", default="arnold,arnold-no-reserve,arnold-no-jct", show_default=True, metavar="A,B,..")
@click.option(
    "--predictor",
    default="oracle",
    show_default=True,
    metavar="NAME",
    help="What is known of run times: oracle (all), estimate, history, boosting.",
)
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, metavar="N")
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True, max=60),
    callback=finite,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="To place the large job.",
)
@figure_options
def command(
    *,
    as_json: bool,
    html: str | None,
    svg: str | None,
    cluster: str | None,
    made: str,
    job: str,
    notice_hours: float,
    run_hours: float,
    after_hours: float,
    load: float,
    longest_hours: float,
    policies: str,
    predictor: str,
    seed: int,
    time_limit: float,
    **state: Any,
) -> None:
    """Replay a busy cluster around the announcement of a large job, with and without reserving for it."""
    from arnold.documents.capacity.reserve import reserve_document
    from simulator.capacity.reserve import ReserveQuestion, reserve
    from simulator.capacity.reserve_sheet import reserve_sheet
    from simulator.capacity.shape import parse_job
    from simulator.shapes import node_size

    minipods, minipod_nodes = sizes_of(made)
    own = None
    if cluster is None:
        check_no_state(state)
    else:
        own = cluster_with_notes(cluster, state)
    shape, rows = parse_job(job) if own is None else parse_job(job, gpus_per_node=node_size(own))
    question = ReserveQuestion(
        minipods=minipods,
        minipod_nodes=minipod_nodes,
        shape=shape,
        rows=rows,
        notice_hours=notice_hours,
        run_hours=run_hours,
        after_hours=after_hours,
        load=load,
        longest_hours=longest_hours,
        policies=tuple(dict.fromkeys(name.strip() for name in policies.split(","))),
        predictor=predictor,
        seed=seed,
        seconds=time_limit,
    )
    with progress("Policies", total=len(question.policies)) as step:
        answer = reserve(question, cluster=own, step=step)
    show(reserve_sheet(answer), reserve_document(answer), as_json=as_json, html=html, svg=svg)
