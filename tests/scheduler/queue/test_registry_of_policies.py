"""Policies are found by name."""

from __future__ import annotations

import pytest

from ground.errors import UnknownName
from scheduler.queue.policy import POLICIES
from tests.facts import saying


def test_policies_are_found_by_name() -> None:
    """An extension point: entry points of the group arnold.queue."""
    assert POLICIES.load("priority-age").name == "priority-age"
    with pytest.raises(UnknownName, match=saying("'lifo'")):
        POLICIES.load("lifo")


def test_every_policy_has_the_face_of_one() -> None:
    """Its name is the one it is found by, and it says in a line what it does."""
    for name in POLICIES.names():
        policy = POLICIES.load(name)
        assert (policy.name, bool(policy.summary), policy.claims in (0, 1, None)) == (name, True, True)
