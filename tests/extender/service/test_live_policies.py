"""Which queue policies a live cluster may have."""

from __future__ import annotations

import pytest

from ground.errors import InvalidInput, UnknownName
from scheduler.queue.policy import POLICIES, live_policy
from tests.facts import saying


@pytest.mark.parametrize("name", [name for name in POLICIES.names() if not POLICIES.load(name).stops_any_time])
def test_policies_that_stop_nobody_at_will_are_live(name: str) -> None:
    """By their names."""
    assert live_policy(name).name == name


def test_one_that_stops_jobs_at_any_time_is_refused_at_the_start() -> None:
    """With the reason and what to do; not when the first gang has been stopped in vain."""
    with pytest.raises(InvalidInput, match=saying("simulation")) as caught:
        live_policy("priority-preempt")
    assert (caught.value.where, "priority-age" in caught.value.fix) == ("--policy", True)
    with pytest.raises(UnknownName, match=saying("'lifo'")):
        live_policy("lifo")
