"""Where a trace and a cluster disagree."""

from __future__ import annotations


class Disagreement(Exception):
    """A job that could not run even if the cluster were empty; caught by whoever knows its file and line.

    :param reason: its kind, few enough to count by.
    :param sentence: what it asks for and what there is.
    """

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(f"{reason}: {sentence}")
        self.reason = reason
        self.sentence = sentence
