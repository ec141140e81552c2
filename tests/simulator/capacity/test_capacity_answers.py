"""Spares, minipods, growing and reserving on small clusters: what must hold whatever the numbers."""

from __future__ import annotations

import pytest

from simulator.capacity.grow import GrowQuestion, grow
from simulator.capacity.grow_sheet import grow_sheet
from simulator.capacity.minipods import MinipodQuestion, minipod_sizes
from simulator.capacity.minipods_sheet import minipods_sheet
from simulator.capacity.reserve import ReserveAnswer, ReserveQuestion, reserve
from simulator.capacity.reserve_sheet import reserve_sheet
from simulator.capacity.shape import JobShape
from simulator.capacity.spares import SparesQuestion, spares
from simulator.capacity.spares_sheet import spares_sheet
from simulator.failures.expected_ettr import first_order_ettr
from topology.errors import InvalidInput
from topology.generate import fragment, minipods


def test_spares_suffice_and_agree() -> None:
    """Formula and Monte Carlo are within 5 % in every row; the number named is the first that reaches the target."""
    answer = spares(SparesQuestion(nodes=512, target=0.94, runs=10, days=360.0))
    assert answer.needed is not None
    reaching = [row.spares for row in answer.rows if row.formula >= 0.94]
    assert reaching[0] == answer.needed
    assert all(row.apart < 0.05 for row in answer.rows)
    assert answer.unlimited == pytest.approx(0.961, abs=5e-4)
    assert [row.spares for row in answer.rows] == sorted({row.spares for row in answer.rows})
    assert f"Keep {answer.needed} spares" in spares_sheet(answer).verdict


def test_spares_print_what_was_measured() -> None:
    """Both mean times to failure at 1,024 GPUs stand in table and assumptions: 28.8 h by the rate, 7.9 h measured."""
    sheet = spares_sheet(spares(SparesQuestion(nodes=128, runs=2, days=10.0)))
    assert "28.8 h by the rate, 7.9 h measured" in str(sheet.tables)
    assert "7.9 h" in " ".join(sheet.assumptions)


def test_no_spares_reach_the_impossible() -> None:
    """0.99 with 2,048 nodes: restarts alone cost more, and the verdict says so."""
    answer = spares(SparesQuestion(nodes=2048, target=0.99, runs=2, days=10.0))
    assert answer.needed is None
    assert answer.unlimited == first_order_ettr(answer.question.losses)
    assert "restarts and checkpoints alone leave 0.901" in spares_sheet(answer).verdict


@pytest.mark.parametrize("wrong", [{"nodes": 0}, {"target": 1.0}, {"target": 0.0}, {"write": 0.0}])
def test_impossible_questions_about_spares(wrong: dict[str, float]) -> None:
    """Out of range: said before anything is simulated."""
    with pytest.raises(InvalidInput):
        spares(SparesQuestion(**({"nodes": 8} | wrong)))  # type: ignore[arg-type]


SMALL = MinipodQuestion(
    nodes=128,
    sizes=(16, 32, 128),
    ratios=(1.0, 2.0, 4.0),
    busy_share=0.5,
    jobs=((JobShape(8, 4), 8), (JobShape(8, 2), 6)),
    algorithms=("exact", "best-fit"),
    seeds=2,
)


def test_minipods() -> None:
    """A flat network keeps everything, more oversubscription never less lost, one minipod has none to cross."""
    answer = minipod_sizes(SMALL)
    assert len(answer.cells) == 3 * 2 * 4
    for name in SMALL.algorithms:
        for size in SMALL.sizes:
            kept = [answer.cell(name, size, ratio).throughput or 0.0 for ratio in SMALL.ratios]
            assert kept[0] == pytest.approx(1.0)
            assert kept == sorted(kept, reverse=True)
            assert all(0.0 < value <= 1.0 for value in kept)
        assert answer.cell(name, 128, 4.0).throughput == pytest.approx(1.0)
        assert answer.cell(name, 128, None).throughput == pytest.approx(1.0)
    # What the exact algorithm minimises is what costs throughput here.
    exact, other = (answer.cell(name, 16, 4.0) for name in SMALL.algorithms)
    assert (exact.throughput or 0.0) >= (other.throughput or 0.0)
    assert "exact instead of best-fit" in minipods_sheet(answer).verdict


