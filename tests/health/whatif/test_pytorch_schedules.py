"""What the pipeline schedules of PyTorch 2.1x record becomes an op trace that is analysed, whatever is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ground.errors import InvalidInput
from ground.files import read_source
from health.whatif import Analysis, analyse, prepare, read_trace
from health.whatif.analysis_result import TracedWorker
from health.whatif.conversion import Conversion, write_conversion
from health.whatif.converters import convert
from health.whatif.converters.names import meaning_of
from health.whatif.trace import JobSizes, layout_of, read_metadata
from tests.facts import saying
from tests.health.whatif.profiles_made import RankProfile, milliseconds

TWO = JobSizes(dp=1, pp=2, world=2)
"""Two stages on two ranks."""


@pytest.mark.parametrize(
    ("name", "optypes", "microbatch", "chunk"),
    [
        ("PP:0F3", ("forward-compute",), 3, 0),
        ("PP:3B1", ("backward-compute",), 1, 1),
        ("PP:2I10", ("backward-compute",), 10, 1),
        ("PP:1W0", ("weight-grad-compute",), 0, 0),
        ("PP:1SEND_F0", ("forward-send",), 0, 0),
        ("PP:3RECV_B2", ("backward-recv",), 2, 1),
        ("PP:3UNSHARD", ("params-all-gather",), -1, 1),
        ("PP:0REDUCE_GRAD", ("grads-reduce-scatter",), -1, 0),
        ("PP:0WAIT_SEND_F1", None, -1, -1),
        ("PP:0RESHARD", None, -1, -1),
        ("PP:(0F3;1B2)OVERLAP_F_B", ("forward-compute",), 3, 0),
        ("nccl2:send 0->1", ("forward-send",), -1, -1),
        ("nccl-lazy:recv 0<-1", ("backward-recv",), -1, -1),
        ("nccl:recv 1<-?", ("recv",), -1, -1),
        ("gloo:send", ("send",), -1, -1),
        ("PipelineEngine._exec_forward_pass", ("forward-compute",), -1, -1),
        ("/x/deepspeed/runtime/pipe/engine.py(663): _exec_send_grads", ("backward-send",), -1, -1),
        ("megatron.core.pipeline_parallel.schedules.backward_step", ("backward-compute",), -1, -1),
        ("## forward ##", None, -1, -1),
    ],
)
def test_names_of_schedules(name: str, optypes: tuple[str, ...] | None, microbatch: int, chunk: int) -> None:
    """Of two ranks, stage 3 of the model is the second chunk; ranges around the whole model are no microbatch."""
    meaning = meaning_of(name, stages=2)
    assert (meaning.optypes if meaning else None) == optypes
    if meaning:
        assert (meaning.microbatch, meaning.chunk) == (microbatch, chunk)


def converted(profiles: Sequence[RankProfile], sizes: JobSizes, folder: Path) -> tuple[Conversion, Analysis]:
    """A conversion, and the analysis of what it wrote."""
    found = convert([profile.write(folder) for profile in profiles], layout_of(sizes))
    write_conversion(found, sizes, folder)
    trace = read_trace(folder / "trace.parquet", sizes=read_metadata(read_source(str(folder / "meta.yaml"))))
    return found, analyse(prepare(trace))


def lengths(found: Conversion, optype: str, rank: int) -> list[float]:
    """Durations of the operations of a type in the first step, in milliseconds, in the order of their start."""
    chosen = sorted(
        (op for op in found.ops if (op.optype, op.rank, op.step) == (optype, rank, 1)), key=lambda op: op.start
    )
    return [milliseconds(op.end - op.start) for op in chosen]


def gpipe(rank: int, *, recv: str, send: str) -> RankProfile:
    """Two microbatches of GPipe on CPUs: stage 0 takes 2 ms forward and 4 ms backward a microbatch, stage 1 3 and 5 ms.

    Ranges hold the wait of what is received; sends are recorded until somebody waits for them, long after.
    """
    made = RankProfile(rank, 2, backend="gloo")
    for step in (1, 2):
        at = step * 100_000.0
        made.host(f"ProfilerStep#{step}", at, 90_000.0)
        if rank == 0:
            for microbatch, start in enumerate((0.0, 2_000.0)):
                made.host(f"Forward {microbatch}", at + start, 2_000.0)
                made.host(send, at + start + 1_990.0, 30_000.0)
            # the gradients come at 13 and 18 ms
            made.host("Backward 0", at + 4_000.0, 13_000.0)
            made.host(recv, at + 4_010.0, 8_990.0)
            made.host("Backward 1", at + 17_000.0, 5_000.0)
            made.host(recv, at + 17_010.0, 990.0)
        else:
            made.host("Forward 0", at, 5_000.0)
            made.host(recv, at + 10.0, 1_990.0)
            made.host("Forward 1", at + 5_000.0, 3_000.0)
            made.host("Backward 0", at + 8_000.0, 5_000.0)
            made.host(send, at + 12_990.0, 30_000.0)
            made.host("Backward 1", at + 13_000.0, 5_000.0)
            made.host(send, at + 17_990.0, 30_000.0)
            made.host(recv, at + 5_001.0, 1.0)
        made.host("Optimizer.step#SGD.step", at + 25_000.0, 1_000.0)
    return made


@pytest.mark.parametrize("backend", ["gloo:", "nccl2:", "nccl-lazy:"])
def test_waits_are_taken_out_of_the_passes_of_gpipe(backend: str, tmp_path: Path) -> None:
    """Direction is told by the passes, computing begins when what is received is there, and the analysis takes it."""
    profiles = [gpipe(rank, recv=f"{backend}recv", send=f"{backend}send") for rank in (0, 1)]
    found, analysis = converted(profiles, TWO, tmp_path)
    assert lengths(found, "forward-compute", 1) == [3.0, 2.998]  # the second waits 2 us for its own receive
    assert lengths(found, "backward-compute", 0) == [4.0, 4.0]
    assert {op: found.recovered[op] for op in ("forward-send", "backward-recv")} == {
        "forward-send": 4,
        "backward-recv": 4,
    }
    # 2 + 3 + 3 + 5 + 5 forward and backward on the slower stage, 4 at the end; 3 ms until the optimizer, 1 ms in it
    assert analysis.step_seconds == pytest.approx(0.023, abs=5e-5)


@pytest.mark.parametrize("together", [True, False])
def test_an_all_reduce_that_all_leave_together_is_the_barrier(together: bool, tmp_path: Path) -> None:
    """Stage 1 is done at 18 ms: gradients from 23 to 24 ms, where the call began, and both ranks are out at 24.5 ms; or
    a call each, from 18.1 to 19 ms, of which the other rank's ends 5.5 ms later.
    """
    profiles = []
    for rank in (0, 1):
        made = gpipe(rank, recv="gloo:recv", send="gloo:send")
        for step in (1, 2):
            at = step * 100_000.0
            late = together or rank == 0
            made.host("gloo:all_reduce", at + (23_000.0 if late else 18_100.0), 1_000.0 if late else 200.0)
            made.host("gloo:all_reduce", at + (24_100.0 if late else 18_600.0), 400.0)
        profiles.append(made)
    found, _ = converted(profiles, TWO, tmp_path)
    assert lengths(found, "grads-reduce-scatter", 1) == pytest.approx([1.0 if together else 0.9])
    assert found.recovered.get("optimizer-clip-main-grad", 0) == (4 if together else 0)


def interleaved(rank: int) -> RankProfile:
    """One microbatch through four stages of two ranks, on a GPU: each pass 10 us of a kernel, its transfers beside it.

    Forward: stages 0 to 3 at 0, 20, 40, 60; backward stages 3 to 0 at 80, 100, 120, 140; transfers take 10 us.
    """
    made = RankProfile(rank, 2)
    made.host("ProfilerStep#1", 0.0, 1_000.0)
    host = 1.0
    for i, (stage, letter) in enumerate(
        [*((stage, "F") for stage in range(4)), *((stage, "B") for stage in (3, 2, 1, 0))]
    ):
        at = 2_000.0 + 20.0 * i
        if stage % 2 != rank:
            continue
        for action, kernel, start in (
            (f"RECV_{letter}", "ncclDevKernel_SendRecv", at - 10.0),
            (letter, "gemm", at),
            (f"SEND_{letter}", "ncclDevKernel_SendRecv", at + 10.0),
        ):
            first, last = (0, 3) if letter == "F" else (3, 0)
            if (action.startswith("RECV") and stage == first) or (action.startswith("SEND") and stage == last):
                continue
            made.host(f"PP:{stage}{action}0", host, 5.0)
            group = {"Process Group Description": "mesh_pp"} if kernel != "gemm" else {}
            made.kernel(kernel, host + 1.0, start, 10.0, stream=7 if kernel == "gemm" else 20, **group)
            host += 10.0
    made.host("Optimizer.step#AdamW.step", host, 5.0)
    made.kernel("adam", host + 1.0, 2_200.0, 10.0)
    return made


def test_an_interleaved_schedule_is_read_with_its_transfers(tmp_path: Path) -> None:
    """Every transfer is there: the replay has eight passes, six transfers between them and an update, of 10 us each."""
    sizes = JobSizes(dp=1, pp=2, vpp=2, world=2)
    found, analysis = converted([interleaved(0), interleaved(1)], sizes, tmp_path)
    assert {op.chunk for op in found.ops if op.rank == 1 and op.optype == "backward-compute"} == {0, 1}
    assert found.recovered["forward-send"] == found.recovered["forward-recv"] == 3
    assert not [entry for entry in found.missing if "send" in entry.optype]
    assert analysis.step_seconds == pytest.approx(150e-6, rel=1e-6)


def test_stages_that_are_not_of_the_job_are_refused(tmp_path: Path) -> None:
    """Stage 3 is none of two; the remedy names vpp_size."""
    with pytest.raises(InvalidInput, match=saying("stage 2", "pp_size 2 x vpp_size 1 makes 2")) as caught:
        converted([interleaved(0), interleaved(1)], TWO, tmp_path)
    assert "vpp_size" in caught.value.fix


def zero_bubble(rank: int) -> RankProfile:
    """ZB-V on two ranks, on CPUs: stages 0 and 3 on the first, 1 and 2 on the second; 1 ms each, W of 0.5 ms later."""
    made = RankProfile(rank, 2, backend="gloo")
    stages = (0, 3) if rank == 0 else (1, 2)
    made.host("ProfilerStep#1", 0.0, 20_000.0)
    order = [*((stage, "F") for stage in range(4)), *((stage, "I") for stage in (3, 2, 1, 0))]
    for i, (stage, letter) in enumerate(order):
        if stage in stages:
            made.host(f"PP:{stage}{letter}0", 1_000.0 * i, 1_000.0)
    for i, stage in enumerate(stages):
        made.host(f"PP:{stage}W0", 9_000.0 + 500.0 * i, 500.0)
    made.host("Optimizer.step#AdamW.step", 11_000.0, 100.0)
    return made


def test_a_v_schedule_is_tied_where_it_goes_from_rank_to_rank(tmp_path: Path) -> None:
    """Both halves of a backward pass count; parts 0 and 1, and 2 and 3, are on two ranks, 1 and 2 on one."""
    sizes = JobSizes(dp=1, pp=2, vpp=2, world=2)
    found, analysis = converted([zero_bubble(0), zero_bubble(1)], sizes, tmp_path)
    assert found.v_schedule
    assert lengths(found, "backward-compute", 0) == [1.5, 1.5]
    assert found.recovered["forward-send"] == found.recovered["backward-send"] == 2
    # 4 forward and 4 backward passes in turn, of 1 and 1.5 ms, and 0.1 ms for the update
    assert analysis.step_seconds == pytest.approx(0.0101, rel=1e-3)
    assert analysis.m_s is None


def test_overlapped_passes_are_parted_where_autograd_begins(tmp_path: Path) -> None:
    """DualPipeV puts a forward and a backward pass into one range: 3 ms, of which autograd has the last two."""
    profiles = []
    for rank in (0, 1):
        made = RankProfile(rank, 2, backend="gloo")
        made.host("ProfilerStep#1", 0.0, 9_000.0)
        made.host(f"PP:{rank}F0", 0.0, 1_000.0)
        made.host(f"PP:({rank}F1;{rank}B0)OVERLAP_F_B", 1_000.0, 3_000.0)
        made.host("autograd::engine::evaluate_function: AddmmBackward0", 2_000.0, 1_900.0, category="cpu_op", tid=2)
        made.host(f"PP:{rank}B1", 4_000.0, 2_000.0)
        profiles.append(made)
    found = convert([profile.write(tmp_path) for profile in profiles], layout_of(TWO))
    assert lengths(found, "forward-compute", 0) == [1.0, 1.0]
    assert lengths(found, "backward-compute", 0) == [2.0, 2.0]


def one_forward_one_backward(rank: int, durations: Callable[[int], float]) -> RankProfile:
    """1F1B of two stages, two data-parallel ranks and three microbatches with own ranges and no transfer recorded.

    ``durations`` gives milliseconds of a forward pass of a rank; backward takes twice that.
    """
    stage, peers = rank // 2, (rank % 2, rank % 2 + 2)
    order = {0: "F0 F1 B0 F2 B1 B2", 1: "F0 B0 F1 B1 F2 B2"}
    done: dict[tuple[int, str], float] = {}
    free, queues = [0.0, 0.0], {s: order[s].split() for s in (0, 1)}
    made = RankProfile(rank, 4, backend="gloo")
    made.host("ProfilerStep#1", 0.0, 1e6)
    while any(queues.values()):
        for s in (0, 1):
            if not queues[s]:
                continue
            name = queues[s][0]
            before = (s - 1, name) if name[0] == "F" else (s + 1, name)
            if before[0] in (0, 1) and before not in done:
                continue
            queues[s].pop(0)
            begin = max(free[s], done.get(before, 0.0))
            free[s] = done[s, name] = begin + durations(peers[s]) * (1 if name[0] == "F" else 2)
            if s == stage:
                kind = "forward-compute" if name[0] == "F" else "backward-compute"
                made.host(f"{kind} mb_id={name[1]}", begin * 1e3, (done[s, name] - begin) * 1e3)
    made.host("Optimizer.step#AdamW.step", 500_000.0, 10.0)
    return made


def test_transfers_follow_from_the_order_of_the_passes(tmp_path: Path) -> None:
    """Schedule1F1B records nothing: with own ranges alone the slow worker is found, and what is assumed is said."""
    slow = 3
    profiles = [one_forward_one_backward(rank, lambda r: 20.0 if r == slow else 10.0) for rank in range(4)]
    found, analysis = converted(profiles, JobSizes(dp=2, pp=2, world=4), tmp_path)
    assert found.recovered["forward-recv"] == 6
    assert any("take no time" in entry.reason for entry in found.missing)
    assert analysis.cause == "worker"
    assert analysis.slowest is not None
    assert analysis.slowest.workers == (TracedWorker(1, 1),)
