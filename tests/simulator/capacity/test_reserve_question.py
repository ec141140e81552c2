"""Reserving for a large job on a small cluster: what must hold whatever the numbers, verdict, tables, charts."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, inf
from typing import Any

import pytest

from ground.errors import InvalidInput, InvalidJob, UnknownName
from simulator.capacity.reserve import Migration, ReserveAnswer, ReserveQuestion, late_words, migration_words
from tests.facts import says
from tests.simulator.clusters import racks
from topology.generate import fragment, minipods

Asked = tuple[ReserveQuestion, ReserveAnswer]


@pytest.fixture(scope="module")
def asked() -> Asked:
    """A job of 64 of 96 nodes, announced two hours ahead, on a cluster of which others ask for all."""
    question = ReserveQuestion(
        made="12x8",
        job="8x4x16",
        notice_hours=2.0,
        run_hours=4.0,
        warm_hours=6.0,
        after_hours=4.0,
        longest_hours=2.0,
        load="1",
        time_limit=1.0,
        workloads=1,
        policies=("arnold", "arnold-no-reserve", "arnold-no-jct"),
        price_gpu_hour=2.0,
    )
    return question, question.answer()


@pytest.fixture
def reserved(asked: Asked) -> ReserveAnswer:
    """The answer."""
    return asked[1]


def test_reserving_empties_the_zone(reserved: ReserveAnswer) -> None:
    """With Algorithm 1 the large job starts the instant it arrives, in a zone that no other job holds.

    Others run at most as long as the notice and end in time, or are not let in; without a zone it waits.
    """
    rows = {row.policy: row for row in reserved.policies}
    assert reserved.zone == 64
    for name in ("arnold", "arnold-no-jct"):
        assert rows[name].starts_hours == 0.0
        assert rows[name].zone_held_at_arrival == 0
        # Two thirds of the cluster are the zone: no more than the other third is held when the job arrives.
        assert rows[name].allocation_at_arrival <= 1 / 3
    # priority alone keeps nothing free: as long as others come, room for 64 nodes does not
    assert rows["arnold-no-reserve"].starts_hours is None
    assert rows["arnold-no-reserve"].zone_held_at_arrival > 0


def test_reserving_costs_and_predictions_help(reserved: ReserveAnswer) -> None:
    """Idle node-hours until the large job starts: more without predictions, for fewer are let into the zone."""
    idle = {row.policy: row.idle_node_hours for row in reserved.policies}
    assert idle["arnold"] < idle["arnold-no-jct"]


def test_samples_of_a_reservation(asked: Asked) -> None:
    """Every five minutes from two hours before until the others stop submitting; shares are shares."""
    question, reserved = asked
    line = reserved.policies[0].line
    assert line[0].hours == pytest.approx(-2.0)
    assert line[1].hours - line[0].hours == pytest.approx(1 / 12)
    # two hours of notice and four after it
    assert line[-1].hours == pytest.approx(6.0)
    assert all(0.0 <= one.allocation <= 1.0 and 0 <= one.zone_held <= reserved.zone for one in line)
    assert "starts it on arrival" in reserved.verdict
    assert [row[0] for row in question.sheet(reserved).tables[2].rows][:3] == ["17:00", "17:30", "18:00"]


def test_means_are_of_the_samples(reserved: ReserveAnswer) -> None:
    """Allocation before is that of the hour before; idle node-hours are the free share of 96 nodes, 5 minutes each."""
    for row in reserved.policies:
        early = [one.allocation for one in row.line if -1.0 <= one.hours < 0.0]
        # it starts on its arrival, or others come no more four hours later, whichever is known
        until = 2.0 if row.starts_hours == 0.0 else 6.0
        notice = [one for one in row.line if -1e-9 <= one.hours < until - 1e-9]
        assert len(early) == 12
        assert row.allocation_before == pytest.approx(sum(early) / 12)
        assert row.idle_node_hours == pytest.approx(sum(96 * (1.0 - one.allocation) / 12 for one in notice))


def test_the_load_is_what_was_asked(reserved: ReserveAnswer) -> None:
    """Jobs are kept until they ask for the load, one job more or less."""
    assert reserved.load == pytest.approx(1.0, abs=0.1)


def test_words_of_the_verdict(asked: Asked) -> None:
    """The first policy, the others, and each remedy with what it costs; a start that never comes is said so."""
    question, reserved = asked
    verdict = question.verdict(reserved)
    assert says(verdict.split(";")[0], "2 h of notice", "arnold", "on arrival")
    assert says(verdict, "arnold-no-reserve", "not while others come")
    assert "100% preemptible: on arrival" in verdict
    first = replace(reserved.cases[0], late=(0.0, 2.5, inf))
    assert late_words(first, 10) == "2.5 h late (P10 0.0, P90 not while others come)"
    # of three workloads a tenth is none: the ends are the least and the most
    assert says(late_words(first, 3), "2.5 h late", "of 3", "0.0 to not while others come")


def test_room_to_move(reserved: ReserveAnswer) -> None:
    """As many free nodes outside the zone as others hold inside: by workload."""
    room, none = Migration(held=3, free_outside=3), Migration(held=5, free_outside=1)
    assert says(migration_words(replace(reserved, migrations=(room,))), "3 nodes", "there is room")
    words = migration_words(replace(reserved, migrations=(room, none)))
    assert says(words, "no room in 1 of 2 workloads", "5 nodes to move", "1 free outside")
    assert reserved.migrations[0].held == 0
    assert migration_words(reserved) == "nothing to move"


def test_remedies(asked: Asked) -> None:
    """The notice is in whole hours and covers P95 of what still ran; what is stopped goes back by an hour at most."""
    question, reserved = asked
    *_, notice, stopped = reserved.cases
    assert notice.notice_hours == max(2.0, ceil(reserved.remaining_hours[2]))
    assert reserved.remaining_hours[2] <= reserved.last_hours[2] <= question.longest_hours
    assert stopped.preemptible == 1.0
    assert stopped.late == (0.0, 0.0, 0.0)
    assert stopped.stopped[1] > 0
    # jobs of at most 24 nodes, a quarter of 96
    assert 0.0 < stopped.lost_node_hours[1] <= 24 * stopped.stopped[1]
    for case in reserved.cases:
        # nodes of 8 GPUs at 2 an hour each
        assert case.cost == pytest.approx(16.0 * (case.idle_node_hours[1] + case.lost_node_hours[1]))


def test_the_sheet(asked: Asked) -> None:
    """A line for each policy; charts by time of day, from two hours before, with both moments marked."""
    question, reserved = asked
    sheet = question.sheet(reserved)
    assert [row[0] for row in sheet.tables[0].rows] == [case.name for case in reserved.cases]
    assert sheet.tables[1].headers[-1] == "cost"
    allocation, zone = sheet.charts
    assert (allocation.ceiling, allocation.kind) == (1.0, "share")
    assert (zone.ceiling, zone.kind) == (None, "count")
    assert allocation.lines == ((0.0, "announced"), (2.0, "arrives"))
    assert dict(zone.ticks)[0.0] == "18:00"
    assert dict(zone.ticks)[6.0] == "00:00"
    assert max(y or 0.0 for _, y in zone.series[0].points) <= reserved.zone


def test_what_is_assumed_of_run_times(asked: Asked) -> None:
    """The oracle knows all; a predictor is named."""
    question, reserved = asked
    assert any("known without error" in line for line in question.assumptions(reserved))
    learnt = replace(question, predictor="history")
    assert any("foreseen by history" in line for line in learnt.assumptions(reserved))


def test_times_of_the_replay() -> None:
    """Two days of warming up, four hours of notice, two days after: seconds from the beginning."""
    question = ReserveQuestion()
    assert question.arrives == 52 * 3600.0
    assert question.horizon == 100 * 3600.0
    # three workloads under two policies and two remedies
    assert question.steps == 12


def test_a_load_that_is_not_known_is_part_of_the_range() -> None:
    """Two workloads at a load each, both at its median, and the middle one at its ends: what decides is told."""
    question = ReserveQuestion(
        made="2x8", job="8x2x3", notice_hours=0.5, after_hours=0.5, warm_hours=3.0, workloads=2, load="0.5..1.5"
    )
    assert question.steps == 2 * 4 + 4
    (told,) = question.answer().ranges
    assert {one.name for one in told.swings} == {"workload", "load"}
    assert told.p10 <= told.p50 <= told.p90


def test_the_large_job_is_of_the_clusters_nodes() -> None:
    """Nodes of four GPUs: 3 rows of 3 stages are 9 nodes, 36 GPUs; the replay finds the cluster empty."""
    cluster = racks(18, gpus=4)
    question = ReserveQuestion(cluster=cluster, job="4x3x3")
    assert question.large.gpus == 36.0
    assert question.large.announced == 48 * 3600.0
    busy = fragment(minipods(minipods=2, nodes=16), 0.5, 0)
    assert ReserveQuestion(cluster=busy, job="8x4x4").large.gpus == 128.0


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"made": "10x10"}, InvalidInput, "600 nodes of 8 GPUs, the cluster 100"),
        ({"made": "2x8", "job": "8x4"}, InvalidJob, "no job"),
        ({"made": "2x8", "job": "8x2x2", "policies": ("arnolt",)}, UnknownName, "arnolt"),
        ({"made": "2x8", "job": "8x2x2", "predictor": "crystal"}, UnknownName, "crystal"),
        ({"notice_hours": 0.0}, InvalidInput, "notice_hours is 0.0"),
        ({"warm_hours": -1.0}, InvalidInput, "warm_hours is -1.0"),
        ({"preemptible": 0.0}, InvalidInput, "preemptible is 0.0"),
        ({"price_kwh": 0.1}, InvalidInput, "part"),
        ({"load": "3"}, InvalidInput, "out of bounds"),
    ],
)
def test_impossible_questions(fields: dict[str, Any], error: type[Exception], words: str) -> None:
    """A job larger than the cluster, names that are not known, hours out of bounds: said before the replay."""
    with pytest.raises(error, match=words):
        ReserveQuestion(**({"workloads": 1} | fields)).answer()
