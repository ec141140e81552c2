"""JSON of ``arnold health op-trace`` and ``arnold anonymise``: what became of a trace, what could not be recovered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ground.records import JsonRecord, record_of
from health.whatif.conversion import ConversionStatement

if TYPE_CHECKING:
    from health.whatif.conversion import Conversion
    from health.whatif.trace import RankLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTraceDocument(ConversionStatement):
    """What ``arnold health op-trace --json`` prints."""

    files: tuple[str, ...]
    """Files that were written: the op trace, its metadata, and this statement."""
    workers: int
    """Data-parallel ranks times pipeline stages."""
    steps: int
    """Steps of the op trace."""
    rows: int
    """Operations in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnonymiseDocument(JsonRecord):
    """What ``arnold anonymise --json`` prints."""

    output: str
    """The file that was written."""
    replaced: Mapping[str, int]
    """How many different names became pseudonyms: `user`, `group`, `job`, and `text` that may repeat them."""
    kept_key: bool
    """Whether the key is of a file: then other files made with it have the same pseudonyms."""
    still_named: Sequence[str]
    """Users and groups after whom something that was kept is called: a partition, a QOS, a job id."""


def op_trace_document(conversion: Conversion, layout: RankLayout, files: Sequence[str]) -> OpTraceDocument:
    """Return the document of a conversion."""
    return record_of(
        OpTraceDocument,
        conversion,
        files=tuple(files),
        workers=layout.dp * layout.pp - len(conversion.absent),
        steps=len({op.step for op in conversion.ops}),
        rows=len(conversion.ops),
    )
