"""Models of communication by name."""

from __future__ import annotations

import pytest

from ground.errors import UnknownName
from simulator.cost.step import COMM_MODELS


def test_the_models_of_the_house_are_found() -> None:
    """The six names of the command line, each loading a model that knows its own name."""
    names = COMM_MODELS.names()
    assert {"none", "anchored", "spread", "alpha-beta", "hierarchical", "flows"} <= set(names)
    assert [COMM_MODELS.load(name).name for name in names] == list(names)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    """The message lists what there is, and names the option that the name came from."""
    with pytest.raises(UnknownName, match="flow") as caught:
        COMM_MODELS.load("flow")
    assert caught.value.where == "--cost-model"
