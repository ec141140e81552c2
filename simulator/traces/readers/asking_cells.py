"""What a job asks of placement, in the cells of a row: the keys of a job file, each degree of parallelism a column.

``constraints`` and a ``model`` that is described stand there as YAML or JSON in one cell, or as values in JSON lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, TypeVar, get_args

from ground.errors import InvalidJob, did_you_mean
from ground.records import json_data
from ground.rows import BadRow
from scheduler.affinity import Model
from scheduler.job import DEGREES, FAMILIES, MEGATRON_ORDER, Avoid, DataSet, Parallelism
from scheduler.type_names import ANY, read_type_names
from simulator.job_record import JobRecord
from simulator.traces.job_fields import number, optional, text, whole

COLUMNS: Mapping[str, type] = {
    "model": str,
    **dict.fromkeys(DEGREES, int),
    **dict.fromkeys(("order", "tp_level"), str),
    "alpha": float,
    "microbatches": int,
    **dict.fromkeys(("avoid", "gpu_types", "constraints", "data_sets"), str),
}
"""Names, and the types of what stands in them."""

T = TypeVar("T")


def asked(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a JobRecord that placement looks at.

    :raises BadRow: a cell is not what its column holds.
    """
    return {
        "parallelism": _parallelism(cells),
        "tp_level": text(cells, "tp_level") or None,
        "model": _model(cells),
        "alpha": _alpha(cells),
        "microbatches": _microbatches(cells),
        "avoid": _avoid(cells),
        "data_sets": _data_sets(cells),
        **_gpu_types(cells),
        **_constraints(cells),
    }


def asking_cells(record: JobRecord) -> dict[str, object]:
    """Return cells that read back as what a job asks; there is none where it asks nothing."""
    alike = {name: getattr(record, name) for name in ("model", "tp_level", "alpha", "microbatches", "avoid")}
    cells: dict[str, object] = {name: value for name, value in alike.items() if value not in (None, "")}
    if record.parallelism is not None:
        # A degree that is left out is 1, and etp is tp; one has to be there for a parallelism to be.
        degrees = {name: record.parallelism.degree(name) for name in FAMILIES}
        cells |= {name: degree for name, degree in degrees.items() if degree > 1 or name == "tp"}
        if record.parallelism.etp is not None:
            cells["etp"] = record.parallelism.etp
        if record.parallelism.order != MEGATRON_ORDER:
            cells["order"] = record.parallelism.order
    if record.gpu_types is not None or record.mix_types:
        cells["gpu_types"] = ANY if record.gpu_types is None else json.dumps(record.gpu_types, ensure_ascii=False)
    hard = [{"family": one.family, "within": one.level} for one in record.holds]
    soft = [{"family": one.family, "level": one.level, "weight": one.weight} for one in record.counts]
    if hard or soft:
        cells["constraints"] = json.dumps([*hard, *soft])
    if record.data_sets:
        cells["data_sets"] = " ".join(f"{name}:{size!r}" if size < inf else name for name, size in record.data_sets)
    if isinstance(record.model, Model):
        cells["model"] = json.dumps(json_data(Model, record.model, without_defaults=True))
    return cells


def _as_text(cells: Mapping[str, Any], column: str) -> str:
    given = cells.get(column)
    return json.dumps(given) if isinstance(given, list | dict) else text(cells, column)


def _model(cells: Mapping[str, Any]) -> str | Model:
    """Return the shape in a cell, which begins with a brace (or a bracket, by mistake); anything else is a name."""
    written = _as_text(cells, "model")
    if not written.lstrip().startswith(("{", "[")):
        return written
    # not at the top: it takes pydantic, which most traces, and the help, can do without
    from scheduler.job_files.job_file import read_model

    return _part(read_model, written, "model")


def _gpu_types(cells: Mapping[str, Any]) -> dict[str, Any]:
    written = _as_text(cells, "gpu_types")
    if not written:
        return {}
    names = _part(read_type_names, written, "gpu_types")
    return {"gpu_types": names, "mix_types": names is None}


def _constraints(cells: Mapping[str, Any]) -> dict[str, Any]:
    written = _as_text(cells, "constraints")
    if not written:
        return {}
    from scheduler.job_files.job_file import read_constraints

    return _part(read_constraints, written, "constraints")._asdict()


def _part(read: Callable[[str], T], written: str, column: str) -> T:
    try:
        return read(written)
    except InvalidJob as error:
        raise BadRow(column, f"{column}: {error.message}", fix=error.fix) from None


def _parallelism(cells: Mapping[str, Any]) -> Parallelism | None:
    degrees: dict[str, Any] = {name: whole(cells[name], name) for name in DEGREES if cells.get(name) not in ("", None)}
    order = text(cells, "order")
    if order and not degrees:
        fix = f"give degrees too ({', '.join(DEGREES)}), or leave order empty"
        raise BadRow("parallelism", f"order is {order[:60]!r}, and there are no degrees to order", fix=fix)
    if not degrees:
        return None
    try:
        return Parallelism(**degrees, order=order or MEGATRON_ORDER)
    except InvalidJob as error:
        raise BadRow("parallelism", error.message, fix=error.fix) from None


def _alpha(cells: Mapping[str, Any]) -> float | None:
    alpha = optional(cells.get("alpha"), "alpha")
    if alpha is not None and not 0.0 <= alpha <= 1.0:
        raise BadRow("alpha", f"alpha is {alpha:g}", fix="give alpha between 0 and 1, or leave it empty")
    return alpha


def _microbatches(cells: Mapping[str, Any]) -> int | None:
    given = cells.get("microbatches")
    count = None if given in ("", None) else whole(given, "microbatches")
    if count is not None and count < 1:
        raise BadRow("microbatches", f"microbatches is {count}", fix="give at least 1, or leave it empty")
    return count


def _avoid(cells: Mapping[str, Any]) -> str | None:
    word, known = text(cells, "avoid"), get_args(Avoid)
    if word and word not in known:
        fix = f"{did_you_mean(word[:60], known)}write one of {', '.join(known)}, or leave it empty"
        raise BadRow("avoid", f"avoid is {word[:60]!r}", fix=fix)
    return word or None


def _data_sets(cells: Mapping[str, Any]) -> tuple[DataSet, ...]:
    """Return what a job reads: names with spaces between them, each with the samples of it that are read, or all."""
    found: dict[str, float] = {}
    for word in text(cells, "data_sets").split():
        name, colon, size = word.rpartition(":") if ":" in word else (word, "", "")
        found[name] = number(size, f"data_sets, {name[:60]},") if colon else inf
        if not name or found[name] <= 0:
            fix = "give imagenet, or imagenet:10000 with the samples that it reads"
            raise BadRow("data_sets", f"data_sets has {word[:60]!r}", fix=fix)
    return tuple(DataSet(*one) for one in found.items())
