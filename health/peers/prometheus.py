"""Metrics from a running Prometheus, by range queries over HTTP (``/api/v1/query_range``)."""

from __future__ import annotations

import http.client
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from health.peers.readers.range_query import MACHINE_LABELS, from_series, matrix
from health.peers.streams import MetricRecording
from topology.errors import InvalidInput

MAX_ANSWER = 512 * 1024 * 1024
"""Largest answer, bytes: 15 minutes of 12,000 GPUs at one sample a second are about 300 MB."""

DEFAULT_QUERIES: Mapping[str, str] = {
    "cpu_usage": '100 * (1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[1m])))',
    "gpu_duty_cycle": "avg by (Hostname) (DCGM_FI_DEV_GPU_UTIL)",
    "gpu_power_draw": "avg by (Hostname) (DCGM_FI_DEV_POWER_USAGE)",
    "gpu_graphics_engine_activity": "avg by (Hostname) (DCGM_FI_PROF_GR_ENGINE_ACTIVE)",
    "gpu_tensor_activity": "avg by (Hostname) (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE)",
    "nvlink_bandwidth": "avg by (Hostname) (DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL)",
}
"""What node-exporter and dcgm-exporter call the paper's metrics.  PFC counters differ from NIC to NIC: give a query."""


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
        :param step: seconds between samples.
        :param labels: which label names the machine.
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
                "answers with more than 512 MB", where=self.url, fix="ask for less: --span, --step, --nodes"
            )
        try:
            return matrix(json.loads(data), where=f"{self.url}: {query[:80]}")
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            raise EndpointAway("does not answer in JSON", where=self.url, fix="check the address") from None


class _NoRedirect(HTTPRedirectHandler):
    """A redirect would turn the POST into a GET, and carry the token elsewhere."""

    def redirect_request(self, *_: object) -> None:
        """Refuse."""
