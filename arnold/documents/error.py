"""What any command prints with ``--json`` when it fails."""

from __future__ import annotations

from dataclasses import dataclass

from ground.errors import ArnoldError
from ground.records import JsonRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDetails(JsonRecord):
    """One error."""

    kind: str
    """Stable name of the kind: InvalidJob, UnknownName, UsageError, ..."""
    message: str
    """What is wrong, one sentence."""
    where: str
    """File and line, or option; empty when there is no such place."""
    fix: str
    """What to do about it."""


@dataclass(frozen=True, slots=True)
class ErrorDocument(JsonRecord):
    """The one JSON document of a failed run."""

    error: ErrorDetails
    """What went wrong."""


def error_document(error: ArnoldError) -> ErrorDocument:
    """Return the document of an error."""
    return ErrorDocument(ErrorDetails(kind=error.kind, message=error.message, where=error.where, fix=error.fix))
