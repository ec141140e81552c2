"""Prediction, and the face of everything that predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from simulator.job_record import JobRecord
from topology.plugins import PluginGroup


@dataclass(frozen=True, slots=True)
class Prediction:
    """How long a job is expected to run."""

    seconds: float  # the expectation
    low: float  # lower end of the band of uncertainty, at most seconds
    high: float  # upper end of it, at least seconds


class Predictor(Protocol):
    """Predicts from the past: it is told of every job that has ended, and knows of no other.

    Registered as an entry point in the group ``arnold.predictors``: a class (or any callable without arguments) that
    makes an object with this face.  It holds what it has learnt: every run needs one of its own.
    """

    @property
    def name(self) -> str:
        """As in ``--predictor``."""

    @property
    def summary(self) -> str:
        """One line about the rule."""

    def learn(self, record: JobRecord) -> None:
        """Learn from a job that has ended; its ``duration`` is known from now on."""

    def predict(self, record: JobRecord) -> Prediction:
        """Return how long a job will run that has not ended.  Only the oracle looks at ``duration``."""


PREDICTORS: PluginGroup[Predictor] = PluginGroup(
    "arnold.predictors", unknown="no predictor is called", where="--predictor"
)
"""All installed predictors; each one loaded is new and has learnt nothing."""
