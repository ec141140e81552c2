"""Every number that was published of the traces AR and ST (ByteDance-Seed/StragglerAnalysis), to 1e-6 relative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from health.whatif import slow_workers, verdict
from tests.facts import says

DIGITS = 1e-6


def close(ours: Any, published: Any) -> bool:
    """Whether all numbers agree to 1e-6 relative, without any absolute allowance."""
    return bool(np.allclose(ours, published, rtol=DIGITS, atol=0.0))


def test_sizes_and_steps(published: Any) -> None:
    """The job is read as the published metadata have it, and the same steps are analysed."""
    meta, analysis = published.result["job_meta"], published.analysis
    assert (analysis.dp, analysis.pp, analysis.tp, analysis.vpp) == tuple(
        meta[f"{key}_size"] for key in ("dp", "pp", "tp", "vpp")
    )
    assert [str(step) for step in analysis.steps] == list(published.result["step_t_base"])


def test_step_times(published: Any) -> None:
    """Traced, simulated and ideal time of every step."""
    result, per_step = published.result, published.analysis.per_step
    assert close(per_step.traced_seconds, list(result["step_t_base"].values()))
    assert close(per_step.seconds, list(result["step_t_nodelay"].values()))
    assert close(published.analysis.ideal_step_seconds, list(result["step_t_noblk"].values()))


def test_slowdowns(published: Any) -> None:
    """S of the job and of every step, and the part that the replay leaves out ("launch")."""
    result, analysis = published.result, published.analysis
    steps = [str(step) for step in analysis.steps]
    assert close(analysis.slowdown, result["blocking_slowdown"])
    assert close(analysis.step_slowdown, [result["blocking_step_slowdown"][step] for step in steps])
    assert close(analysis.replay_error + 1.0, result["launch_slowdown"])
    launch = analysis.per_step.traced_seconds / analysis.per_step.seconds
    assert close(launch, [result["launch_step_slowdown"][step] for step in steps])


@pytest.mark.parametrize("part", ["dp_rank", "stage", "optype"])
def test_decompositions(published: Any, part: str) -> None:
    """Slowdown by data-parallel rank, by stage and by operation type, for the job and for every step."""
    analysis, per_step, result = published.analysis, published.analysis.per_step, published.result
    if part == "optype":
        ours, stepwise = analysis.by_optype, per_step.by_optype
    else:
        whole = {"dp_rank": analysis.dp_slowdown, "stage": analysis.stage_slowdown}[part]
        rows = {"dp_rank": per_step.by_dp, "stage": per_step.by_stage}[part]
        ours = {str(i): value for i, value in enumerate(whole)}
        stepwise = {str(i): row for i, row in enumerate(rows)}
    theirs, theirs_stepwise = (
        result[f"blocking_decompose_by_{part}"],
        result[f"blocking_decompose_by_{part}_per_step"],
    )
    assert ours.keys() == theirs.keys()
    for key in theirs:
        assert close(ours[key], theirs[key])
        assert close(stepwise[key], [theirs_stepwise[str(step)][key] for step in analysis.steps])


def test_shares_of_workers_and_last_stage(published: Any) -> None:
    """M_W and M_S with all that stands behind them."""
    analysis = published.analysis
    for ours, theirs, name in (
        (analysis.slowest, published.worker, "Mw"),
        (analysis.last_stage, published.stage, "Ms"),
    ):
        assert close(ours.share, theirs[name])
        assert close(ours.share, theirs["rem"])
        assert close(ours.alone_share, theirs["add"])
        assert close(ours.without_seconds, theirs["trem"])
        assert close(ours.alone_seconds, theirs["tadd"])
        assert close(analysis.step_seconds, theirs["tori"])
        assert close(analysis.ideal_step_seconds, theirs["tideal"])
    assert analysis.m_w == analysis.slowest.share
    assert analysis.m_s == analysis.last_stage.share


def test_causes_and_blame(published: Any) -> None:
    """AR was slowed by hand at one worker, which is found; ST by its last stage, and nobody is blamed."""
    workers = slow_workers(published.replayed, published.analysis)
    if published.trace.name == "trace-AR.parquet":
        assert published.analysis.cause == "worker"
        assert [(worker.dp, worker.stage) for worker in workers] == [(0, 0)]
        # 45.29 s of compute against 19.18, 19.23 and 19.29 s of the other ranks of stage 0, as means over the steps.
        assert workers[0].factor == pytest.approx(45.29 / 19.23, rel=0.01)
        assert says(verdict(published.analysis), "1.97x slower", "one worker", "dp 0 / stage 0", "all of it")
    else:
        assert published.analysis.cause == "last-stage"
        assert workers == ()
