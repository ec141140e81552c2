"""How long a gang ran: from its first binding to its last end, as the API server's objects say."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from extender.controller.actions import Forget, Learn
from tests.extender.controller.world import World
from tests.extender.things import NOW

SIZE = 3


def stamp(at: datetime) -> str:
    """A time as the API server writes it."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def names() -> list[str]:
    """The gang's pods."""
    return [f"g-{rank}" for rank in range(SIZE)]


def placed() -> World:
    """A gang that was submitted and bound at 12:00, seen bound 5 s later."""
    world = World()
    world.gang("g", SIZE, created=stamp(NOW))
    world.settle()
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(NOW)}
    for name in names():
        world.bind(name)
        world.change(name, lambda pod: pod["status"].update(phase="Running", conditions=[scheduled]))
    world.later(5)
    world.settle()
    return world


def end(world: World, name: str, at: datetime | None, phase: str = "Succeeded") -> None:
    """A pod ends, at a time that its kubelet tells or does not."""
    state = {"state": {"terminated": {"finishedAt": stamp(at)}}} if at else {}
    world.change(name, lambda pod: pod["status"].update(phase=phase, containerStatuses=[state] if at else []))


def learnt(world: World) -> list[Any]:
    """Seconds of runs that would be counted now; the plan goes in any case."""
    actions = world.decide().actions
    assert [type(one) for one in actions[-1:]] == [Forget]
    return [one.run.seconds for one in actions if isinstance(one, Learn)]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_gang_ran_until_its_last_pod_ended(phase: str) -> None:
    """It is looked at long after; what counts is when its containers ended, however they did."""
    world = placed()
    for rank, name in enumerate(names()):
        end(world, name, NOW + timedelta(minutes=10 + rank), phase)
    world.later(3_600)
    assert learnt(world) == [12 * 60]


def test_an_end_that_no_kubelet_told_is_now() -> None:
    """As of pods that were evicted; nor does one that says it ended tomorrow run longer than until now."""
    world = placed()
    for name in names():
        end(world, name, None)
    world.later(95)
    assert learnt(world) == [100]
    end(world, "g-0", NOW + timedelta(days=1))
    for name in names()[1:]:
        end(world, name, NOW)
    assert learnt(world) == [100]


def test_a_gang_whose_pods_were_deleted_ran_until_then() -> None:
    """That was seen, so it is known when."""
    world = placed()
    world.later(595)
    world.delete(*names())
    assert learnt(world) == [600]


def test_a_pod_that_ended_early_does_not_end_the_run() -> None:
    """One has done its part after ten minutes; the others work on, and are deleted after an hour."""
    world = placed()
    end(world, "g-0", NOW + timedelta(minutes=10))
    world.later(3_595)
    world.settle()
    world.delete(*names()[1:])
    assert learnt(world) == [3_600]


def test_what_nobody_saw_end_is_not_counted() -> None:
    """The pods went while no controller ran: a fresh cache has the plan alone, and does not know since when."""
    world, plan = World(), placed().plan("g")
    world.write(plan)
    world.later(86_400)
    assert learnt(world) == []


def test_a_pod_that_came_later_does_not_begin_the_run() -> None:
    """One is made anew after ten minutes; the run is the gang's."""
    world = placed()
    world.later(595)
    world.recreate("g-1")
    world.settle()
    world.bind("g-1")
    world.settle()
    world.later(600)
    for name in names():
        end(world, name, None)
    # the other two were bound at 12:00
    assert learnt(world) == [1200]


def test_nobody_runs_longer_than_its_pods_are_old() -> None:
    """A pod's status may claim that it was bound in 1970; the API server says when it was made."""
    world = placed()
    forged = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}
    for name in names():
        world.change(name, lambda pod: pod["status"].update(conditions=[forged]))
        end(world, name, NOW + timedelta(seconds=60))
    world.later(1_000)
    assert learnt(world) == [60]


def test_a_gang_that_was_gone_before_anybody_looked_counts_too() -> None:
    """Bound and ended between two looks: its pods say both."""
    world = World()
    world.gang("g", SIZE, created=stamp(NOW))
    world.settle()
    world.bind(*names())
    for name in names():
        end(world, name, NOW + timedelta(seconds=2))
    world.later(2)
    assert learnt(world) == [2]


def test_what_never_was_whole_did_not_run() -> None:
    """Planned, or bound in part and then deleted."""
    for bound in (0, 2):
        world = World()
        world.gang("g", SIZE)
        world.settle()
        world.bind(*names()[:bound])
        world.settle()
        world.delete(*names())
        assert learnt(world) == []
