"""Queries of Prometheus, asked over HTTP or read from a file, and the text of an exporter, which is one scrape.

https://prometheus.io/docs/prometheus/latest/querying/api/#range-queries: a list of series (``matrix``), each with its
labels and its values, ``[seconds, "number"]``; of an instant (``vector``) each has one.  A file may hold one answer or
a list of them.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import numpy as np

from ground import json_text
from ground.errors import InvalidInput
from ground.files import Source
from ground.formats import FileFormat
from ground.quantities import plural
from ground.rows import BadRows, exporter_line
from health.peers.metrics import canonical
from health.peers.sample_sources import MACHINE_LABELS
from health.peers.streams import FloatArray, MetricRecording, Part, samples_of

RANGE = FileFormat(
    "prometheus-range",
    source="answers of Prometheus to range queries (result type matrix), one or a list of them",
    export='curl -s "$URL/api/v1/query_range?query=DCGM_FI_DEV_GPU_UTIL&start=...&end=...&step=1s"',
    read="metric, machine (label node, Hostname, host, instance, ...), all samples; GPUs of a machine as their mean",
    left_out="other labels; samples that are no finite number (counted)",
    marks=('"resulttype"', '"matrix"', '"values"'),
)
VECTOR = FileFormat(
    "prometheus-vector",
    source="answers of Prometheus to instant queries (result type vector), one or a list of them",
    export='curl -s "$URL/api/v1/query?query=DCGM_FI_DEV_GPU_UTIL"',
    read="as of ranges; answers of one moment are shown and not judged",
    left_out="as of ranges",
    marks=('"resulttype"', '"vector"', '"value"'),
)
SCRAPE = FileFormat(
    "exporter-text",
    source="what an exporter writes for Prometheus (dcgm-exporter, node-exporter): one scrape",
    export="curl -s http://NODE:9400/metrics > NODE.prom",
    read="every metric of every machine (label Hostname, node, ..., else the name of the file), at one moment",
    left_out="comments; other labels",
    marks=("# type", "# help"),
)

# What DCGM says where it has no value, such as of a field that a GPU lacks: floats and integers (dcgm_structs.h,
# DCGM_FP64_BLANK, DCGM_INT64_BLANK).  Up to three above it are reasons; so near 2^63 all doubles are this one.
BLANKS = np.array([2.0**47, 2.0**63])
MOST_BLANK = 3.0

FIX = "give what /api/v1/query_range returns"

UNNAMED = "value"  # The metric of an expression, which has no name in the answer
# Largest answer, bytes: 15 minutes of 12,000 GPUs at one sample a second are about 300 MB
MAX_ANSWER = 512 * 1024 * 1024


def read_prometheus(source: Source, *, lenient: bool) -> MetricRecording:
    """Return samples from the text of one answer, or of a list of answers."""
    data = json_text.parse(source)
    answers = data if isinstance(data, list) else [data]
    if answers and all(isinstance(answer, dict) and "metric" in answer for answer in answers):
        series = answers  # as `promtool query range -o json` writes them
    else:
        found = (matrix(answer, where=f"{source.name}: answer {k}") for k, answer in enumerate(answers, 1))
        series = [one for several in found for one in several]
    return from_series([(None, one) for one in series], source=source.name, lenient=lenient)


def read_scrape(source: Source, *, lenient: bool) -> MetricRecording:
    """Return what an exporter wrote at one moment; a machine that no label names is called as the file."""
    bad_rows = BadRows(lenient=lenient)
    lines = (
        (k, line) for k, line in enumerate(source.text.splitlines(), 1) if line.strip() and line.lstrip()[0] != "#"
    )
    told = [line for _, line in bad_rows.keep(lines, exporter_line, source)]
    nameless = {"machine": stem(source.name)}
    series = [
        (None, {"metric": nameless | one.labels | {"__name__": one.name}, "value": [one.time or 0.0, one.value]})
        for one in told
    ]
    found = from_series(series, source=source.name)
    dropped = [f"dropped {count:,} lines: {reason}" for reason, count in bad_rows.dropped.most_common()]
    absolute = bool(told) and all(one.time is not None for one in told)
    return replace(found, absolute=absolute, notes=(*found.notes, *dropped))


def stem(name: str) -> str:
    """Return how a machine or a metric is called by its file: ``n7`` of ``scrapes/n7.prom.gz``."""
    return PurePath(name).name.split(".", 1)[0] or "value"


def matrix(answer: Any, *, where: str) -> list[Any]:
    """Return the series of one answer; what Prometheus says went wrong is an error."""
    if not isinstance(answer, dict):
        raise InvalidInput("is not an answer of Prometheus", where=where, fix=FIX)
    if answer.get("status") == "error":
        raise InvalidInput(
            f"Prometheus refused the query: {str(answer.get('error'))[:300]}", where=where, fix="correct the query"
        )
    body = answer.get("data")
    kind = body.get("resultType") if isinstance(body, dict) else None
    result = body.get("result") if isinstance(body, dict) else None
    if kind not in ("matrix", "vector") or not isinstance(result, list):
        raise InvalidInput(
            f"has the result type {kind!r:.40}, not 'matrix' or 'vector'" if kind else "is not an answer of Prometheus",
            where=where,
            fix=FIX,
        )
    return result


def from_series(
    series: Iterable[tuple[str | None, Any]],
    *,
    source: str,
    lenient: bool = False,
    labels: Sequence[str] = MACHINE_LABELS,
) -> MetricRecording:
    """Return a recording from series, each with the name of its metric (``None`` = as the series is labelled).

    :param labels: which label names the machine, the first that is there.
    :raises InvalidInput: a series without machine, a value that is no number.
    """
    parts: dict[str, list[Part]] = {}
    notes: list[str] = []
    missing = 0
    for k, (name, one) in enumerate(series):
        where = f"{source}: series {k + 1}"
        try:
            given, machine, values = _series(one, where, labels)
        except InvalidInput as error:
            if not lenient:
                raise
            notes.append(f"left out a series: {error.where}: {error.message}")
            continue
        usable = np.isfinite(values).all(axis=1) & (np.abs(values[:, 1:, None] - BLANKS) > MOST_BLANK).all(axis=(1, 2))
        missing += int((~usable).sum())
        values = values[usable]
        part = ([machine], np.zeros(len(values), dtype=np.int64), values[:, 0], values[:, 1])
        parts.setdefault(canonical(name or given) or UNNAMED, []).append(part)
    if missing:
        notes.append(f"missing: {plural(missing, 'sample')} of no finite number, or of DCGM's blank")
    metrics = {name: samples_of(name, found) for name, found in sorted(parts.items())}
    metrics = {name: samples for name, samples in metrics.items() if len(samples.value)}
    if not metrics:
        raise InvalidInput("has no samples", where=source, fix="ask for a time in which the machines were watched")
    return MetricRecording(metrics, True, source, tuple(notes))


def _series(one: Any, where: str, labels: Sequence[str]) -> tuple[str, str, FloatArray]:
    """Return metric, machine and values (samples, 2) of one series."""
    if not isinstance(one, Mapping) or not isinstance(one.get("metric"), Mapping):
        raise InvalidInput("has no labels", where=where, fix=FIX)
    tags = one["metric"]
    label = next((label for label in labels if tags.get(label)), None)
    if label is None:
        raise InvalidInput(
            f"has none of the labels {', '.join(labels)}; its labels are {', '.join(map(str, list(tags)[:8]))}",
            where=where,
            fix="keep the machine's label in the query (`by (node)`), or name it with --machine-label",
        )
    name = str(tags[label])
    if label == "instance":
        name = name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() and ":" in name else name
    try:
        given = one.get("values") or ([one["value"]] if one.get("value") else [])
        values = np.array(given, dtype=np.float64).reshape(-1, 2)
    except (ValueError, TypeError, OverflowError):
        raise InvalidInput("has a value that is not [seconds, number]", where=where, fix=FIX) from None
    return str(tags.get("__name__", UNNAMED)), name, values


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
            raise InvalidInput(
                "the address holds a name or password, which would show in every log",
                where="--prometheus",
                fix="give the address without it, and a token with --token-file",
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput(
                f"{self.url[:80]!r} is not the address of a server",
                where="--prometheus",
                fix="give one such as http://prometheus:9090",
            )

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
        found = {metric: self._range(query, start=start, end=end, step=step) for metric, query in queries.items()}
        series = [(metric, one) for metric, several in found.items() for one in several]
        if not series:
            raise InvalidInput(
                "none of the queries finds a series", where=self.url, fix="give queries with --query METRIC=PROMQL"
            )
        recording = from_series(series, source=self.url, lenient=True, labels=tuple(labels))
        empty = [metric for metric, several in found.items() if not several]
        notes = (f"no series of {', '.join(empty)}",) if empty else ()
        recording = replace(recording, notes=(*recording.notes, *notes))
        return recording if machines is None else recording.only(machines)

    def _range(self, query: str, *, start: float, end: float, step: float) -> list[object]:
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
            if not data.lstrip().startswith(b"{"):
                away = EndpointAway if refused.code >= 500 or refused.code == 429 else InvalidInput
                raise away(
                    f"answered {refused.code} {refused.reason}", where=self.url, fix="check the address and the token"
                ) from None
        except (URLError, OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise EndpointAway(f"cannot be reached: {reason}", where=self.url, fix="check the address") from None
        if len(data) > MAX_ANSWER:
            raise InvalidInput(
                "answers with more than 512 MB", where=self.url, fix="ask for less: --span, --sample-interval, --only"
            )
        try:
            return matrix(json.loads(data), where=f"{self.url}: {query[:80]}")
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            raise EndpointAway("does not answer in JSON", where=self.url, fix="check the address") from None


class _NoRedirect(HTTPRedirectHandler):
    """A redirect would turn the POST into a GET, and carry the token elsewhere."""

    def redirect_request(self, *_: object) -> None:
        """Refuse."""
