"""JSON of ``arnold traces``: what became of a trace, and what could not be recovered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from arnold.documents.json_model import JsonModel
from health.whatif.converters.rows import Missing

if TYPE_CHECKING:
    from health.whatif.converters import Conversion, RankLayout


class TracesConvertDocument(JsonModel):
    """What ``arnold traces convert --json`` prints."""

    source: str
    """``kineto`` or ``megatron-timers``."""
    files: list[str]
    """Files that were written: the op trace, its metadata, and this statement."""
    workers: int
    """Data-parallel ranks times pipeline stages."""
    steps: int
    """Steps of the op trace."""
    rows: int
    """Operations in it."""
    recovered: dict[str, int]
    """Operations of each type."""
    missing: tuple[Missing, ...]
    """What could not be recovered, and what that disables."""
    notes: list[str]
    """What was decided on the way, and what was dropped and why."""


def traces_convert_document(conversion: Conversion, layout: RankLayout, files: Sequence[str]) -> TracesConvertDocument:
    """Return the document of a conversion."""
    return TracesConvertDocument(
        source=conversion.source,
        files=list(files),
        workers=layout.dp * layout.pp,
        steps=len({op.step for op in conversion.ops}),
        rows=len(conversion.ops),
        recovered=conversion.counts(),
        missing=conversion.missing,
        notes=list(conversion.notes),
    )
