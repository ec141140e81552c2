"""Predictors, found through the entry-point group ``arnold.predictors``."""

from __future__ import annotations

from importlib.metadata import entry_points

from simulator.prediction.types import Predictor
from topology.plugins import make_named

GROUP = "arnold.predictors"


def predictor_names() -> tuple[str, ...]:
    """Names of all predictors that are installed, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


def make_predictor(name: str) -> Predictor:
    """A new predictor of that name, which has learnt nothing; only its own module is imported.

    :raises UnknownName: no installed package offers it.
    """
    points = entry_points(group=GROUP)
    predictor: Predictor = make_named(name, points, unknown="no predictor is called", where="--predictor")
    return predictor
