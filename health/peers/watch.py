"""The comparison again and again over a running Prometheus: what ``arnold health watch`` does."""

import http.client
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Event
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from ground.errors import ArnoldError, InvalidInput
from health.peers.comparison import ComparisonSettings, detect
from health.peers.prometheus import from_series, matrix, warnings_of
from health.peers.sample_sources import MACHINE_LABELS, WatchPlan
from health.peers.streams import MetricRecording, in_our_units
from health.peers.verdict import PeersVerdict, instant, judge
from topology.flags import NodeFlag

FIRST_RETRY = 15.0  # Seconds until an endpoint that is away is asked again; twice as long each time, at most every
OF_QUERY = (400, 422)  # What Prometheus answers, in JSON, where it is the query that is wrong: bad data, its execution
# Largest answer, bytes: 15 minutes of 12,000 GPUs at one sample a second are about 300 MB
MAX_ANSWER = 512 * 1024 * 1024


class EndpointAway(InvalidInput):
    """Prometheus cannot be reached or does not answer; it may later."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A Prometheus server."""

    url: str  # up to and without /api/v1
    token: str = ""  # bearer token; empty = none
    timeout: float = 10.0  # seconds that a single answer may take

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if "@" in parts.netloc:
            problem = "the address holds a name or password, which would show in every log"
            fix = "give the address without it, and a token with --token-file"
            raise InvalidInput(problem, where="--prometheus", fix=fix)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            fix = "give one such as http://prometheus:9090"
            raise InvalidInput(f"{self.url[:80]!r} is not the address of a server", where="--prometheus", fix=fix)

    def fetch(
        self,
        queries: Mapping[str, str],
        *,
        start: float,
        end: float,
        step: float,
        labels: Collection[str] = MACHINE_LABELS,
        machines: Collection[str] | None = None,
    ) -> MetricRecording:
        """Ask for all metrics over a stretch of time.

        :param queries: metric -> PromQL; one that finds nothing is left out and noted.
        :param start: seconds since 1970; as ``end``.
        :param machines: only these; ``None`` = all.
        :raises EndpointAway: no answer.
        :raises InvalidInput: a query is refused, or no query finds anything.
        """
        answers = {metric: self._range(query, start=start, end=end, step=step) for metric, query in queries.items()}
        series_of = {metric: answer["data"]["result"] for metric, answer in answers.items()}
        series = [(metric, labelled) for metric, several in series_of.items() for labelled in several]
        if not series:
            fix = "give queries with --query METRIC=PROMQL"
            raise InvalidInput("none of the queries finds a series", where=self.url, fix=fix)
        recording = in_our_units(from_series(series, source=self.url, lenient=True, labels=tuple(labels)))
        empty = [metric for metric, several in series_of.items() if not several]
        notes = (f"no series of {', '.join(empty)}",) if empty else ()
        recording = replace(recording, notes=(*recording.notes, *notes, *warnings_of(answers.values())))
        return recording if machines is None else recording.only(machines)

    def _range(self, query: str, *, start: float, end: float, step: float) -> dict[str, Any]:
        form = urlencode({"query": query, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}).encode()
        request = Request(f"{self.url.rstrip('/')}/api/v1/query_range", data=form, method="POST")
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        opener = build_opener(_NoRedirect)
        try:
            with opener.open(request, timeout=self.timeout) as answer:
                data = answer.read(MAX_ANSWER + 1)
        except HTTPError as refused:
            with refused:  # the answer that came with it is open
                data = refused.read(65_536)
            if refused.code not in OF_QUERY or not data.lstrip().startswith(b"{"):
                away = EndpointAway if refused.code >= 500 or refused.code == 429 else InvalidInput
                fix = "check the address and the token"
                raise away(f"answered {refused.code} {refused.reason}", where=self.url, fix=fix) from None
        except (URLError, OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise EndpointAway(f"cannot be reached: {reason}", where=self.url, fix="check the address") from None
        if len(data) > MAX_ANSWER:
            fix = "ask for less: --span, --sample-interval, --only"
            raise InvalidInput("answers with more than 512 MB", where=self.url, fix=fix)
        try:
            found: dict[str, Any] = json.loads(data)
            matrix(found, where=f"{self.url}: {query[:80]}")
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            raise EndpointAway("does not answer in JSON", where=self.url, fix="check the address") from None
        return found


class _NoRedirect(HTTPRedirectHandler):
    """A redirect would turn the POST into a GET, and carry the token elsewhere."""

    def redirect_request(self, *_: object) -> None:
        """Refuse."""


def asked(endpoint: Endpoint, plan: WatchPlan, *, until: float) -> MetricRecording:
    """Ask for what a round looks at that begins at a time, in seconds since 1970; see :meth:`Endpoint.fetch`."""
    return endpoint.fetch(
        plan.queries, start=until - plan.span, end=until, step=plan.step, labels=plan.labels, machines=plan.machines
    )


@dataclass(frozen=True, slots=True)
class WatchRound:
    """One round of a watch."""

    at: datetime  # when it began
    verdict: PeersVerdict | None  # None = there was nothing to judge, and error says why
    error: ArnoldError | None
    # all that hold: those of this round, and earlier ones for as long as WatchPlan.hold_hours says
    flags: tuple[NodeFlag, ...]


def watch(
    endpoint: Endpoint,
    plan: WatchPlan,
    settings: ComparisonSettings,
    *,
    stop: Event,
    now: Callable[[], float] = time.time,
) -> Iterator[WatchRound]:
    """Yield rounds until ``stop`` is set; one that fails flags and clears no machine, and the next comes sooner."""
    held: dict[str, NodeFlag] = {}
    failures = 0
    while not stop.is_set():
        begun = now()
        verdict, error = None, None
        try:
            recording = asked(endpoint, plan, until=begun)
            verdict = judge(recording, list(detect(recording, settings, changed=held)))
        except ArnoldError as problem:
            error = problem
        failures = failures + 1 if isinstance(error, EndpointAway) else 0
        at = instant(begun)
        for flag in verdict.flags if verdict else ():
            # a flag that holds until then, since it was first seen
            before = held.get(flag.node)
            until = at + timedelta(hours=plan.hold_hours)
            since = min(
                (seen.since for seen in (flag, before) if seen is not None and seen.since is not None), default=None
            )
            held[flag.node] = replace(flag, since=since, until=None if flag.needs_repair else until)
        held = {name: flag for name, flag in held.items() if flag.active(at)}
        yield WatchRound(at, verdict, error, tuple(held.values()))
        wait = min(plan.every, FIRST_RETRY * 2.0 ** (failures - 1)) if failures else plan.every
        stop.wait(max(0.0, begun + wait - now()))
