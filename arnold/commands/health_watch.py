"""``arnold health watch``: machines compared again and again over a running Prometheus."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from arnold.commands.health_peers import DetectorOptions, positive_option
from arnold.console.output import as_written, save_flags
from arnold.options.command import JsonCommand
from arnold.options.field_options import file_option, options_of, takes
from arnold.options.shared_options import STORE_HELP, flags_out_option, yes_option
from ground.errors import InvalidInput
from ground.files import read_source
from health.peers.sample_sources import DEFAULT_QUERIES, MACHINE_LABELS, WatchPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from arnold.documents.store_answers import RecordDocument
    from arnold.documents.watch_answer import WatchDocument
    from health.peers.watch import WatchRound
    from topology.flags import NodeFlag

EXAMPLES = """\b
Examples:
  arnold health watch --prometheus http://prometheus:9090 --only 'n[0001-0128]' --flags-out flags.json
  arnold health watch --prometheus $URL --query 'pfc_tx_packet_rate=sum by (node) (rate(tx_prio3_pause[30s]))' --json
  arnold health watch --prometheus $URL --only 'n[0001-0128]' --store flags.db
  arnold health watch --prometheus $URL --once --json
"""


@click.command("watch", cls=JsonCommand, document="arnold.documents.watch_answer:WatchDocument", epilog=EXAMPLES)
@click.option("--prometheus", required=True, metavar="URL", help="Address of the Prometheus server, without /api/v1.")
@click.option(
    "--query",
    "queries",
    multiple=True,
    metavar="METRIC=PROMQL",
    help="Metric and the query that gives it.  [default: the names of known exporters]",
)
@click.option(
    "--machine-label", metavar="LABEL", help="Label that names the machine.  [default: node, Hostname, .., instance]"
)
@file_option("--token-file", help="File with the bearer token for the server.")
@options_of(WatchPlan)
@positive_option("--timeout", "Seconds to wait for an answer.", metavar="SECONDS", default=10.0, show_default=True)
@file_option("--store", help=STORE_HELP)
@click.option("--once", is_flag=True, help="Make one round and end; exit 2 where nothing could be judged.")
@options_of(DetectorOptions)
@flags_out_option
@yes_option
@takes(detector=DetectorOptions, plan=WatchPlan)
def watch(
    *,
    as_json: bool,
    prometheus: str,
    queries: tuple[str, ...],
    machine_label: str | None,
    token_file: str | None,
    timeout: float,
    store: str | None,
    once: bool,
    flags_out: str | None,
    yes: bool,
    detector: DetectorOptions,
    plan: WatchPlan,
) -> None:
    """Compare a job's machines again and again by what a Prometheus server has of them, until SIGTERM.

    With --json, each round is one JSON document on one line. A server that is away is asked again, sooner than usual;
    meanwhile no node is flagged or cleared, nor in a round that finds too many faulty (--yes). --flags-out is rewritten
    after each round that could be judged; with --store the rules of the flag store decide when a flag begins and ends,
    not --hold-hours.
    """
    from datetime import UTC, datetime
    from threading import Event

    from health.peers.watch import Endpoint
    from health.peers.watch import watch as rounds

    endpoint = Endpoint(prometheus, token=_token(token_file), timeout=timeout)
    plan = replace(
        plan,
        queries=_queries(queries) or DEFAULT_QUERIES,
        labels=(machine_label,) if machine_label else MACHINE_LABELS,
        machines=detector.machines,
    )
    settings = detector.settings(step=plan.step)
    if store is not None:
        # A store that cannot be written to is told of before anything is asked.
        _record(store, (), now=datetime.now(UTC))
    stop = Event()
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        for seen in rounds(endpoint, plan, settings, stop=stop):
            made = seen if yes else within_share(seen)
            if made.error is not None and once:
                raise made.error
            _say(_saved(made, store, flags_out), as_json=as_json)
            if once:
                return
    finally:
        signal.signal(signal.SIGTERM, before)


def within_share(made: WatchRound) -> WatchRound:
    """Return a round, or where its flags would take out too many of its machines one that judged nothing."""
    from topology.flag_store import Breaker

    if made.verdict is None:
        return made
    try:
        Breaker(made.verdict.machines).check(made.flags, where="arnold health watch")
    except InvalidInput as error:
        return replace(made, verdict=None, error=error, flags=())
    return made


def _saved(made: WatchRound, store: str | None, flags_out: str | None) -> WatchDocument:
    """Save what a round found, where it could be judged; return its document."""
    from arnold.documents.watch_answer import watch_document

    recorded = None
    if store is not None and made.verdict is not None:
        recorded = _record(store, made.verdict.flags, now=made.at)
    document = watch_document(made, recorded)
    if made.verdict is not None:
        save_flags(document.flags, flags_out)
    return document


def _record(store: str, found: Iterable[NodeFlag], *, now: datetime) -> RecordDocument:
    """Return what a round found, as findings of a flag store.

    The rules of the store say how long they hold, also where the episode is over: it is evidence about the node. A
    machine that does not stand out gets no all-clear: a node that is avoided shows no symptoms.
    """
    from dataclasses import replace

    from arnold.commands.flags.store_commands import changed

    findings = [replace(flag, until=None) for flag in found]
    return changed(store, lambda ledger: ledger.record(findings, now=now), now=now)


def _say(document: WatchDocument, *, as_json: bool) -> None:
    import json
    import sys

    if as_json:
        from ground.records import json_data

        click.echo(json.dumps(as_written(json_data(type(document), document)), allow_nan=False))
    else:
        at = document.at.strftime("%Y-%m-%dT%H:%M:%SZ")
        what = (
            document.verdict
            if document.error is None
            else f"cannot judge: {document.error.where}: {document.error.message}"
        )
        events = document.recorded.events if document.recorded else []
        written = "".join(f"; {event.event} {event.node} in the store" for event in events)
        click.echo(f"{at} {what}{written}")
    sys.stdout.flush()


def _queries(given: tuple[str, ...]) -> Mapping[str, str]:
    from health.peers.metrics import canonical

    found = {}
    for text in given:
        name, equals, query = text.partition("=")
        if not equals or not canonical(name) or not query.strip():
            raise click.BadParameter(f"{text[:60]!r} is not METRIC=PROMQL.", param_hint="--query")
        found[canonical(name)] = query.strip()
    return found


def _token(path: str | None) -> str:
    if path is None:
        return ""
    token = read_source(path, max_bytes=65_536).text.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput(
            "is not a token: one word is wanted", where=path, fix="give a file that holds the token alone"
        )
    return token