@pytest.mark.parametrize(
    "wrong",
    [{"ratios": (0.5,)}, {"sizes": (0,)}, {"sizes": (4096,)}, {"busy_share": 0.99}],
)
def test_impossible_questions_about_minipods(wrong: dict[str, tuple[float, ...]]) -> None:
    """Ratios below 1, sizes beyond the cluster, jobs beyond the free nodes."""
    with pytest.raises(InvalidInput):
        MinipodQuestion(**wrong)  # type: ignore[arg-type]


def test_growing_never_hurts() -> None:
    """More empty minipods: a larger largest job, an objective no worse, and no longer waits."""
    cluster = fragment(minipods(minipods=4, nodes=48), 0.5, seed=1)
    question = GrowQuestion(more=(1, 2), shapes=(JobShape(8, 1), JobShape(8, 4)), days=0.25, load=1.2)
    answer = grow(cluster, question, source="a small cluster")
    assert [row.nodes for row in answer.rows] == [48, 60, 72]
    assert answer.added == 12
    for i in range(2):
        largest = [row.shapes[i].whole for row in answer.rows]
        assert largest == sorted(largest)
        objectives = [row.shapes[i].objective or 0.0 for row in answer.rows]
        assert objectives == sorted(objectives, reverse=True)
    # 12 more free nodes hold exactly 12 more cells of a job without pipeline, and three more rows of four stages.
    assert [row.shapes[0].most for row in answer.rows] == [24, 36, 48]
    assert answer.rows[1].shapes[1].whole - answer.rows[0].shapes[1].whole == 12
    waits = [row.wait for row in answer.rows]
    assert waits[0] is not None
    assert waits[-1] is not None
    assert waits[-1] <= waits[0]
    assert "With 1 minipod more" in grow_sheet(answer).verdict


@pytest.fixture(scope="module")
def reserved() -> ReserveAnswer:
    """A job of 64 of 96 nodes, announced two hours ahead, on a cluster of which others ask for all."""
    question = ReserveQuestion(
        minipods=12,
        minipod_nodes=8,
        shape=JobShape(8, 4),
        rows=16,
        notice_hours=2.0,
        run_hours=4.0,
        warm_hours=6.0,
        after_hours=4.0,
        longest_hours=2.0,
        load=1.0,
        seconds=1.0,
    )
    return reserve(question)


def test_reserving_empties_the_zone(reserved: ReserveAnswer) -> None:
    """With Algorithm 1 the large job starts the instant it arrives, in a zone that nobody else holds.

    Others run at most as long as the notice and end in time, or are not let in; without a zone it waits.
    """
    rows = {row.policy: row for row in reserved.rows}
    assert reserved.zone == 64
    for name in ("arnold", "arnold-no-jct"):
        assert rows[name].starts == 0.0
        assert rows[name].zone_held == 0
        # Two thirds of the cluster are the zone: no more than the other third is held when the job arrives.
        assert rows[name].at_arrival <= 1 / 3
    assert rows["arnold-no-reserve"].starts is not None
    assert rows["arnold-no-reserve"].starts > 0.0
    assert rows["arnold-no-reserve"].zone_held > 0


def test_reserving_costs_and_predictions_help(reserved: ReserveAnswer) -> None:
    """Idle node-hours: fewest without a zone, most without predictions."""
    idle = {row.policy: row.idle for row in reserved.rows}
    assert idle["arnold-no-reserve"] < idle["arnold"] < idle["arnold-no-jct"]


def test_samples_of_a_reservation(reserved: ReserveAnswer) -> None:
    """Every five minutes from two hours before until the others stop submitting; shares are shares."""
    line = reserved.rows[0].line
    assert line[0].hours == pytest.approx(-2.0)
    assert line[1].hours - line[0].hours == pytest.approx(1 / 12)
    assert all(0.0 <= one.allocation <= 1.0 and 0 <= one.zone_held <= reserved.zone for one in line)
    sheet = reserve_sheet(reserved)
    assert "starts on arrival" in sheet.verdict
    assert [row[0] for row in sheet.tables[1].rows][:3] == ["17:00", "17:30", "18:00"]


def test_the_load_is_what_was_asked(reserved: ReserveAnswer) -> None:
    """Jobs are kept until they ask for the load, one job more or less."""
    assert reserved.asked == pytest.approx(1.0, abs=0.1)


def test_a_job_larger_than_the_cluster() -> None:
    """Said before the replay."""
    with pytest.raises(InvalidInput, match="1,200 nodes of 8 GPUs, the cluster 100"):
        reserve(ReserveQuestion(minipods=10, minipod_nodes=10))
