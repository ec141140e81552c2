"""Models of communication by name."""

from __future__ import annotations

import pytest

from simulator.cost.comm_models import comm_model_names, load_comm_model
from topology.errors import UnknownName


def test_the_models_of_the_house_are_found() -> None:
    """The five names of the command line, each loading a model that knows its own name."""
    names = comm_model_names()
    assert {"none", "spread", "alpha-beta", "hierarchical", "flows"} <= set(names)
    assert [load_comm_model(name).name for name in names] == list(names)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    """The message lists what there is, and names the option that the name came from."""
    with pytest.raises(UnknownName, match="flow") as caught:
        load_comm_model("flow")
    assert caught.value.where == "--cost"
