"""From stacks to the group to evict: planted faults are found, and what is no fault evicts nobody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidJob
from ground.files import Source
from health.recovery.eviction import Eviction, decide, evict_notes, evict_sentence, look_at, shared_groups, tally_rounds
from health.recovery.machines import UNIT_FAMILIES, Machines, UnitFamily
from health.recovery.stacks import Dumps, StackView, group_stacks, outliers_of, parse_dump
from scheduler.job import Job, Parallelism
from tests.case_counts import examples
from tests.facts import says
from tests.health.recovery.recovery_world import LOSS, SEND, dump_text, machines, stacks_of

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def dumps_of(stacks: dict[int, Sequence[str]]) -> Dumps:
    """Dumps of ranks in some stacks."""
    parsed = {stack: parse_dump(Source("d", dump_text(stack))) for stack in {tuple(s) for s in stacks.values()}}
    return Dumps({rank: parsed[tuple(stack)] for rank, stack in stacks.items()})


def decided(job: Machines, *odd: Callable[[int, int], bool], compare: str = "job") -> Eviction:
    """The decision after one look for each rule of who is out of place."""
    looks = [look_at(dumps_of(stacks_of(job, rule)), job, view=StackView(compare=compare)) for rule in odd]  # type: ignore[arg-type]
    return decide(job, looks)


@examples(60)
@given(st.dictionaries(st.integers(0, 30), st.sampled_from("abcd"), min_size=1), st.floats(0.01, 1.0))
def test_groups_hold_every_rank_once(places: dict[int, str], dominant: float) -> None:
    """Groups part the ranks, largest first; the largest is never out of place, a group is so as a whole."""
    groups = group_stacks({rank: ((place,),) for rank, place in places.items()}, dominant=dominant)
    assert sorted(rank for group in groups for rank in group.ranks) == sorted(places)
    assert all(len(a.ranks) >= len(b.ranks) for a, b in pairwise(groups))
    assert groups[0].outliers == ()
    for group in groups:
        expected = group.ranks if len(group.ranks) < dominant * len(groups[0].ranks) else ()
        assert group.outliers == expected


@pytest.mark.parametrize(("few", "expected"), [(3, ()), (2, (6, 7))])
def test_half_of_the_largest_is_dominant(few: int, expected: tuple[int, ...]) -> None:
    """Beside six ranks, three are half of them and healthy, two are not: 3 = 0.5 * 6 > 2."""
    places = {rank: (("a" if rank < 6 else "b",),) for rank in range(6 + few)}
    assert outliers_of(group_stacks(places)) == expected


@examples(40)
@given(st.data())
def test_a_planted_group_is_the_unit(data: st.DataObject) -> None:
    """Ranks of at least two machines of one PP group out of place, and that group is evicted, all of it."""
    dp, pp = data.draw(st.integers(4, 8)), data.draw(st.integers(2, 4))
    job = machines(dp=dp, pp=pp)
    row = data.draw(st.integers(0, dp - 1))
    stages = data.draw(st.sets(st.integers(0, pp - 1), min_size=2))
    eviction = decided(job, lambda r, c: r == row and c in stages)
    assert eviction.unit is not None
    assert (eviction.unit.family, eviction.unit.group, eviction.doubt) == ("pp", row, None)
    assert eviction.unit.node_ranks == tuple(np.flatnonzero(job.row == row))
    assert {flag.node for flag in eviction.flags(NOW, hold=timedelta(hours=1))} == {
        job.name(m) for m in eviction.unit.node_ranks if job.column[m] in stages
    }


def test_the_smallest_shared_group_comes_first() -> None:
    """Ranks of one machine share a TP, a PP and a DP group: of 1, 4 and 6 machines, in this order."""
    job = machines()
    units = shared_groups(job, [8 * 7 + 1, 8 * 7 + 2])
    assert [(unit.family, len(unit.node_ranks)) for unit in units] == [("tp", 1), ("pp", 4), ("dp", 6)]
    # Node rank 7 = pp * rows + dp with 6 rows: row 1, stage 1.
    assert [unit.group for unit in units] == [7, 1, 1]


@examples(60)
@given(st.sets(st.integers(0, 191), min_size=1, max_size=12))
def test_shared_groups_are_what_the_grid_says(ranks: set[int]) -> None:
    """A group is a candidate exactly when all machines with outliers are in it, and it is not the whole job."""
    job = machines()
    units = shared_groups(job, sorted(ranks))
    assert [len(unit.node_ranks) for unit in units] == sorted(len(unit.node_ranks) for unit in units)
    where = {rank // 8 for rank in ranks}
    expected = {family for family in UNIT_FAMILIES if len({int(job.unit_of(family)[m]) for m in where}) == 1}
    assert {unit.family for unit in units} == expected
    assert all(where <= set(unit.node_ranks) for unit in units)


@pytest.mark.parametrize("order", ["tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"])
@pytest.mark.parametrize("parts", [2, 4])
def test_machines_of_a_tp_group_go_together(order: str, parts: int) -> None:
    """With TP over several machines all of them wait for one: units are made of whole TP groups, whose machines have
    node ranks that follow each other; 3 replicas of 4 stages are 12 of them.
    """
    job = Machines(Job("wide", Parallelism(tp=8 * parts, dp=3, pp=4, order=order)))
    assert len(job) == 12 * parts
    for first in range(0, len(job), parts):
        group = tuple(range(first, first + parts))
        for machine in group:
            units = {unit.family: unit for unit in shared_groups(job, [8 * machine + 3])}
            assert units["tp"].node_ranks == group
            assert units["tp"].group == first // parts
            dp, pp = job.machine(machine).dp, job.machine(machine).pp
            of_all = [job.machine(other) for other in range(len(job))]
            assert units["pp"].node_ranks == tuple(one.node_rank for one in of_all if one.dp == dp)
            assert units["dp"].node_ranks == tuple(one.node_rank for one in of_all if one.pp == pp)
            assert (units["pp"].group, units["dp"].group) == (dp, pp)


def test_a_tp_group_of_two_machines_is_evicted_with_its_neighbours() -> None:
    """All machines of replica 1 of 4 hang: the replica is the unit, 4 machines of 2 stages.

    Of a single TP group it is that one, whichever of its machines is at fault, and the one with outliers is flagged.
    """
    job = Machines(Job("wide", Parallelism(tp=16, dp=4, pp=2)), tuple(f"n{i:02}" for i in range(16)))
    pipeline = decided(job, lambda r, c: r // 2 == 1).unit
    assert pipeline is not None
    assert (pipeline.family, pipeline.group, len(pipeline.node_ranks)) == ("pp", 1, 4)
    one = decided(job, lambda r, c: (r, c) == (3, 1))
    assert one.unit is not None
    assert (one.unit.family, one.unit.group, one.unit.node_ranks) == ("tp", 5, (10, 11))
    assert says(evict_sentence(one), "TP group 5", "2 machines", "8 of 128 ranks")
    (flag,) = one.flags(NOW, hold=timedelta(hours=1))
    assert flag.node == "n11"
    assert "evicted with TP group 5" in flag.evidence


def test_a_stage_of_one_replica_is_no_role() -> None:
    """Of a single replica a stage is one TP group, over however many machines, and may well be at fault."""
    job = Machines(Job("wide", Parallelism(tp=16, pp=4)))
    eviction = decided(job, lambda r, c: c == 1)
    assert eviction.unit is not None
    assert (eviction.unit.family, eviction.unit.node_ranks, eviction.doubt) == ("tp", (2, 3), None)


def test_nothing_in_common_evicts_nothing() -> None:
    """Outliers in two rows and two stages share no group; nobody is evicted or flagged, and the sentence says so."""
    eviction = decided(machines(), lambda r, c: (r, c) in {(0, 0), (1, 1)})
    assert (eviction.unit, eviction.doubt) == (None, "no-shared-group")
    assert eviction.flags(NOW, hold=timedelta(hours=1)) == ()
    assert "share no group" in evict_sentence(eviction)


def test_all_alike_evicts_nothing() -> None:
    """Every rank in the same stack: nothing to evict, and what to compare besides."""
    eviction = decided(machines(), lambda r, c: False)
    assert (eviction.unit, eviction.doubt) == (None, "no-outliers")
    assert says(evict_sentence(eviction), "all 192 ranks", "same stack")
    assert any("--lines" in note for note in evict_notes(eviction, StackView()))


def test_the_whole_job_is_no_unit() -> None:
    """With one stage the DP group is the job; outliers on two machines of it evict nobody."""
    eviction = decided(machines(pp=1, dp=8), lambda r, c: r in {2, 3})
    assert eviction.unit is None


def test_a_stage_is_doubtful() -> None:
    """All ranks of the last stage elsewhere is what a stage with other work looks like: doubtful, nobody flagged.

    Compared with their own stage they are all alike, so that nothing is left to evict.
    """
    job = machines()
    stacks = stacks_of(job, lambda r, c: c == 3, stack=LOSS)
    eviction = decide(job, [look_at(dumps_of(stacks), job, view=StackView())])
    assert eviction.unit is not None
    assert (eviction.unit.family, eviction.doubt) == ("dp", "role")
    assert eviction.flags(NOW, hold=timedelta(hours=1)) == ()
    assert "Doubtful" in evict_sentence(eviction)
    assert decide(job, [look_at(dumps_of(stacks), job, view=StackView(compare="stage"))]).doubt == "no-outliers"


def test_stages_of_their_own_hide_no_fault() -> None:
    """The last stage does other work and row 2 hangs: compared by stage, row 2 is found in every stage."""
    job = machines()
    stacks = stacks_of(job, lambda r, c: c == 3, stack=LOSS) | {
        rank: SEND for rank in range(job.ranks) if job.row[job.of_rank(rank)] == 2
    }
    by_job = decide(job, [look_at(dumps_of(stacks), job, view=StackView())])
    by_stage = decide(job, [look_at(dumps_of(stacks), job, view=StackView(compare="stage"))])
    assert by_job.doubt == "no-shared-group"
    assert by_stage.unit is not None
    assert (by_stage.unit.family, by_stage.unit.group, by_stage.doubt) == ("pp", 2, None)


def test_a_unit_of_one_family_only() -> None:
    """One machine out of place is a unit by itself; asked for PP groups, its PP group is evicted."""
    job = machines()
    look = look_at(dumps_of(stacks_of(job, lambda r, c: (r, c) == (1, 1))), job, view=StackView())
    smallest, pipeline = decide(job, [look]).unit, decide(job, [look], family="pp").unit
    assert smallest is not None
    assert pipeline is not None
    assert (smallest.family, smallest.node_ranks) == ("tp", (7,))
    assert (pipeline.family, pipeline.group) == ("pp", 1)


def test_five_rounds_flag_the_slow_group() -> None:
    """Now one, now another machine of row 4 lags, once a stray one elsewhere: row 4 led in all but that round."""
    job = machines()
    lagging = [(4, 0), (4, 2), (1, 1), (4, 3), (4, 0)]
    eviction = decided(job, *(lambda r, c, cell=cell: (r, c) == cell for cell in lagging))  # type: ignore[misc]
    assert eviction.unit is not None
    assert (eviction.unit.family, eviction.unit.group, eviction.unit.rounds) == ("pp", 4, 4)
    assert eviction.doubt is None
    # (4, 0) lagged in 2 of 5 looks, less than half: its row is evicted, and no machine of it flagged.
    assert eviction.flags(NOW, hold=timedelta(hours=1)) == ()


def test_one_slow_machine_is_itself_the_unit() -> None:
    """The same machine in each of five rounds: a smaller group than its row, flagged until it has been diagnosed."""
    job = machines()
    eviction = decided(job, *[lambda r, c: (r, c) == (4, 0)] * 5)
    assert eviction.unit is not None
    assert (eviction.unit.family, eviction.unit.rounds, eviction.unit.outliers) == ("tp", 5, 40)
    (flag,) = eviction.flags(NOW, hold=timedelta(hours=24))
    assert (flag.node, flag.kind, flag.score) == ("n004", "faulty", 1.0)
    assert (flag.since, flag.until) == (NOW, NOW + timedelta(hours=24))


def test_level_rounds_decide_nothing() -> None:
    """Two machines that share no group lag in one round each: level, take more looks."""
    eviction = decided(machines(), lambda r, c: (r, c) == (0, 0), lambda r, c: (r, c) == (1, 1))
    assert (eviction.unit, eviction.doubt) == (None, "level")
    assert "more looks" in evict_sentence(eviction)


def test_a_leader_of_a_minority_is_evicted_and_not_flagged() -> None:
    """Row 4 leads in two of five rounds, others in one each: the paper's rule evicts it, ours does not flag it."""
    job = machines()
    lagging = [{(4, 0)}, {(4, 0)}, {(1, 1)}, {(2, 2)}, {(3, 3)}]
    eviction = decided(job, *(lambda r, c, cells=cells: (r, c) in cells for cells in lagging))  # type: ignore[misc]
    assert eviction.unit is not None
    assert (eviction.unit.rounds, eviction.doubt) == (2, "minority")
    assert eviction.flags(NOW, hold=timedelta(hours=1)) == ()


