"""``arnold recover standby``: how many machines to keep warm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from arnold.commands.command import JsonCommand
from arnold.commands.field_options import finite
from arnold.commands.output import console, emit_json, table

if TYPE_CHECKING:
    from arnold.documents.recover_answers import StandbyDocument
    from health.recovery.standby import RateRange

EXAMPLES = """\b
Examples:
  arnold recover standby --machines 128 --machines 1024
  arnold recover standby --machines 1200 --rate 0.002 --quantile 0.999
  arnold recover standby --machines 1200 --switch 32 --json
"""


@click.command("standby", cls=JsonCommand, document="arnold.documents.recover_answers:StandbyDocument", epilog=EXAMPLES)
@click.option(
    "--machines",
    required=True,
    multiple=True,
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="Machines of the job; may be repeated.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, 1),
    callback=finite,
    default=0.0012,
    show_default=True,
    metavar="P",
    help="Failures of a machine in a day.",
)
@click.option(
    "--quantile",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    callback=finite,
    default=0.99,
    show_default=True,
    metavar="SHARE",
    help="Share of days whose failures the pool covers.",
)
@click.option(
    "--switch",
    type=click.IntRange(1, 4096),
    metavar="N",
    help="Add the machines of a dead switch; ByteRobust counts 32.",
)
def command(*, as_json: bool, machines: tuple[int, ...], rate: float, quantile: float, switch: int | None) -> None:
    """Say how many machines to keep warm: enough for the failures of all but one day in a hundred.

    Failures of a day are taken as Binomial(machines, rate): each machine fails alone, and the pool is filled up again
    within a day.
    """
    from arnold.documents.recover_answers import PublishedPools, StandbyDocument
    from health.recovery.standby import PUBLISHED, plan_pool, rates_of_pools
    from topology.quantities import plural

    pools = [plan_pool(n, rate=rate, quantile=quantile, switch=switch) for n in machines]
    kept = ", ".join(f"{plural(pool.pool, 'machine')} for {pool.machines:,}" for pool in pools)
    document = StandbyDocument(
        verdict=f"Keep {kept}: enough for {100 * quantile:g} % of days at {rate:g} failures per machine and day.",
        rate=rate,
        quantile=quantile,
        switch=switch,
        pools=tuple(pools),
        published=PublishedPools(dict(PUBLISHED), rates_of_pools(PUBLISHED)),
        notes=(_note(switch),),
    )
    if as_json:
        emit_json(document)
    else:
        _print(document)


def _note(switch: int | None) -> str:
    shared = "Failures that take several machines at once, as a dead switch or a power feed, are not in the binomial"
    if switch is None:
        return f"{shared}; --switch 32 adds one switch."
    return f"{shared}; the last column adds the {switch} machines of one switch."


def _print(document: StandbyDocument) -> None:
    from arnold.commands.output import GOOD, print_sentences

    out = console()
    out.print(document.verdict, style=GOOD)
    switch = [] if document.switch is None else ["with a switch"]
    title = "Warm standby"
    headers = ("machines", "failures a day", "pool", "covers", "same pool for rates", "published", *switch)
    rows = table(*headers, title=title)
    for pool in document.pools:
        published = "-" if pool.published is None else str(pool.published)
        extra = [] if pool.with_switch is None else [str(pool.with_switch)]
        cells = (f"{pool.expected:.3g}", str(pool.pool), f"{pool.coverage:.2%}", _rates(pool.rates), published)
        rows.add_row(f"{pool.machines:,}", *cells, *extra)
    out.print()
    out.print(rows)
    pools = "/".join(map(str, document.published.pools.values()))
    sizes = "/".join(map(str, document.published.pools))
    published = (
        f"Published P99 pools (ByteRobust): {pools} for {sizes}, as rates of {_rates(document.published.rates)} give."
    )
    print_sentences(out, "Notes", [published, *document.notes])


def _rates(rates: RateRange) -> str:
    return f"{rates.low:.4g} to {rates.high:.4g}"
