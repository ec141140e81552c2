"""Answers of Prometheus to queries, and the text of an exporter, which is one scrape.

https://prometheus.io/docs/prometheus/latest/querying/api/#range-queries: a list of series (``matrix``), each with its
labels and its values, ``[seconds, "number"]``; of an instant (``vector``) each has one.  A file may hold one answer or
a list of them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ground import json_text
from ground.errors import InvalidInput
from ground.files import Content, Source
from ground.formats import NEARLY, FileFormat, Marked, begins_as_json
from ground.groups import grouped
from ground.quantities import plural
from ground.rows import BadRows, exporter_line
from health.peers.metrics import canonical, is_code
from health.peers.sample_sources import BLANKS, MACHINE_LABELS, MOST_BLANK, SampleColumns, part_of
from health.peers.streams import FloatArray, MetricRecording, Part, recording_of, row_of, stem
from topology.xids import PROGRAM_XIDS

CONTRADICTS = 0.05  # Share by which two series of one row differ that cannot both be right

FIX = "give what /api/v1/query_range returns"

UNNAMED = "value"  # The metric of an expression, which has no name in the answer


class PrometheusVector(Marked):
    """Reads answers to instant queries."""

    format = FileFormat(
        "prometheus-vector",
        source="answers of Prometheus to instant queries (result type vector), one or a list of them",
        export='curl -s "$URL/api/v1/query?query=DCGM_FI_DEV_GPU_UTIL"',
        read="as of ranges; answers of one moment are shown and not judged",
        left_out="as of ranges",
        marks=('"resulttype"', '"vector"', '"value"'),
    )
    mark = re.compile(r'(?s)\A\s*(?:\{|\[\s*[{\["])(?!.*"matrix").*"vector"')

    def read(self, content: Content, *, columns: SampleColumns, lenient: bool, several: bool) -> MetricRecording:  # noqa: ARG002
        """Return samples from the text of one answer, or of a list of answers."""
        return read_answers(content.text(), lenient=lenient)


class PrometheusRange(PrometheusVector):
    """Reads answers to range queries."""

    format = FileFormat(
        "prometheus-range",
        source="answers of Prometheus to range queries (result type matrix), one or a list of them",
        export='curl -s "$URL/api/v1/query_range?query=DCGM_FI_DEV_GPU_UTIL&start=...&end=...&step=1s"',
        read="metric, machine (label node, Hostname, host, instance, ...), GPU (gpu) or NIC (device), all samples",
        left_out="other labels; samples that are no finite number (counted)",
        marks=('"resulttype"', '"matrix"', '"values"'),
    )

    def likeness(self, head: bytes) -> float:
        """Return whether it is JSON with a matrix; other JSON is asked what is wrong with it."""
        if not begins_as_json(head) or super().likeness(head):
            return 0.0
        return 1.0 if b'"matrix"' in head else NEARLY


class ExporterText(Marked):
    """Reads what an exporter wrote at one moment; a machine that no label names is called as the file."""

    format = FileFormat(
        "exporter-text",
        source="what an exporter writes for Prometheus (dcgm-exporter, node-exporter): one scrape",
        export="curl -s http://NODE:9400/metrics > NODE.prom",
        read="every metric of every machine (label Hostname, node, ..., else the name of the file), at one moment",
        left_out="comments; other labels",
        marks=("# type", "# help"),
    )
    mark = re.compile(r"\A\s*(?:# (?:HELP|TYPE) |[A-Za-z_:][A-Za-z0-9_:]*\{[A-Za-z_])")

    def read(self, content: Content, *, columns: SampleColumns, lenient: bool, several: bool) -> MetricRecording:  # noqa: ARG002
        """Return the samples of one moment."""
        source, bad_rows = content.text(), BadRows(lenient=lenient)
        lines = ((k, line) for k, line in enumerate(source.text.splitlines(), 1) if line.strip())
        samples = (numbered for numbered in lines if numbered[1].lstrip()[0] != "#")
        nameless = {"machine": stem(source.name)}
        series: list[tuple[None, dict[str, Any]]] = []
        absolute = True
        for _, sample in bad_rows.keep(samples, exporter_line, source):
            labels = nameless | sample.labels | {"__name__": sample.name}
            series.append((None, {"metric": labels, "value": [sample.time or 0.0, sample.value]}))
            absolute &= sample.time is not None
        recording = from_series(series, source=source.name)
        dropped = [f"dropped {count:,} lines: {reason}" for reason, count in bad_rows.dropped.most_common()]
        return replace(recording, absolute=absolute, notes=(*recording.notes, *dropped))


def read_answers(source: Source, *, lenient: bool) -> MetricRecording:
    """Return samples from the text of one answer, or of a list of answers."""
    data = json_text.parse(source)
    answers = data if isinstance(data, list) else [data]
    if answers and all(isinstance(answer, dict) and "metric" in answer for answer in answers):
        series = answers  # as `promtool query range -o json` writes them
    else:
        numbered = enumerate(answers, 1)
        series = [labelled for k, answer in numbered for labelled in matrix(answer, where=f"{source.name}: answer {k}")]
    recording = from_series([(None, labelled) for labelled in series], source=source.name, lenient=lenient)
    return replace(recording, notes=(*recording.notes, *warnings_of(answers)))


def warnings_of(answers: Iterable[Any]) -> tuple[str, ...]:
    """Return what Prometheus warns of in answers that it gave all the same: parts of them may be missing."""
    lists = (answer.get("warnings") for answer in answers)
    said = (text for listed in lists if isinstance(listed, list) for text in listed)
    return tuple(f"Prometheus warns: {text[:300]}" for text in dict.fromkeys(map(str, said)))


def matrix(answer: Any, *, where: str) -> list[Any]:
    """Return the series of one answer; what Prometheus says went wrong is an error."""
    if not isinstance(answer, dict):
        raise InvalidInput("is not an answer of Prometheus", where=where, fix=FIX)
    if answer.get("status") == "error":
        fix = "correct the query"
        raise InvalidInput(f"Prometheus refused the query: {str(answer.get('error'))[:300]}", where=where, fix=fix)
    body = answer.get("data")
    kind = body.get("resultType") if isinstance(body, dict) else None
    result = body.get("result") if isinstance(body, dict) else None
    if kind and kind not in ("matrix", "vector"):
        raise InvalidInput(f"has the result type {kind!r:.40}, not 'matrix' or 'vector'", where=where, fix=FIX)
    if not kind or not isinstance(result, list):
        raise InvalidInput("is not an answer of Prometheus", where=where, fix=FIX)
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
    counted: dict[tuple[str, str], list[tuple[int, FloatArray]]] = {}  # how often each code came, by metric and row
    of_machines: dict[str, tuple[str, str]] = {}
    notes: list[str] = []
    missing = 0
    for number, (metric, labelled) in enumerate(series, 1):
        try:
            named, machine, values = _series(labelled, f"{source}: series {number}", labels)
        except InvalidInput as error:
            if not lenient:
                raise
            notes.append(f"left out a series: {error.where}: {error.message}")
            continue
        usable = np.isfinite(values).all(axis=1) & (np.abs(values[:, 1:, None] - BLANKS) > MOST_BLANK).all(axis=(1, 2))
        missing += int((~usable).sum())
        values = values[usable]
        row = row_of(machine, part_of(labelled["metric"]), of_machines)
        name, code = canonical(metric or named) or UNNAMED, str(labelled["metric"].get("xid", ""))
        if is_code(name) and re.fullmatch(r"[0-9]{1,4}", code):
            counted.setdefault((name, row), []).append((int(code), values))
        else:
            part = ([row], np.zeros(len(values), dtype=np.int64), values[:, 0], values[:, 1])
            parts.setdefault(name, []).append(part)
    for (name, row), of_codes in counted.items():
        parts.setdefault(name, []).append(_codes_of(row, of_codes))
    doubted = sum(_leave_out_contradictions(of_metric) for of_metric in parts.values())
    if doubted:
        notes.append(f"missing: {plural(doubted, 'sample')} of which series of one machine say different values")
    if missing:
        notes.append(f"missing: {plural(missing, 'sample')} of no finite number, or of DCGM's blank")
    fix = "ask for a time in which the machines were watched"
    return recording_of(parts, absolute=True, source=source, notes=notes, of_machines=of_machines, fix=fix)


def _codes_of(row: str, of_codes: Sequence[tuple[int, FloatArray]]) -> Part:
    """Return the codes of a row whose exporter counts each in a series of its own, as DCGM_EXP_XID_ERRORS_COUNT does:
    at each time one of those that came, of a device before a program's; 0 = none.
    """
    times = np.unique(np.concatenate([values[:, 0] for _, values in of_codes]))
    codes = np.zeros(len(times))
    for code, values in sorted(of_codes, key=lambda coded: coded[0] not in PROGRAM_XIDS):
        codes[np.searchsorted(times, values[values[:, 1] > 0.0, 0])] = code
    return [row], np.zeros(len(times), dtype=np.int64), times, codes


def _leave_out_contradictions(parts: list[Part]) -> int:
    """Leave out the rows of a metric of which two series say different values at one time, as those of an exporter that
    is scraped twice do, and return of how many samples; where most rows have several series, they are averaged.

    Nothing is known of such a row at any time: one that ended early would seem to have fallen silent.
    """
    of_row = grouped((rows[0], k) for k, (rows, *_) in enumerate(parts))
    if 2 * sum(len(same) == 1 for same in of_row.values()) < len(of_row):
        return 0
    left_out = 0
    for same in (same for same in of_row.values() if len(same) > 1):
        times, moments = np.unique(np.concatenate([parts[k][2] for k in same]), return_inverse=True)
        least, most = np.full(len(times), np.inf), np.full(len(times), -np.inf)
        values = np.concatenate([parts[k][3] for k in same])
        np.minimum.at(least, moments, values)
        np.maximum.at(most, moments, values)
        if (most - least > CONTRADICTS * np.maximum(np.abs(least), np.abs(most))).any():
            left_out += len(values)
            for k in same:
                rows, which, at, said = parts[k]
                parts[k] = rows, which[:0], at[:0], said[:0]
    return left_out


def _series(series: Any, where: str, labels: Sequence[str]) -> tuple[str, str, FloatArray]:
    """Return metric, machine and values (samples, 2) of one series."""
    if not isinstance(series, Mapping) or not isinstance(series.get("metric"), Mapping):
        raise InvalidInput("has no labels", where=where, fix=FIX)
    tags = series["metric"]
    label = next((label for label in labels if tags.get(label)), None)
    if label is None:
        problem = f"has none of the labels {', '.join(labels)}; its labels are {', '.join(map(str, list(tags)[:8]))}"
        fix = "keep the machine's label in the query (`by (node)`), or name it with --machine-label"
        raise InvalidInput(problem, where=where, fix=fix)
    name = str(tags[label])
    host, colon, port = name.rpartition(":")
    if label == "instance" and colon and port.isdigit():
        name = host
    try:
        given = series.get("values") or ([series["value"]] if series.get("value") else [])
        values = np.array(given, dtype=np.float64).reshape(-1, 2)
    except (ValueError, TypeError, OverflowError):
        raise InvalidInput("has a value that is not [seconds, number]", where=where, fix=FIX) from None
    return str(tags.get("__name__", UNNAMED)), name, values
