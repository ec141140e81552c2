"""The generator of LLM workloads."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.workload import summary
from ground.errors import InvalidInput, TooLarge, TraceFormatError
from ground.quantities import DAY
from simulator.job_record import shape
from simulator.traces import read_trace
from simulator.workload import KALOS, Announcements, WorkloadSpec, arrivals, generate, grids, kinds_of


def test_the_fit_by_formula() -> None:
    """Means, medians and shares of the distributions themselves are the published ones, without any sampling.

    Sizes were chosen to two digits, so the mean of GPUs is within 0.5 %; shares of GPU time of evaluation, which follow
    from sizes and the mean run time, within 0.001; all else is solved for and is exact to rounding.
    """
    kinds = kinds_of(KALOS)
    assert sum(kind.share for kind in kinds) == pytest.approx(1)
    assert sum(kind.share * kind.gpus_mean for kind in kinds) == pytest.approx(KALOS.gpus_mean, rel=0.005)
    assert sum(kind.share * kind.seconds_mean for kind in kinds) == pytest.approx(KALOS.seconds_mean, rel=1e-9)
    assert sum(kind.share * kind.below(KALOS.seconds_median) for kind in kinds) == pytest.approx(0.5)
    total = sum(kind.share * kind.gpu_time_mean for kind in kinds)
    assert total == pytest.approx(KALOS.gpu_time_mean, rel=0.001)
    for status, published in KALOS.job_share.items():
        assert sum(kind.share * kind.status[status] for kind in kinds) == pytest.approx(published, abs=1e-9)
    for status, published in KALOS.gpu_time_share.items():
        part = sum(kind.share * kind.gpus_mean * kind.status[status] * kind.seconds[status].mean for kind in kinds)
        assert part / total == pytest.approx(published, abs=0.002)
    for kind in kinds:
        assert sum(kind.sizes.values()) == pytest.approx(1)
        assert sum(kind.status.values()) == pytest.approx(1, abs=0.001)


def test_a_sample_has_the_published_figures() -> None:
    """Ten times as many jobs as published, so that chance is small beside the tolerance.

    Tolerances are about three standard errors: with a coefficient of variation of GPU time of 12 over 199,070 jobs,
    3 * 12 / sqrt(199,070) = 8 %; of run times (7 at most) 5 %; of GPUs (4.8) 3.2 %; a median of 199,070 log-normals
    with sigma 1.94 has a standard error of 1.25 * 1.94 / sqrt(199,070) = 0.5 %.
    """
    found = summary(generate(WorkloadSpec(days=10 * KALOS.days, seed=1)))
    assert found.jobs == pytest.approx(10 * KALOS.jobs, rel=3 / math.sqrt(10 * KALOS.jobs))
    assert found.gpus_mean == pytest.approx(KALOS.gpus_mean, rel=0.035)
    assert (found.gpus_median, found.gpus_max) == (KALOS.gpus_median, KALOS.gpus_max)
    assert found.seconds_mean == pytest.approx(KALOS.seconds_mean, rel=0.05)
    assert found.seconds_median == pytest.approx(KALOS.seconds_median, rel=0.03)
    assert found.seconds_max <= KALOS.seconds_max
    assert found.gpu_time_mean == pytest.approx(KALOS.gpu_time_mean, rel=0.08)
    for status, share in KALOS.job_share.items():
        assert found.job_share[status] == pytest.approx(share, abs=0.004)
    for status, share in KALOS.gpu_time_share.items():
        assert found.gpu_time_share[status] == pytest.approx(share, abs=0.04)
    assert found.evaluation_share == pytest.approx(KALOS.evaluation_share, abs=0.003)
    assert found.pretraining_share == pytest.approx(KALOS.pretraining_share, abs=0.01)


def test_same_seed_same_jobs() -> None:
    """And another seed other jobs; the days before do not depend on those after."""
    spec = WorkloadSpec(days=3, seed=7)
    assert generate(spec) == generate(spec)
    assert generate(spec) != generate(replace(spec, seed=8))


def test_jobs_are_in_order_and_can_be_placed() -> None:
    """Ids unique, times ascending, every parallelism cuts into nodes of 8."""
    records = generate(WorkloadSpec(days=30, seed=1))
    assert len({record.job_id for record in records}) == len(records)
    assert [record.submit for record in records] == sorted(record.submit for record in records)
    large = [record for record in records if record.parallelism is not None]
    assert large
    for record in large:
        assert record.parallelism is not None
        assert record.parallelism.gpus == record.gpus
        nodes, each = shape(record, 8)
        assert nodes * each == record.gpus
        assert record.model
    assert {record.model for record in large} == {"llm-7b", "llm-20b", "llm-123b"}


def test_grids_of_a_size() -> None:
    """Below a node there is none; 8 GPUs train the small model; 1,024 any, with all stages."""
    assert grids(4) == []
    assert [(name, grid.tp, grid.pp, grid.dp) for name, grid in grids(8)] == [("llm-7b", 8, 1, 1)]
    assert {(name, grid.pp) for name, grid in grids(1024)} == {
        ("llm-7b", 1),
        ("llm-20b", 2),
        ("llm-20b", 4),
        ("llm-123b", 4),
        ("llm-123b", 8),
    }


def test_load_sets_the_rate() -> None:
    """At load 0.8 the jobs ask for 80 % of what the cluster has, within chance: CV 12 over some 50,000 jobs is 5 %."""
    spec = WorkloadSpec(days=200, gpus=4096, load=0.8, seed=1, kinds=("other", "pretraining"))
    records = generate(spec)
    asked = sum(record.gpus * record.duration for record in records)
    assert asked / (4096 * 200 * DAY) == pytest.approx(0.8, rel=0.12)
    assert {record.queue for record in records} == {"other", "pretraining"}


def test_smaller_clusters_get_smaller_jobs() -> None:
    """Sizes above max_gpus are not made; a kind without any size left is not made at all."""
    records = generate(WorkloadSpec(days=60, seed=1, max_gpus=64))
    assert max(record.gpus for record in records) == 64
    assert {record.queue for record in records} == {"evaluation", "other"}


def test_announced_and_preemptible() -> None:
    """Jobs from the size on are announced as long before, not before the clock starts; kinds are preemptible."""
    spec = WorkloadSpec(days=60, seed=1, announce=Announcements(512, 3600.0), preemptible=("evaluation",))
    for record in generate(spec):
        if record.gpus >= 512:
            assert record.announced == max(0.0, record.submit - 3600)
        else:
            assert record.announced is None
        assert record.preemptible == (record.queue == "evaluation")


def test_the_rhythm_of_the_day() -> None:
    """The rate at the peak hour is (1 + 0.8) / (1 - 0.8) = 9 times that at night; the mean stays."""
    times = arrivals(np.random.default_rng(1), per_day=10_000, days=30, rhythm=0.8)
    # 300,000 expected, standard deviation 548.
    assert len(times) == pytest.approx(300_000, abs=3 * 548)
    hours = np.bincount((times % DAY // 3600).astype(int), minlength=24)
    # Hours 14 and 15 lie around the peak at 15:00, hours 2 and 3 around 3:00; within an hour the cosine moves by 1 %.
    assert hours[14:16].sum() / hours[2:4].sum() == pytest.approx(9, rel=0.1)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"days": 0.0}, "days"),
        ({"per_day": -1.0}, "per_day"),
        ({"rhythm": 1.0}, "rhythm"),
        ({"load": 0.5}, "gpus"),
        ({"load": -0.5, "gpus": 8}, "load"),
        ({"max_gpus": 0}, "max_gpus"),
        ({"kinds": ("training",)}, "kinds"),
        ({"kinds": ()}, "kinds"),
        ({"kinds": ("pretraining",), "max_gpus": 8}, "max_gpus"),
        ({"announce": Announcements(512, -1.0)}, "seconds"),
    ],
)
def test_what_cannot_be_made(changes: dict[str, object], where: str) -> None:
    """The error says which number."""
    with pytest.raises(InvalidInput) as error:
        generate(replace(WorkloadSpec(), **changes))  # type: ignore[arg-type]
    assert error.value.where == where


def test_too_many_jobs() -> None:
    """Refused before memory is."""
    with pytest.raises(TooLarge, match="jobs are wanted"):
        generate(WorkloadSpec(days=36_500, per_day=1e6))


def test_a_workload_file_is_a_trace(tmp_path: Path) -> None:
    """It is made when it is read; the same jobs as the generator's, and a note says that they are made."""
    file = tmp_path / "w.yaml"
    file.write_text(
        "# thirty days\nworkload: kalos\ndays: 30\nseed: 3\nannounce: {gpus: 512}\nkinds: [other, pretraining]\n",
        encoding="utf-8",
    )
    trace = read_trace(file)
    spec = WorkloadSpec(days=30, seed=3, announce=Announcements(512), kinds=("other", "pretraining"))
    assert trace.records == generate(spec)
    assert trace.format == "llm-workload"
    assert "made, not measured" in trace.notes[0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sed: 3", "unknown key 'sed'"),
        ("days: many", "days"),
        ("load: 0.5", "gpus is None"),
        ("rhythm: 1", "rhythm"),
    ],
)
def test_workload_files_that_are_wrong(line: str, message: str, tmp_path: Path) -> None:
    """The line is named."""
    file = tmp_path / "w.yaml"
    file.write_text(f"workload: kalos\n{line}\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=message) as error:
        read_trace(file)
    assert error.value.where.startswith(str(file))
    assert isinstance(error.value, TraceFormatError) or line == "load: 0.5"
