"""Range queries of Prometheus, as its HTTP API answers them (``/api/v1/query_range``, result type ``matrix``).

https://prometheus.io/docs/prometheus/latest/querying/api/#range-queries: a list of series, each with its labels and
its values, ``[seconds, "number"]``.  A file may hold one answer or a list of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from health.peers.metrics import canonical
from health.peers.streams import FloatArray, MetricRecording, Samples
from topology import json_text
from topology.errors import InvalidInput
from topology.files import Source

FIX = "give what /api/v1/query_range returns"

MACHINE_LABELS = ("node", "Hostname", "hostname", "kubernetes_node", "host", "nodename", "instance", "machine")
"""Labels that say which machine a series is of, the first that is there.  ``Hostname`` is dcgm-exporter's."""

UNNAMED = "value"  # The metric of an expression, which has no name in the answer


def read_prometheus(source: Source, *, lenient: bool) -> MetricRecording:
    """Return samples from the text of one answer, or of a list of answers.

    :raises InvalidInput: not JSON, an error of Prometheus, not a matrix, a value that is none.
    """
    data = json_text.parse(source)
    answers = data if isinstance(data, list) else [data]
    series = [one for k, answer in enumerate(answers) for one in matrix(answer, where=f"{source.name}: answer {k + 1}")]
    return from_series([(None, one) for one in series], source=source.name, lenient=lenient)


def matrix(answer: Any, *, where: str) -> list[Any]:
    """Return the series of one answer.

    :raises InvalidInput: Prometheus says what went wrong, or it is something else than a range query's answer.
    """
    if not isinstance(answer, dict):
        raise InvalidInput("is not an answer of Prometheus", where=where, fix=FIX)
    if answer.get("status") == "error":
        raise InvalidInput(
            f"Prometheus refused the query: {str(answer.get('error'))[:300]}", where=where, fix="correct the query"
        )
    body = answer.get("data")
    kind = body.get("resultType") if isinstance(body, dict) else None
    result = body.get("result") if isinstance(body, dict) else None
    if kind != "matrix" or not isinstance(result, list):
        raise InvalidInput(
            f"has the result type {kind!r}, not 'matrix'" if kind else "is not an answer of Prometheus",
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
    """Return a recording from series.

    :param series: name of the metric (``None`` = as the series is labelled) and the series.
    :param labels: which label names the machine, the first that is there.
    :raises InvalidInput: a series without machine, a value that is no number.
    """
    parts: dict[str, list[tuple[str, FloatArray]]] = {}
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
        usable = np.isfinite(values).all(axis=1)
        missing += int((~usable).sum())
        parts.setdefault(canonical(name or given) or UNNAMED, []).append((machine, values[usable]))
    if missing:
        notes.append(f"{missing:,} samples that are no finite number count as missing")
    metrics = {name: _samples(name, found) for name, found in sorted(parts.items())}
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
        values = np.array(one.get("values") or [], dtype=np.float64).reshape(-1, 2)
    except (ValueError, TypeError, OverflowError):
        raise InvalidInput("has a value that is not [seconds, number]", where=where, fix=FIX) from None
    return str(tags.get("__name__", UNNAMED)), name, values


def _samples(metric: str, found: list[tuple[str, FloatArray]]) -> Samples:
    machines = sorted({name for name, _ in found})
    index_of = {name: k for k, name in enumerate(machines)}
    row = np.repeat([index_of[name] for name, _ in found], [len(values) for _, values in found])
    values = np.concatenate([values for _, values in found])
    return Samples(metric, tuple(machines), values[:, 0], row.astype(np.int64), values[:, 1])
