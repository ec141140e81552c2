"""Profiles of jobs with context and expert parallelism on GPUs: the rank that the others of its group wait for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from health.look.folder import look_at_folder
from health.whatif.conversion import ConversionSettings
from health.whatif.converters import convert
from health.whatif.trace import JobSizes, layout_of
from tests.conftest import Arnold
from tests.health.whatif.profiles_made import RankProfile

DP, PP, CP, MICROBATCHES, STEPS = 4, 2, 2, 4, 3
WORLD = DP * PP * CP
SIZES = JobSizes(dp=DP, pp=PP, dsp=CP, world=WORLD)
META = f"dp_size: {DP}\npp_size: {PP}\ndsp_size: {CP}\n"
GROUPS = {"cp": "CONTEXT_PARALLEL_GROUP", "ep": "EXPERT_MODEL_PARALLEL_GROUP"}
COLLECTIVE = {"cp": "AllGather", "ep": "AllToAll"}


def members(kind: str, rank: int) -> list[int]:
    """The group of a rank: neighbours of one sequence, or two neighbouring replicas of its stage."""
    if kind == "cp":
        return [rank // CP * CP + k for k in range(CP)]
    return [rank // 4 * 4 + rank % CP, rank // 4 * 4 + rank % CP + CP]


def profiles(kind: str, slow: int, factor: float) -> list[RankProfile]:
    """GPipe: a pass is a kernel of 200 us forward, 400 us backward, a collective of the group, such a kernel again."""
    made = [RankProfile(rank, WORLD, groups=[(GROUPS[kind], members(kind, rank))]) for rank in range(WORLD)]
    host = np.zeros(WORLD)
    random = np.random.default_rng(1)

    def ran(rank: int, name: str, start: float, end: float, **said: Any) -> None:
        host[rank] += 3.0
        made[rank].kernel(name, host[rank] - 2.0, start, end - start, stream=20 if said else 7, **said)

    for step in range(1, STEPS + 1):
        begin = step * 100_000.0
        host[:] = begin + 1.0
        free = np.full(WORLD, begin + 10_000.0)
        for profile in made:
            profile.host(f"ProfilerStep#{step}", begin, 90_000.0)
        for forward in (True, False):
            arrived = np.zeros((MICROBATCHES, WORLD // PP))
            for stage in range(PP) if forward else range(PP - 1, -1, -1):
                ranks = range(stage * DP * CP, (stage + 1) * DP * CP)
                for microbatch in range(MICROBATCHES):
                    start = np.array([max(free[r], arrived[microbatch, i]) for i, r in enumerate(ranks)])
                    took = (200.0 if forward else 400.0) * (1 + 0.01 * random.standard_normal(len(ranks)))
                    took *= np.where(np.array(ranks) == slow, factor, 1.0)
                    first = start + took
                    there = {r: first[i] for i, r in enumerate(ranks)}
                    over = np.array([max(there[m] for m in members(kind, r)) + 30.0 for r in ranks])
                    for i, r in enumerate(ranks):
                        began = host[r]
                        ran(r, "gemm", start[i], first[i])
                        said = {"Process Group Description": GROUPS[kind], "Process Group Ranks": str(members(kind, r))}
                        ran(r, f"ncclDevKernel_{COLLECTIVE[kind]}_RING", first[i], over[i], **said)
                        ran(r, "gemm", over[i], over[i] + took[i])
                        name = "forward" if forward else "backward"
                        made[r].host(f"{name}-compute mb_id={microbatch}", began, host[r] - began + 0.5)
                        host[r] += 1.0
                        free[r] = arrived[microbatch, i] = over[i] + took[i]
        for r in range(WORLD):
            began = host[r]
            ran(r, "adam", free.max(), free.max() + 100.0)
            made[r].host("Optimizer.step#AdamW.step", began, host[r] - began + 0.5)
    return made


def test_collectives_inside_passes_are_operations_of_their_own(tmp_path: Path) -> None:
    """Two replicas of a stage have an expert group: a fast member waits in it, and its passes do not hold the wait."""
    files = [profile.write(tmp_path) for profile in profiles("ep", 4, 2.0)]
    found = convert(files, layout_of(SIZES), ConversionSettings())
    assert found.recovered["ep-all-to-all"] == DP * PP * 2 * MICROBATCHES * STEPS
    first = next(op for op in found.ops if (op.rank, op.step, op.optype) == (6, 1, "ep-all-to-all"))
    assert (first.end - first.start) * 1e6 == pytest.approx(230.0, abs=10.0)  # 30 us, and for rank 4 as long again


@pytest.mark.parametrize("factor", [1.05, 1.5])
@pytest.mark.parametrize(("kind", "slow"), [("cp", 5), ("cp", 12), ("ep", 4), ("ep", 14)])
def test_the_rank_that_its_group_waits_for_is_named(
    kind: str, slow: int, factor: float, arnold: Arnold, tmp_path: Path
) -> None:
    """It alone, of 16: whichever of the ranks of one sequence it is, or which member of an expert group."""
    for profile in profiles(kind, slow, factor):
        profile.write(tmp_path)
    (tmp_path / "meta.yaml").write_text(META)
    ran = arnold("health", "look", tmp_path, "--json")
    assert [suspect["rank"] for suspect in ran.json["suspects"]] == [slow]


def test_healthy_groups_are_left_alone(tmp_path: Path) -> None:
    """Noise of 1 %."""
    for profile in profiles("cp", -1, 1.0):
        profile.write(tmp_path)
    (tmp_path / "meta.yaml").write_text(META)
    assert look_at_folder(str(tmp_path)).suspects == ()
