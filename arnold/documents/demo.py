"""What ``arnold demo --json`` prints."""

from __future__ import annotations

from arnold.documents.common import Document
from arnold.documents.compare import CompareDocument


class DemoDocument(Document):
    """The demonstration: what it wrote, and the comparison it shows."""

    page: str
    """The HTML page."""
    files: list[str]
    """Files to try other commands on, with --save: cluster and job first."""
    comparison: CompareDocument
    """Every algorithm on the demonstration's instance."""
