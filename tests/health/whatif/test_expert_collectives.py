"""Collectives of expert and context parallelism inside passes: who makes the others wait in them is named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import Arnold
from tests.facts import says

DP, PP, MICROBATCHES, STEPS = 8, 2, 4, 6
EXCHANGE = 0.004  # Seconds of a collective once all are there


def gpipe(
    slow: tuple[int, int] | None = None,
    factor: float = 1.0,
    *,
    experts: int = 4,
    kind: str = "ep-all-to-all",
    waits: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Rows of GPipe whose passes are halves with an exchange between and after them, among neighbouring replicas.

    A forward pass computes 20 ms, a backward pass 40 ms, 1 % noise.  The members of a group leave an exchange together;
    the worker ``waits`` is in each for 10 ms longer, for somebody without rows.
    """
    random = np.random.default_rng(0)
    rows: list[tuple[Any, ...]] = []

    numbers = Counter[tuple[int, int, int, str]]()

    def row(of: tuple[int, int, int], optype: str, span: tuple[float, float], microbatch: int = -1) -> None:
        chunk = 0 if microbatch >= 0 else -1
        rows.append((*of, optype, span[0], span[1] - span[0], numbers[*of, optype], chunk, microbatch))
        numbers[*of, optype] += 1

    for step in range(STEPS):
        free = np.zeros((PP, DP))
        for forward in (True, False):
            arrived = np.zeros((MICROBATCHES, DP))
            stages = range(PP) if forward else range(PP - 1, -1, -1)
            for stage in stages:
                for microbatch in range(MICROBATCHES):
                    name = "forward" if forward else "backward"
                    first, last = stage == stages[0], stage == stages[-1]
                    start = np.maximum(free[stage], arrived[microbatch])
                    for dp in range(DP) if not first else ():
                        row((dp, stage, step), f"{name}-recv", (free[stage, dp], start[dp]))
                    now, exchanges = start.copy(), []
                    for _ in range(2):
                        seconds = (0.01 if forward else 0.02) * (1 + 0.01 * random.standard_normal(DP))
                        if slow is not None and slow[1] == stage:
                            seconds[slow[0]] *= factor
                        began = now + seconds
                        now = began.reshape(-1, experts).max(axis=1).repeat(experts) + EXCHANGE
                        if waits is not None and waits[1] == stage:
                            now[waits[0]] += 0.01
                        exchanges.append((began, now))
                    for dp in range(DP):
                        row((dp, stage, step), f"{name}-compute", (start[dp], now[dp]), microbatch)
                        for began, over in exchanges:
                            row((dp, stage, step), kind, (began[dp], over[dp]))
                        if not last:
                            row((dp, stage, step), f"{name}-send", (now[dp], now[dp]))
                    free[stage] = arrived[microbatch] = now
        for stage in range(PP):
            together = free[stage].max() + 0.001
            for dp in range(DP):
                row((dp, stage, step), "grads-reduce-scatter", (free[stage, dp], together))
        end = free.max() + 0.002
        for stage in range(PP):
            for dp in range(DP):
                row((dp, stage, step), "optimizer-clip-main-grad", (free[stage].max() + 0.001, end))
                row((dp, stage, step), "optimizer", (end, end + 0.003))
    names = ("dp_rank", "stage", "step", "optype", "start_ts", "duration", "seq_id", "mc", "mb_id")
    return dict(zip(names, zip(*rows, strict=True), strict=True))


def analysed(arnold: Arnold, folder: Path, rows: dict[str, Any], meta: str = "") -> Any:
    """The answer of ``arnold stragglers``."""
    pq.write_table(pa.table({name: list(values) for name, values in rows.items()}), folder / "trace.parquet")
    (folder / "meta.yaml").write_text(f"dp_size: {DP}\npp_size: {PP}\n{meta}")
    ran = arnold("stragglers", folder / "trace.parquet", "--meta", folder / "meta.yaml", "--json")
    assert ran.code == 0, ran.err
    return ran.json


@pytest.mark.parametrize("meta", ["", "ep_size: 4\n"], ids=["ep by the rows", "ep_size"])
@pytest.mark.parametrize("slow", [(2, 0), (5, 1)])
def test_the_slow_member_of_an_expert_group_is_named(
    slow: tuple[int, int], meta: str, arnold: Arnold, tmp_path: Path
) -> None:
    """All members of its group have passes of the same length; only what they wait in them differs."""
    document = analysed(arnold, tmp_path, gpipe(slow, 1.5), meta)
    assert [(worker["dp"], worker["stage"]) for worker in document["slow_workers"]] == [slow]
    assert document["slow_workers"][0]["factor"] == pytest.approx(1.5, abs=0.02)
    assert document["cause"] == "worker"
    assert abs(document["replay_error"]) < 0.02
    assert document["by_optype"]["ep-all-to-all"] == pytest.approx(1.0, abs=0.01)


def test_healthy_expert_groups_are_left_alone(arnold: Arnold, tmp_path: Path) -> None:
    """Noise of 1 %."""
    document = analysed(arnold, tmp_path, gpipe())
    assert document["slow_workers"] == []
    assert document["cause"] == "none"


def test_what_is_waited_for_in_context_groups_accuses_nobody(arnold: Arnold, tmp_path: Path) -> None:
    """The others of a context-parallel group have no rows: who waits for one in each pass computes no longer."""
    document = analysed(arnold, tmp_path, gpipe(experts=1, kind="cp-all-gather", waits=(3, 1)))
    assert document["slow_workers"] == []
    assert document["slowdown"] > 1.2
    assert says(document["help"][0], "as fast as their peers")


def test_other_types_are_refused_still(arnold: Arnold, tmp_path: Path) -> None:
    """``ep-dispatch`` is no operation; the message has those that are."""
    rows = gpipe(kind="ep-dispatch")
    pq.write_table(pa.table({name: list(values) for name, values in rows.items()}), tmp_path / "trace.parquet")
    ran = arnold("stragglers", tmp_path / "trace.parquet")
    assert ran.code == 2
    assert says(ran.err, "ep-dispatch", "ep-all-to-all")
