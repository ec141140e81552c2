"""What any command prints with ``--json`` when it fails."""

from __future__ import annotations

from arnold.documents.common import Document
from topology.errors import ArnoldError


class ErrorDoc(Document):
    """One error."""

    kind: str
    """Stable name of the kind: InvalidJob, UnknownName, UsageError, ..."""
    message: str
    """What is wrong, one sentence."""
    where: str
    """File and line, or option; empty when there is no such place."""
    fix: str
    """What to do about it."""


class ErrorDocument(Document):
    """The one JSON document of a failed run."""

    error: ErrorDoc
    """What went wrong."""


def error_document(error: ArnoldError) -> ErrorDocument:
    """The document of an error."""
    return ErrorDocument(error=ErrorDoc(kind=error.kind, message=error.message, where=error.where, fix=error.fix))
