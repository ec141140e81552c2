"""Jobs of a trace that read data: the pace of those that wait for it, where gangs go, loads that could be shared."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from scheduler.job import DataSet
from simulator.checkpoints import EngineSnapshot, restore, snapshot
from simulator.data_plan import DataCache, DataPlan, StoredData
from simulator.history import run_history
from simulator.job_record import JobRecord
from simulator.replay import Replay, prepare
from simulator.replay_settings import ReplaySettings
from simulator.shared_data import SharedLoads, shared_loads
from simulator.traces import JobTrace
from tests.case_counts import examples
from tests.simulator.clusters import racks
from tests.simulator.runs import go_on

STORED = StoredData(
    samples=13_333, encoded_bytes=100, prepared_bytes=500, demand=10, augmented=400, decoded=120, encoded=40, miss=20
)
PLAN = DataPlan({"web": STORED, "code": STORED}, DataCache(bytes=1e9, level="rack"))


def job(name: str, *, reads: str = "web", size: float = inf, nodes: int = 1, at: float = 0.0) -> JobRecord:
    """A job of 1,000 seconds on whole nodes."""
    return JobRecord(name, at, 1000.0, 8.0 * nodes, nodes, data_sets=(DataSet(reads, size),))


def prepared(records: list[JobRecord], plan: DataPlan = PLAN, *, per_rack: int = 4) -> Replay:
    """A run on sixteen nodes in racks."""
    chosen = ReplaySettings("fifo", data=plan, cost="none")
    return prepare(JobTrace(tuple(records), source="jobs.csv"), racks(16, per_rack=per_rack), chosen)


def loads_of(replay: Replay) -> dict[str, SharedLoads]:
    """The loads of a run to its end, by data set."""
    replay.engine.run()
    found = shared_loads(run_history(replay.engine, replay.log, replay.cluster), PLAN)
    return {one.data_set: one for one in found}


def test_four_jobs_share_what_they_read() -> None:
    """Four jobs of one rack read 10,000 of 13,333 samples each, once: 40,000 loads, or 13,333 (1 - .25^4) = 13,281."""
    found = loads_of(prepared([job(name, size=10_000) for name in "abcd"]))["web"]
    assert (found.jobs, found.loads, round(found.shared)) == (4, pytest.approx(40_000), 13_281)


def test_jobs_of_other_data_share_nothing() -> None:
    """Each has its own loads, and neither fewer."""
    found = loads_of(prepared([job("a", size=10_000), job("b", reads="code", size=10_000)]))
    assert {name: (one.loads, one.shared) for name, one in found.items()} == {
        name: (pytest.approx(10_000), pytest.approx(10_000)) for name in ("code", "web")
    }


def test_jobs_share_while_both_run() -> None:
    """Two jobs that read all for 1,000 seconds, one 500 seconds later: half of each is shared, 1.5 of 2 are loaded."""
    found = loads_of(prepared([job("a", size=10_000), job("b", size=10_000, at=500.0)]))["web"]
    whole = 13_333 * (1 - 0.75)  # that both leave out, each a random quarter
    assert found.loads == pytest.approx(20_000)
    together = 13_333 * (1 - (whole / 13_333) ** 2)
    assert found.shared == pytest.approx(0.5 * (10_000 + together) + 0.5 * 10_000, rel=1e-3)


@examples(24)
@given(
    starts=st.lists(st.floats(0.0, 1500.0), min_size=1, max_size=5),
    sizes=st.lists(st.sampled_from([1_000.0, 9_000.0, 13_333.0]), min_size=5, max_size=5),
)
def test_sharing_only_saves(starts: list[float], sizes: list[float]) -> None:
    """Shared loads are no more than loads, and no fewer than the largest job has for itself."""
    records = [job(f"j{i}", size=sizes[i], at=at) for i, at in enumerate(sorted(starts))]
    found = loads_of(prepared(records))["web"]
    # every job works 1,000 seconds at 10 samples a second
    assert found.loads == pytest.approx(10_000 * len(records))
    assert 10_000 - 1e-6 <= found.shared <= found.loads + 1e-6


def test_a_job_waits_for_its_data() -> None:
    """It wants 40 samples a second.  Half of what it reads is in the cache: it gets 1 / (.5 / 40 + .5 / 20) = 26.7."""
    stored = replace(STORED, demand=40)
    plan = DataPlan({"web": stored}, DataCache(bytes=13_333 * 50))
    replay = prepared([job("a")], plan)
    replay.engine.run()
    assert replay.engine.jobs[0].end == pytest.approx(1000 * 40 * (0.5 / 40 + 0.5 / 20))


@pytest.mark.parametrize(("shared", "hits"), [(True, 1.0), (False, 0.5)])
def test_a_cache_in_common_holds_more(*, shared: bool, hits: float) -> None:
    """The cache of a rack holds all that two jobs read once; with a copy for each, half of either copy."""
    stored = replace(STORED, demand=40)
    plan = DataPlan({"web": stored}, DataCache(bytes=13_333 * 100, level="rack", shared=shared))
    replay = prepared([job("a"), job("b")], plan)
    replay.engine.run()
    pace = 40 * (hits / 40 + (1 - hits) / 20)
    assert [one.end for one in replay.engine.jobs] == pytest.approx([1000 * pace] * 2)


def test_who_leaves_leaves_room() -> None:
    """Once the job of other data ends, all that the second reads is in the cache, and it goes on at full speed."""
    stored = replace(STORED, demand=40)
    plan = DataPlan({"web": stored, "code": stored}, DataCache(bytes=13_333 * 100, level="rack"))
    replay = prepared([replace(job("a", reads="code"), duration=100.0), job("b")], plan)
    replay.engine.run()
    first, second = (one.end for one in replay.engine.jobs)
    assert first == pytest.approx(150.0)
    assert second == pytest.approx(150.0 + (1000 - 100))


def test_a_gang_goes_where_its_data_is() -> None:
    """Two racks have three free nodes each; a gang of two goes to that of the job which reads the same, either one."""
    first, other = job("a", reads="code", nodes=5), job("b", nodes=5)
    for reads, beside in (("web", "b"), ("code", "a")):
        replay = prepared([first, other, job("c", reads=reads, nodes=2, at=1.0)], per_rack=8)
        replay.engine.run()
        rack = {one.record.job_id: {node // 8 for node in one.places} for one in replay.engine.jobs}
        assert rack["a"] != rack["b"]
        assert rack["c"] == rack[beside]


@examples(20)
@given(instants=st.integers(0, 12))
def test_a_run_goes_on_from_a_checkpoint(instants: int) -> None:
    """Stopped after any number of instants and read again, it ends as if it had never stopped."""
    stored = replace(STORED, demand=40)
    plan = DataPlan({"web": stored, "code": stored}, DataCache(bytes=13_333 * 80, level="rack"))
    records = [job(f"j{i}", reads="code" if i % 3 else "web", nodes=1 + i % 2, at=100.0 * i) for i in range(6)]
    whole, first, second = (prepared(records, plan).engine for _ in range(3))
    whole.run()
    first.begin()
    go_on(first, instants)
    file = TypeAdapter(EngineSnapshot)
    restore(second, file.validate_json(file.dump_json(snapshot(first))))
    second.run()
    assert [(one.end, *one.places) for one in second.jobs] == [(one.end, *one.places) for one in whole.jobs]
