"""A run that goes on from a checkpoint is the run that was never stopped, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from arnold.exports import job_rows
from scheduler.queue.arnold import Arnold
from scheduler.queue.conservative import ConservativeBackfill
from scheduler.queue.fifo_and_backfill import Fifo, FifoBackfill
from scheduler.queue.policy import QueuePolicy
from scheduler.queue.priority import PriorityPreempt
from simulator.checkpoints import EngineSnapshot, restore, snapshot
from simulator.engine import Engine, Watch
from simulator.hooks import Incident
from simulator.job_record import JobRecord
from tests.case_counts import examples
from tests.simulator.clusters import racks
from tests.simulator.drawn_traces import traces
from tests.simulator.incidents import Scripted
from tests.simulator.runs import go_on, log_attempts, placed

CLUSTER = racks(6, per_rack=3)
TROUBLE = [Incident(2.5, "down", 1), Incident(4, "flag", 2, 1.5), Incident(6, "up", 1), Incident(7, "flag", 2, 1.0)]


def engine_of(records: Sequence[JobRecord], policy: QueuePolicy) -> Engine:
    """An engine with everything that has a state."""
    engine = Engine(records, placed(CLUSTER), policy, incidents=Scripted(TROUBLE))
    log_attempts(engine)
    return engine


def bytes_of(engine: Engine) -> str:
    """All that a finished run says, wall time aside."""
    said = [*job_rows(engine.jobs, CLUSTER.names), engine.events, [part.state() for part in engine.kept]]
    return json.dumps(said)


@pytest.mark.parametrize(
    "policy",
    [Fifo(), FifoBackfill(), ConservativeBackfill(), PriorityPreempt(), Arnold()],
    ids=lambda policy: policy.name,
)
@given(records=traces(), instants=st.integers(0, 20))
@examples(25)
def test_going_on_equals_never_stopping(policy: QueuePolicy, records: list[JobRecord], instants: int) -> None:
    """Stopped after any number of instants, written as JSON, read again, brought into a new engine, ended."""
    whole = engine_of(records, policy)
    whole.begin()
    whole.run()
    first = engine_of(records, policy)
    first.begin()
    go_on(first, instants)
    file = TypeAdapter(EngineSnapshot)
    text = file.dump_json(snapshot(first))
    second = engine_of(records, policy)
    restore(second, file.validate_json(text))
    second.run()
    assert bytes_of(second) == bytes_of(whole)


@given(records=traces())
@examples(20)
def test_the_same_inputs_give_the_same_bytes(records: list[JobRecord]) -> None:
    """Twice the same run."""
    engines = [engine_of(records, FifoBackfill()) for _ in range(2)]
    for engine in engines:
        engine.run()
    assert bytes_of(engines[0]) == bytes_of(engines[1])


def test_an_interrupted_run_saves_its_state_first() -> None:
    """Ctrl-C between two looks at the clock: the checkpoint is written, then the interruption goes on."""
    asked: Iterator[int] = count()
    saved: list[EngineSnapshot] = []
    records = [JobRecord(f"j{i}", i, 1.5, 8) for i in range(2000)]
    engine = engine_of(records, Fifo())
    watch = Watch(interrupted=lambda: next(asked) == 2, save=lambda one: saved.append(snapshot(one)), every=1e9)
    with pytest.raises(KeyboardInterrupt):
        engine.run(watch)
    assert [0 < state.completed < 2000 for state in saved] == [True]
