"""Where a trace and a cluster disagree."""

from __future__ import annotations


class Disagreement(Exception):
    """A job that could not run even if the cluster were empty; caught by whoever knows its file and line.

    :param reason: its kind, few enough to count by.
    :param sentence: what it asks for and what there is.
    :param fix: what would let it run.
    """

    def __init__(self, reason: str, sentence: str, *, fix: str = "give a cluster that can hold it") -> None:
        super().__init__(f"{reason}: {sentence}")
        self.reason = reason
        self.sentence = sentence
        self.fix = fix
