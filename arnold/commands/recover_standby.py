"""``arnold recover standby``: how many machines to keep warm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from arnold.commands.command import JsonCommand
from arnold.commands.field_options import options_of, take
from arnold.commands.output import GOOD, answer, print_rows, print_sentences
from arnold.commands.result_files import html_option
from health.recovery.standby import PUBLISHED, RateRange, StandbyQuestion, plan_pool, rates_of_pools

if TYPE_CHECKING:
    from rich.console import Console

    from arnold.documents.recover_answers import StandbyDocument

EXAMPLES = """\b
Examples:
  arnold recover standby --machines 128 --machines 1024
  arnold recover standby --machines 1200 --rate 0.002 --quantile 0.999
  arnold recover standby --machines 1200 --switch 32 --json
"""


@click.command("standby", cls=JsonCommand, document="arnold.documents.recover_answers:StandbyDocument", epilog=EXAMPLES)
@options_of(StandbyQuestion)
@html_option
def command(*, as_json: bool, html: str | None, **options: Any) -> None:
    """Say how many machines to keep warm: enough for the failures of all but one day in a hundred.

    Failures of a day are taken as Binomial(machines, rate): each machine fails alone, and the pool is filled up again
    within a day.
    """
    from arnold.documents.recover_answers import PublishedPools, StandbyDocument
    from topology.quantities import plural

    question = take(StandbyQuestion, options)
    pools = tuple(plan_pool(question, machines) for machines in question.machines)
    kept = ", ".join(f"{plural(pool.pool, 'machine')} for {pool.machines:,}" for pool in pools)
    enough = f"{100 * question.quantile:g} % of days at {question.rate:g} failures per machine and day"
    document = StandbyDocument(
        verdict=f"Keep {kept}: enough for {enough}.",
        rate=question.rate,
        quantile=question.quantile,
        switch=question.switch,
        pools=pools,
        published=PublishedPools(dict(PUBLISHED), rates_of_pools(PUBLISHED)),
        notes=(_note(question.switch),),
    )
    answer(document, _print, as_json=as_json, html=html)


def _note(switch: int | None) -> str:
    shared = "Failures that take several machines at once, as a dead switch or a power feed, are not in the binomial"
    if switch is None:
        return f"{shared}; --switch 32 adds one switch."
    return f"{shared}; the last column adds the {switch} machines of one switch."


def _print(out: Console, document: StandbyDocument) -> None:
    out.print(document.verdict, style=GOOD)
    switch = [] if document.switch is None else ["with a switch"]
    headers = ("machines", "failures a day", "pool", "covers", "same pool for rates", "published", *switch)
    rows = []
    for one in document.pools:
        published = "-" if one.published is None else one.published
        extra = [] if one.with_switch is None else [one.with_switch]
        covers = (one.pool, f"{one.coverage:.2%}", _rates(one.rates))
        rows.append((f"{one.machines:,}", f"{one.expected:.3g}", *covers, published, *extra))
    print_rows(out, headers, rows, title="Warm standby")
    pools = "/".join(map(str, document.published.pools.values()))
    sizes = "/".join(map(str, document.published.pools))
    rates = _rates(document.published.rates)
    source = f"Published P99 pools (ByteRobust): {pools} for {sizes}, as rates of {rates} give."
    print_sentences(out, "Notes", [source, *document.notes])


def _rates(rates: RateRange) -> str:
    return f"{rates.low:.4g} to {rates.high:.4g}"
