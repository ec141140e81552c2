"""Models of communication, found through the entry-point group ``arnold.cost``."""

from __future__ import annotations

from importlib.metadata import entry_points

from simulator.cost.types import CommModel
from topology.plugins import make_named

GROUP = "arnold.cost"


def comm_model_names() -> tuple[str, ...]:
    """Names of all installed models, sorted."""
    return tuple(sorted(point.name for point in entry_points(group=GROUP)))


def load_comm_model(name: str) -> CommModel:
    """The model of that name; only its own module is imported.

    :raises UnknownName: no installed package offers it.
    """
    unknown = "no model of communication is called"
    model: CommModel = make_named(name, entry_points(group=GROUP), unknown=unknown, where="--cost")
    return model
