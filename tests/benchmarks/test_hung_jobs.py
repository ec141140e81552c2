"""Made jobs that hang: whoever is at fault alone is named, and nobody else ever is."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.evidence.hangs import PUBLISHED, SHAPES, HungCase, named_by_arnold, published
from benchmarks.evidence.hung_jobs import FaultKind, Shape, hang
from benchmarks.evidence.naming import Naming, rows
from benchmarks.evidence.rules import nvrx_attribution
from tests.case_counts import examples

KINDS: list[FaultKind] = ["none", "lock", "error", "died", "gpu"]


def named(shape: Shape, kind: FaultKind, faults: int, seed: int, *, timed: bool) -> tuple[set[int], set[int]]:
    """Who is at fault, and who is named."""
    culprits, dumps = hang(shape, kind, faults, np.random.default_rng(seed), timed=timed)
    return set(culprits), named_by_arnold([HungCase(kind, frozenset(culprits), dumps)])[0]


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("kind", ["lock", "died"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_rank_that_stops_is_named(shape: Shape, kind: FaultKind, timed: bool) -> None:
    """Its host stops between two operations, with a dump or without one: it alone."""
    culprits, found = named(shape, kind, 1, 1, timed=timed)
    assert found == culprits


@pytest.mark.parametrize(("kind", "seed", "culprits"), [("lock", 8, {2, 5}), ("error", 4, {5, 7})])
def test_two_at_once_are_both_named(kind: FaultKind, seed: int, culprits: set[int]) -> None:
    """Rank 5 stopped, and 4 has enqueued what it lacks, behind what 2 holds up; of four that exchange tokens two have
    completed it, and the others not even what was before.
    """
    assert named(Shape(2, 2, 2), kind, 2, seed, timed=False) == (culprits, culprits)


@examples(40)
@given(
    st.builds(Shape, st.integers(1, 3), st.integers(2, 3), st.integers(2, 3)),
    st.sampled_from(KINDS),
    st.integers(1, 2),
    st.integers(0, 2**20),
    st.booleans(),
)
def test_nobody_else_is_named(shape: Shape, kind: FaultKind, faults: int, seed: int, timed: bool) -> None:
    """Whatever the degrees, the fault, its time, and what the recorder saw."""
    culprits, found = named(shape, kind, faults, seed, timed=timed)
    assert found <= culprits


def test_a_stopped_host_leaves_nothing_pending() -> None:
    """What it enqueued is over, as all others came to it; each of the others waits for something."""
    (culprit,), dumps = hang(Shape(2, 2, 2), "lock", 1, np.random.default_rng(3), timed=False)
    pending = [len(json.loads(dump.text)["entries"]) for dump in dumps]
    assert pending[culprit] == 0
    assert all(count for rank, count in enumerate(pending) if rank != culprit)


def test_shares_are_counted() -> None:
    """Two culprits of which one is named, and one other: recall and precision are a half."""
    cases = [Naming("a", frozenset({1, 2}), frozenset({1, 3})), Naming("b", frozenset(), frozenset())]
    assert list(rows("x", cases)) == [
        ["a", "x", "1", "2", "1", "1", "0.50", "0.50"],
        ["b", "x", "1", "0", "0", "0", "-", "-"],
        ["all", "x", "2", "2", "1", "1", "0.50", "0.50"],
    ]


ANALYSER = """
class CollectiveAnalyzer:
    def __init__(self, options):
        self.folder = options["fr_path"]

    def run_sync(self, options):
        import glob, json
        dumps = [json.load(open(path)) for path in glob.glob(f"{self.folder}/{options['pattern']}")]
        last = {d["rank"]: d["pg_status"]["0"]["last_completed_collective"] for d in dumps}
        if not last:
            raise ValueError("nothing")
        behind = sorted(rank for rank, number in last.items() if number < max(last.values()))
        return {"hanging_ranks": f"hanging ranks: {behind}"}, None
"""
"""Names ranks that have completed less than others, by the interface of NVIDIA's; it stops where there are no dumps."""


def test_a_checkout_of_nvrx_is_asked(tmp_path: Path) -> None:
    """Its published dumps are pickles, with the faulty ranks in a log; its analyser runs on them, numbers as numbers.
    Where it stops it names nobody.
    """
    module = tmp_path / "src" / "nvidia_resiliency_ext" / "attribution" / "trace_analyzer" / "fr_attribution.py"
    module.parent.mkdir(parents=True)
    module.write_text(ANALYSER)
    job = tmp_path / PUBLISHED / "lock_gil_1st"
    job.mkdir(parents=True)
    (job / "fault_injection.log").write_text("Fault ranks: [1, 10]\nFault delay: 180.0\n")
    for rank in range(12):
        status = {"0": {"last_completed_collective": "9" if rank in (1, 10) else "10"}}
        document = {"version": "2.9", "entries": [], "pg_config": {}, "pg_status": status}
        (job / f"_dump_{rank}").write_bytes(pickle.dumps(document))
    (case,) = published(tmp_path)
    assert (case.kind, case.culprits, len(case.dumps)) == ("lock_gil_1st", frozenset({1, 10}), 12)
    assert nvrx_attribution(str(tmp_path), [case.dumps, []]) == [{1, 10}, set()]
