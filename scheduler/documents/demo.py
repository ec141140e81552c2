"""What ``arnold demo --json`` prints."""

from __future__ import annotations

from scheduler.documents.common import Document
from scheduler.documents.compare import CompareDocument


class DemoDocument(Document):
    """The demonstration: what it wrote, and the comparison it shows."""

    page: str
    """The HTML page."""
    files: list[str]
    """Cluster and job file of the demonstration, with --save; try other commands on them."""
    comparison: CompareDocument
    """Every algorithm on the demonstration's instance."""
