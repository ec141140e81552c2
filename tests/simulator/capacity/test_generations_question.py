"""Queues on several generations of GPUs: the workload, the comparison, who should wait."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ground.errors import InvalidInput
from ground.files import Source
from simulator.capacity.generations import SIZES, GenerationsQuestion, job_hours, kind_of, workload
from simulator.confidence import Band
from simulator.throughputs import GAVEL
from simulator.traces.throughput_files import read_throughputs
from tests.facts import saying

TYPES = ("V100", "P100", "K80")


def test_the_workload_is_gavels() -> None:
    """Of 4,000 jobs the sizes have their shares and run times their spans; rates change submissions alone."""
    one, other = (workload(GAVEL, TYPES, count=4_000, per_hour=rate, seed=1).records for rate in (2.0, 4.0))
    for gpus, share in SIZES.items():
        # three standard deviations of a share of 4,000 are at most .022
        assert sum(job.gpus == gpus for job in one) / 4_000 == pytest.approx(share, abs=0.022)
    minutes = np.array([job.duration / 60 for job in one])
    assert (minutes >= 10**1.5).all()
    assert (minutes <= 10**4).all()
    assert (minutes > 10**3).mean() == pytest.approx(0.2, abs=0.02)
    assert one[-1].submit / 3600 == pytest.approx(2_000, rel=0.05)
    assert [job.submit for job in one] == pytest.approx([2 * job.submit for job in other])
    assert [(job.duration, job.model, job.gpus) for job in one] == [
        (job.duration, job.model, job.gpus) for job in other
    ]


def test_hours_of_a_mean_job() -> None:
    """One kind of job of one GPU, half as fast on B: 3/4 of its speed on average, so 4/3 of the mean run time, which is
    .8 of 316.2 (10^3 - 10^1.5 over 1.5 ln 10, minutes: 280.4) and .2 of 3,908.7: 1,006.0 minutes.
    """
    known = read_throughputs(Source("t", "model,gpus,gpu_type,throughput\nnet,1,A,2\nnet,1,B,1\n"))
    assert job_hours(known, ("A", "B")) == pytest.approx(1006.0 / 60 * 4 / 3, rel=1e-3)


def test_who_waits() -> None:
    """What is a third as fast on the next type loses two hours for each on the fastest."""
    kind = kind_of("llm", {"A100": 1 / 3, "H100": 1.0, "L20": 0.1}, {})
    assert (kind.waits_for, kind.instead_of, kind.wait_hours) == ("H100", "A100", pytest.approx(2.0))
    assert kind_of("llm", {"H100": 1.0}, {}).wait_hours == 0.0


def test_answers_are_about_the_same_jobs() -> None:
    """The first policy is compared with itself, a policy that knows types has shorter completion times at the end of a
    queue, and the papers' numbers stand beside.
    """
    found = GenerationsQuestion(jobs=12, seeds=2, loads=(3.0,), gpus=8, policies=("fifo", "gavel", "hadar")).answer()
    first = [cell for cell in found.cells if cell.policy == "fifo"]
    assert all((cell.jct_gain, cell.stops) == (Band(1.0, 0.0), 0.0) for cell in first)
    assert all(cell.jct_gain.mean > 1.0 for cell in found.cells if cell.policy != "fifo")
    assert [one.published for one in found.published] == [3.5, 1.4, 1.2, 1.2]
    assert all(one.ours is not None for one in found.published)
    ran = [kind for kind in found.kinds if kind.shares]
    assert ran
    assert all(sum(kind.shares.values()) == pytest.approx(1.0) for kind in ran)


def test_own_throughputs(tmp_path: Path) -> None:
    """A file of two types; what cannot be is said."""
    file = tmp_path / "t.csv"
    # a kind that runs nowhere is none to wait for
    file.write_text("model,gpus,gpu_type,throughput\nllm,8,H100,3\nllm,8,A100,1\nnone,1,H100,0\nnone,1,A100,0\n")
    found = GenerationsQuestion(
        throughputs=str(file), jobs=4, seeds=2, loads=(1.0,), gpus=8, policies=("fifo", "hadar")
    ).answer()
    assert found.types == ("H100", "A100")
    assert {kind.kind: kind.wait_hours for kind in found.kinds}["llm"] == pytest.approx(2.0)
    file.write_text("model,gpus,gpu_type,throughput\nllm,8,H100,3\n")
    with pytest.raises(InvalidInput, match=saying("one type of GPU")):
        GenerationsQuestion(throughputs=str(file)).answer()
    file.write_text("model,gpus,gpu_type,throughput\nllm,64,H100,3\nllm,64,A100,1\n")
    with pytest.raises(InvalidInput, match=saying("1, 2, 4, 8 GPUs of type H100")):
        GenerationsQuestion(throughputs=str(file)).answer()
    with pytest.raises(InvalidInput, match="no whole nodes"):
        GenerationsQuestion(gpus=10)


@pytest.mark.parametrize("policies", [("gavel",), ("gavel", "gavel"), ("fifo", "gavvel"), ()])
def test_policies_that_compare_nothing(policies: tuple[str, ...]) -> None:
    """One policy alone, one twice, one that there is not: the option that they came from is named."""
    with pytest.raises(InvalidInput) as error:
        GenerationsQuestion(policies=policies)
    assert error.value.where == "--policy"
