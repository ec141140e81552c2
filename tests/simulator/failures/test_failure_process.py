"""What is drawn: as often as the rate says, of the kinds of the mix, never on a node that is away."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import inf

import pytest

from ground.errors import InvalidInput
from ground.quantities import DAY, HOUR
from simulator.failures.cluster_failures import FailureModel, Slowness
from simulator.failures.rates import MIXES, RATES, Restart, failure_rate, parse_restart
from tests.simulator.failures.drawn import draw_failures

YEAR = 365 * DAY


def test_as_often_as_the_rate_says() -> None:
    """2,000 nodes for a year at 6.5 per 1,000 node-days: 4,745 failures, less those of nodes that are away (0.6 %).

    The standard deviation is 69; four of them, and the share away, are 300.
    """
    found, _ = draw_failures(FailureModel(), nodes=2000, horizon=YEAR, seed=0)
    assert len(found) == pytest.approx(4745, abs=300)
    assert all(a.time <= b.time for a, b in pairwise(found))


def test_kinds_come_by_their_share() -> None:
    """148 of 419 are faulty GPUs; of 4,745 draws that is 1,676, with a standard deviation of 33."""
    found, _ = draw_failures(FailureModel(), nodes=2000, horizon=YEAR, seed=1)
    kinds = Counter(one.kind.name for one in found)
    assert kinds["faulty GPU"] / len(found) == pytest.approx(148 / 419, abs=0.03)


def test_a_node_that_is_away_does_not_fail() -> None:
    """On one node with a failure a day and repairs of three days, the next failure comes after the repair."""
    model = FailureModel(rate=failure_rate("1000"), repair_hours=72.0)
    found, _ = draw_failures(model, nodes=1, horizon=YEAR, seed=0)
    assert len(found) > 20
    assert all(a.back <= b.time for a, b in pairwise(found))


def test_repairs_and_reboots() -> None:
    """Hardware is away for a day on average, software for half an hour exactly."""
    found, _ = draw_failures(FailureModel(), nodes=2000, horizon=YEAR, seed=2)
    repairs = [one.back - one.time for one in found if one.kind.hardware]
    assert sum(repairs) / len(repairs) == pytest.approx(24 * HOUR, rel=0.1)
    assert {round(one.back - one.time, 3) for one in found if not one.kind.hardware} == {0.5 * HOUR}


def test_slow_nodes_do_not_move_failures() -> None:
    """Each purpose has its own generator; and same seed, same draws."""
    without, _ = draw_failures(FailureModel(), nodes=100, horizon=YEAR, seed=5)
    slow = FailureModel(slowness=Slowness(10.0))
    with_slow, spells = draw_failures(slow, nodes=100, horizon=YEAR, seed=5)
    assert without == with_slow
    assert spells == draw_failures(slow, nodes=100, horizon=YEAR, seed=5)[1]
    assert without != draw_failures(FailureModel(), nodes=100, horizon=YEAR, seed=6)[0]


def test_slow_spells() -> None:
    """10 per 1,000 node-days on 1,000 nodes: 3,650 a year; 10 % to 100 % slower; flagged in 4 to 12 minutes or never.

    With spells of 6 hours on average and a recall of 0.883, few that are found end before they are.
    """
    _, spells = draw_failures(FailureModel(slowness=Slowness(10.0)), nodes=1000, horizon=YEAR, seed=3)
    assert len(spells) == pytest.approx(3650, abs=250)
    assert all(1.1 <= spell.slowdown <= 2.0 and spell.since < spell.until for spell in spells)
    delays = [spell.detected - spell.since for spell in spells if spell.detected < inf]
    assert 240.0 <= min(delays) <= max(delays) <= 720.0
    assert len(delays) / len(spells) == pytest.approx(0.883 * 0.98, abs=0.03)


def test_restart_costs() -> None:
    """ByteRobust: 454 s to requeue 128 machines of 16 GPUs, 46 s to update them in place, plus seeing the failure."""
    error, hang = MIXES["byterobust"].kinds[1], MIXES["byterobust"].kinds[0]
    assert parse_restart("requeue").seconds(gpus=2048, failure=error) == pytest.approx(15 + 454)
    assert parse_restart("hot-update").seconds(gpus=2048, failure=hang) == pytest.approx(600 + 46)
    assert parse_restart("300").seconds(gpus=2048, failure=hang) == 300.0
    assert Restart(kind="requeue", reload=60.0).back(2048) == pytest.approx(514)
    # Of the mix that is used unless another is named.
    hangs = sum(kind.count for kind in MIXES["llama3"].kinds if kind.symptom == "hang") / 419
    mean = parse_restart("hot-update").mean_seconds(gpus=2048)
    assert mean == pytest.approx(46 + 600 * hangs + 15 * (1 - hangs))


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "soon", ""])
def test_no_way_to_restart(text: str) -> None:
    """Neither seconds nor a name."""
    with pytest.raises(InvalidInput, match="requeue, hot-update"):
        parse_restart(text)


def test_quiet_cluster() -> None:
    """A rate of 0 draws nothing."""
    assert draw_failures(FailureModel(rate=failure_rate("0")), nodes=100, horizon=YEAR, seed=0) == ([], [])
    assert RATES["rsc-1"].per_second(0) == 0.0