@examples(40)
@given(st.lists(st.sets(st.integers(0, 191), max_size=6), min_size=2, max_size=6))
def test_tallies_count_rounds(rounds: list[set[int]]) -> None:
    """Each candidate led its family in as many rounds as a count by hand says."""
    job = machines()
    units = tally_rounds(job, [sorted(each) for each in rounds])
    for unit in units:
        number = job.unit_of(unit.family)
        led = 0
        for outliers in filter(None, rounds):
            counts: dict[int, int] = {}
            for rank in outliers:
                group = int(number[rank // 8])
                counts[group] = counts.get(group, 0) + 1
            led += counts.get(unit.group, 0) == max(counts.values())
        assert unit.rounds == led
    assert [unit.rounds for unit in units] == sorted((unit.rounds for unit in units), reverse=True)


def test_missing_ranks_are_said_and_prove_nothing() -> None:
    """A machine without dumps is not evicted for it; the note says how many ranks are missing."""
    job = machines()
    stacks = {rank: stack for rank, stack in stacks_of(job, lambda r, c: False).items() if rank >= 8}
    eviction = decide(job, [look_at(dumps_of(stacks), job, view=StackView())])
    assert eviction.unit is None
    assert any("8 of 192 ranks have no dump" in note for note in evict_notes(eviction, StackView()))


def test_without_names_nobody_is_flagged() -> None:
    """A flag needs the name of a node; the note says where names come from."""
    job = machines(names=False)
    eviction = decided(job, lambda r, c: (r, c) == (1, 1))
    assert eviction.unit is not None
    assert eviction.flags(NOW, hold=timedelta(hours=1)) == ()
    assert "machine7" in evict_sentence(eviction)
    assert any("--placement" in note for note in evict_notes(eviction, StackView()))


def test_machines_follow_the_order_of_the_job() -> None:
    """In the order tp-cp-ep-pp-dp stages are next to each other: node rank 5 is row 1, stage 1 of 4."""
    job = Machines(Job("other", Parallelism(tp=8, pp=4, dp=6, order="tp-cp-ep-pp-dp")))
    assert (int(job.row[5]), int(job.column[5])) == (1, 1)
    assert job.of_rank(47) == 5


# Machines filled in part


def by_hand(job: Job, together: Callable[[int, int], bool]) -> set[frozenset[int]]:
    """Machines in one set where ranks of theirs are together, or are with machines that are."""
    sets = [{rank // job.gpus_per_node} for rank in range(job.parallelism.gpus)]
    for a, b in combinations(range(job.parallelism.gpus), 2):
        if together(a, b) and sets[a] is not sets[b]:
            merged = sets[a] | sets[b]
            sets = [merged if one & merged else one for one in sets]
    return {frozenset(one) for one in sets}


@examples(80)
@given(
    st.tuples(*(st.sampled_from(sizes) for sizes in ((1, 2, 4), (1, 2), (1, 2, 3, 5), (1, 2, 3)))),
    st.sampled_from(["tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "tp-pp-cp-ep-dp"]),
    st.sampled_from([2, 4, 8]),
)
def test_units_are_the_machines_of_groups_of_ranks(degrees: tuple[int, ...], order: str, gpus: int) -> None:
    """However ranks fill the machines, the last one in part too: a PP unit is what pipelines join, a DP unit what the
    ranks of a stage join, counted rank by rank as Megatron numbers them; of what it refuses, and of stages that share
    machines, an error.
    """
    sizes = {"ep": 1, **dict(zip(("tp", "cp", "dp", "pp"), degrees, strict=True))}
    try:
        job = Job("job", Parallelism(**sizes, order=order), gpus_per_node=gpus)
        machines = Machines(job)
    except InvalidJob:
        return

    def at(rank: int) -> dict[str, int]:
        place = {}
        for name in order.split("-"):
            rank, place[name] = divmod(rank, sizes[name])
        return place

    def units(family: UnitFamily) -> set[frozenset[int]]:
        of = machines.unit_of(family)
        return {frozenset(np.flatnonzero(of == group).tolist()) for group in of}

    def alike(*names: str) -> Callable[[int, int], bool]:
        return lambda a, b: all(at(a)[name] == at(b)[name] for name in names)

    assert units("tp") == by_hand(job, alike("cp", "dp", "pp"))
    assert units("pp") == by_hand(job, alike("cp", "dp"))
    assert units("dp") == by_hand(job, alike("pp"))
    assert [machines.ranks_on(one) for one in range(len(machines))] == [
        sum(rank // gpus == one for rank in range(machines.ranks)) for one in range(len(machines))
    ]


def test_a_machine_filled_in_part_is_evicted_for_its_own_ranks() -> None:
    """TP 4, DP 5 on machines of 8: 20 ranks are 8, 8 and 4.  All four of the last are out of place: it is the unit, and
    its flag says 4 of 4, the strongest there is, not 4 of 8.
    """
    job = Machines(Job("job", Parallelism(tp=4, dp=5), gpus_per_node=8), ("n0", "n1", "n2"))
    stacks = {rank: SEND if rank >= 16 else LOSS for rank in range(20)}
    eviction = decide(job, [look_at(dumps_of(stacks), job, view=StackView())])
    assert eviction.unit is not None
    assert (eviction.unit.family, eviction.unit.node_ranks, eviction.unit.outliers) == ("tp", (2,), 4)
    (flag,) = eviction.flags(NOW, hold=timedelta(hours=1))
    assert (flag.node, flag.score) == ("n2", 1.0)
    assert says(flag.evidence, "4 of 4 ranks", "evicted")
