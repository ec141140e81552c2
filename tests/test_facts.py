"""Facts are told from what only looks like them, in any order, and on any line."""

from __future__ import annotations

import pytest

from ground.errors import Infeasible
from tests.facts import saying, says

TEXT = "job.yaml:4: 12 of 1,024 nodes are free, 0.5 of each\nTo fix: give --level=rack (or @power)"


@pytest.mark.parametrize("fact", ["job.yaml:4", 12, "12 of 1,024", 0.5, "To fix:", "--level=rack", "@power", "(or"])
def test_a_fact_stands_by_itself(fact: object) -> None:
    """A number, a place with its line, an option: whatever stands around it."""
    assert says(TEXT, fact)
    assert says(["", TEXT], "free", fact)


@pytest.mark.parametrize("fact", [1, 2, 5, 24, "1,02", "0", "node", "level=racks", "power)."])
def test_a_part_of_a_fact_is_another(fact: object) -> None:
    """1 is not in 12 or 1,024, 5 not in 0.5, and ``node`` not in ``nodes``."""
    assert not says(TEXT, fact)


def test_all_facts_are_of_one_text() -> None:
    """Two notes that give one each are not a note that gives both."""
    assert not says(["n1 is slow", "n2 is faulty"], "n1", "faulty")
    with pytest.raises(Infeasible, match=saying("rack", "3 nodes", "To fix:")):
        raise Infeasible("3 nodes are in no rack", fix="free one")
