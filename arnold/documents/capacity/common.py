"""What all answers have in common."""

from __future__ import annotations

from arnold.documents.common import Document


class AnswerDocument(Document):
    """What every answer has."""

    verdict: str
    """The answer in a sentence or two."""
    assumptions: list[str]
    """What was taken for granted, one sentence each."""
