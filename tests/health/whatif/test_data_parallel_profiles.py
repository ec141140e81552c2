"""Profiles of jobs without a pipeline: their passes, who comes last to collectives, and where a rank's step goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arnold.commands.run import run
from ground.errors import TraceFormatError
from health.whatif.conversion import Arrivals, Conversion, Latecomer
from health.whatif.converters import convert, sizes_of
from health.whatif.trace import RankLayout, layout_of
from tests.facts import saying, says
from tests.health.whatif.profiles_made import RankProfile, milliseconds

RANKS, STEPS, LATE = 4, 3, 2
"""A job of four ranks, of which rank 2 is late."""


def ddp(
    rank: int, *, late: float = 5_000.0, kernel: str = "ncclDevKernel_AllReduce_Sum_f32", **said: str
) -> RankProfile:
    """Three steps of 20 ms: forward 4 ms, backward 8 ms, an all-reduce at its end, an update of 1 ms.

    All ranks leave the all-reduce at 18 ms; the late one enters it at 17.9 ms, the others ``late`` before.
    """
    made = RankProfile(rank, RANKS)
    own = late if rank == LATE else 0.0
    for step in range(1, STEPS + 1):
        at = 20_000.0 * step
        made.host(f"ProfilerStep#{step}", at, 20_000.0)
        made.host("DistributedDataParallel.forward", at + 100.0, 300.0)
        made.kernel("gemm", at + 200.0, at + 900.0 + own, 4_000.0)
        made.host("autograd::engine::evaluate_function: AddmmBackward0", at + 500.0, 900.0, category="cpu_op", tid=2)
        made.kernel("gemm", at + 600.0, at + 4_900.0 + own, 8_000.0)
        made.host("nccl:all_reduce", at + 1_000.0, 50.0, tid=2)
        made.kernel(kernel, at + 1_010.0, at + 17_900.0 - late + own, 100.0 + late - own, stream=20, **said)
        made.host("Optimizer.step#SGD.step", at + 1_500.0, 200.0)
        made.kernel("sgd", at + 1_600.0, at + 18_000.0, 1_000.0)
    return made


def read(profiles: list[RankProfile], folder: Path, *, suffix: str = "json") -> Conversion:
    """What becomes of the profiles of a job that names no sizes."""
    paths = [
        profile.write(folder, name=f"p{i}_rank-{profile.rank or 0}.{suffix}") for i, profile in enumerate(profiles)
    ]
    return convert(paths, layout_of(sizes_of(paths)))


@pytest.mark.parametrize(
    ("kernel", "suffix"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32", "json"),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "json.gz"),
    ],
    ids=["nccl", "rccl"],
)
def test_the_rank_that_comes_last_is_named_with_its_cost(kernel: str, suffix: str, tmp_path: Path) -> None:
    """The others spend 5.1 ms in each all-reduce and the last 0.1 ms: 5 ms of a step of 20 ms, of which none computes.

    RCCL's kernels do not say which collective they are; the call around their launch does.
    """
    found = read([ddp(rank, kernel=kernel) for rank in range(RANKS)], tmp_path, suffix=suffix)
    assert found.arrivals is not None
    assert (found.arrivals.collectives, found.arrivals.ranks, found.arrivals.steps) == (3, 4, 3)
    # of the step of which the table has the parts
    assert found.arrivals.step_seconds == pytest.approx(sum(step.step for step in found.breakdown) / 4)
    (late,) = found.arrivals.latecomers
    assert (late.rank, late.last, milliseconds(late.seconds)) == (LATE, 3, 5.0)
    assert late.share == pytest.approx(0.25)
    # any of four ranks last by chance three times of three: 4 / 4^3
    assert found.arrivals.chance == pytest.approx(1 / 16)
    first = {op.optype: milliseconds(op.end - op.start) for op in found.ops if (op.rank, op.step) == (0, 1)}
    assert first == {"forward-compute": 4.0, "backward-compute": 8.0, "optimizer": 1.0, "grads-reduce-scatter": 5.1}


def test_computing_while_others_wait_costs_nothing(tmp_path: Path) -> None:
    """What ranks compute beside a collective that waits for another is no loss: 4 of the 5 ms are left."""
    profiles = [ddp(rank) for rank in range(RANKS)]
    for profile in profiles:
        for step in range(1, STEPS + 1):
            profile.kernel("gemm", 20_000.0 * step + 1_400.0, 20_000.0 * step + 13_000.0, 1_000.0)
    arrivals = read(profiles, tmp_path).arrivals
    assert arrivals is not None
    assert milliseconds(arrivals.latecomers[0].seconds) == 4.0


def test_waits_at_the_same_time_are_one_wait(tmp_path: Path) -> None:
    """Four all-reduces that begin and end together cost the others 5 ms a step, not 20."""
    profiles = [ddp(rank) for rank in range(RANKS)]
    for profile in profiles:
        reductions = [event for event in profile.events if "AllReduce" in event["name"]]
        for event in reductions:
            for _ in range(3):
                own = 5_000.0 if profile.rank == LATE else 0.0
                launch = event["ts"] // 20_000.0 * 20_000.0 + 1_020.0
                start, length = event["ts"], event["dur"]
                assert length == 5_100.0 - own
                profile.kernel(event["name"], launch, start, length, stream=21)
    arrivals = read(profiles, tmp_path).arrivals
    assert arrivals is not None
    (late,) = arrivals.latecomers
    assert (arrivals.collectives, late.last, milliseconds(late.seconds)) == (12, 12, 5.0)


def test_clocks_do_not_matter(tmp_path: Path) -> None:
    """A clock that is 3 s ahead changes nothing: time inside a collective is of one clock."""
    profiles = [ddp(rank) for rank in range(RANKS)]
    for event in profiles[1].events:
        event["ts"] += 3e6
    arrivals = read(profiles, tmp_path).arrivals
    assert arrivals is not None
    assert [late.rank for late in arrivals.latecomers] == [LATE]


def test_clocks_are_aligned_by_the_reduction_of_gradients(tmp_path: Path) -> None:
    """All ranks leave it together, so a clock 3 s ahead shows; shifted, what is converted can be analysed."""
    profiles, out = [ddp(rank, late=0.0) for rank in range(RANKS)], tmp_path / "out"
    for event in profiles[1].events:
        event["ts"] += 3e6
    assert any("one barrier ends 3.000000 s apart" in note for note in read(profiles, tmp_path).notes)
    paths = [profile.write(tmp_path) for profile in profiles]
    assert run(["health", "op-trace", *paths, "--align-clocks", "--save", str(out)]) == 0
    assert run(["stragglers", str(out / "trace.parquet"), "--meta", str(out / "meta.yaml")]) == 0


def test_files_of_different_steps_are_refused(tmp_path: Path) -> None:
    """Rank 1 recorded steps 101 to 103 and the others 1 to 3: no step is there on all, however many each rank has."""
    profiles = [ddp(rank) for rank in range(RANKS)]
    for event in profiles[1].events:
        event["name"] = event["name"].replace("ProfilerStep#", "ProfilerStep#10")
    with pytest.raises(TraceFormatError, match=saying("step 1", "rank 1")):
        read(profiles, tmp_path)


def test_a_rank_without_forward_passes_is_named(tmp_path: Path) -> None:
    """Of two stages the second recorded no forward pass in any step, so that it has no whole one."""
    profiles = [RankProfile(rank, 2) for rank in range(2)]
    for profile in profiles:
        for step in range(1, STEPS + 1):
            profile.host(f"ProfilerStep#{step}", 20_000.0 * step, 20_000.0)
            for number, name in enumerate(["forward-compute", "backward-compute"][int(profile is profiles[1]) :]):
                profile.host(f"{name} mb_id=0", 20_000.0 * step + 5_000.0 * number, 4_000.0)
    layout = RankLayout(dp=1, dsp=1, pp=2, tp=1, vpp=1)
    with pytest.raises(TraceFormatError, match=saying("step 1", "rank 1")):
        convert([profile.write(tmp_path) for profile in profiles], layout)


def test_a_device_that_works_off_what_was_launched_before_is_not_idle(tmp_path: Path) -> None:
    """A kernel of 0.6 ms whose launch the file does not hold runs where 3.8 ms of two steps had none."""
    profile = ddp(1)
    (before,) = read([profile], tmp_path).breakdown
    profile.kernel("gemm", 0.0, 39_300.0, 600.0)
    profile.events = [event for event in profile.events if event.get("ts") != 0.0]
    (found,) = read([profile], tmp_path).breakdown
    assert (before.idle, found.idle) == (pytest.approx(2 * 1.9e-3 / 2), pytest.approx((2 * 1.9e-3 - 0.6e-3) / 2))


def test_a_step_lasts_from_its_first_kernel_to_that_of_the_next(tmp_path: Path) -> None:
    """Three steps of 20 ms on the host; the device is 45 ms behind before the first and after the last: 20 ms each."""
    profile = RankProfile(0, 1)
    for step in range(1, 4):
        profile.host(f"ProfilerStep#{step}", 20_000.0 * step, 20_000.0)
        profile.host("forward-compute mb_id=0", 20_000.0 * step, 15_000.0)
        profile.kernel("gemm", 20_000.0 * step + 5_000.0, 20_000.0 * step + 50_000.0, 20_000.0)
    (found,) = convert([profile.write(tmp_path)], RankLayout(dp=1, dsp=1, pp=1, tp=1, vpp=1)).breakdown
    assert (found.step, found.idle) == (pytest.approx(20e-3), pytest.approx(0.0))


def test_ranks_that_come_together_leave_nobody_to_name(tmp_path: Path) -> None:
    """Without delay all spend 0.1 ms inside."""
    arrivals = read([ddp(rank, late=0.0) for rank in range(RANKS)], tmp_path).arrivals
    assert arrivals is not None
    assert (arrivals.collectives, arrivals.latecomers, arrivals.culprit) == (3, (), None)


def test_collectives_of_unequal_number_are_not_compared(tmp_path: Path) -> None:
    """A rank that called one more in a step may count them differently: this step is left out."""
    profiles = [ddp(rank) for rank in range(RANKS)]
    profiles[0].kernel("ncclDevKernel_AllReduce_Sum_f32", 21_020.0, 38_000.0, 10.0, stream=20)
    arrivals = read(profiles, tmp_path).arrivals
    assert arrivals is not None
    assert arrivals.collectives == 2


def test_groups_are_compared_each_by_itself(tmp_path: Path) -> None:
    """Ranks 0 and 1, and 2 and 3, reduce among themselves: rank 2 comes last to its group, three times of six."""
    profiles = []
    for rank in range(RANKS):
        members = "[0, 1]" if rank < LATE else "[2, 3]"
        profiles.append(ddp(rank, **{"Process Group Name": "5", "Process Group Ranks": members}))
    arrivals = read(profiles, tmp_path).arrivals
    assert arrivals is not None
    assert (arrivals.collectives, [(late.rank, late.last) for late in arrivals.latecomers]) == (6, [(LATE, 3)])


def test_of_some_ranks_only_it_is_not_known_who_comes_last(tmp_path: Path) -> None:
    """Two of four ranks have a file: both are judged, the others said to be absent, and no rank is accused."""
    found = read([ddp(1), ddp(LATE)], tmp_path)
    assert found.absent == (0, 3)
    assert any("2 of 4 workers have no file" in note for note in found.notes)
    assert found.arrivals is not None
    assert found.arrivals.culprit is None


def test_the_command_names_the_late_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From files to a verdict, in words and in JSON; sizes are those of the profiles."""
    paths = [ddp(rank).write(tmp_path) for rank in range(RANKS)]
    out = tmp_path / "out"
    assert run(["health", "op-trace", *paths, "--save", str(out)]) == 0
    assert "Latecomers to collectives" in capsys.readouterr().out
    page = tmp_path / "page.html"
    asked = ["stragglers", str(out / "trace.parquet"), "--meta", str(out / "meta.yaml"), "--json", "--html", str(page)]
    assert run(asked) == 0
    assert "a rank that others wait for" in page.read_text()
    document = json.loads(capsys.readouterr().out)
    assert document["cause"] == "late-rank"
    assert says(document["verdict"], "rank 2", "3 of 3 collectives", "3 steps", "5 ms", "20 ms", "25.0%")
    assert says(document["verdict"], "so few collectives", "by accident")
    assert document["breakdown"][0]["waiting"] == pytest.approx(5.1e-3)


def test_one_rank_alone_has_a_breakdown_and_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rank 1 of four: nothing to compare it with; its step is 20 % forward, 40 % backward, 5 % update, and waiting."""
    path, out = ddp(1).write(tmp_path), tmp_path / "out"
    assert run(["health", "op-trace", path, "--save", str(out)]) == 0
    capsys.readouterr()
    assert run(["stragglers", str(out / "trace.parquet"), "--meta", str(out / "meta.yaml")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert says(text, "one rank alone", "a step of rank 1 takes 20 ms")
    assert "forward 20.0%, backward 40.0%, optimizer 5.0%" in text
    assert says(text, "25.5%", "9.5%")


def test_only_a_rank_that_causes_most_of_the_waiting_is_named() -> None:
    """Half of all waiting, and 3 % of a step; the chance of coming last so often is that of a binomial distribution."""

    def of(*late: Latecomer) -> Arrivals:
        return Arrivals(10, 2, 2, 5, 1.0, late)

    assert of(Latecomer(0, 5, 0.02, 0.02)).culprit is None
    assert of(Latecomer(0, 4, 0.04, 0.04), Latecomer(1, 4, 0.03, 0.03), Latecomer(2, 2, 0.03, 0.03)).culprit is None
    worst = of(Latecomer(0, 9, 0.04, 0.04), Latecomer(1, 1, 0.01, 0.01))
    assert worst.culprit is not None
    assert worst.chance == pytest.approx(2 * (10 + 1) / 2**10)


def fsdp() -> list[RankProfile]:
    """Six steps of four sharded layers: 2 ms forward and 4 ms backward each, half as much again on the slow rank.

    Each layer gathers its parameters before a pass, and scatters gradients after the one backward: 0.5 ms together.
    """
    made, free = [RankProfile(rank, RANKS) for rank in range(RANKS)], [0.0] * RANKS
    group = {"Process Group Description": "mesh_fsdp", "Process Group Ranks": "[0, 1, 2, 3]"}
    for step in range(6):
        host = 100_000.0 * step
        free = [host + 3_000.0] * RANKS
        for profile in made:
            profile.host(f"ProfilerStep#{step}", host, 99_000.0)
            profile.host("autograd::engine::evaluate_function: X", host + 500.0, 900.0, category="cpu_op", tid=2)
            profile.host("Optimizer.step#AdamW.step", host + 2_000.0, 100.0)
        for forward in (True, False):
            for number, kernel in enumerate(["AllGather", "gemm", *([] if forward else ["ReduceScatter"])] * 4):
                launch = host + (10.0 if forward else 510.0) + number
                together = max(free) + 500.0
                for rank, profile in enumerate(made):
                    own = (2_000.0 if forward else 4_000.0) * (1.5 if rank == LATE else 1.0)
                    end = free[rank] + own if kernel == "gemm" else together
                    name, said = (kernel, {}) if kernel == "gemm" else (f"ncclDevKernel_{kernel}_RING", group)
                    profile.kernel(name, launch, free[rank], end - free[rank], stream=20 if said else 7, **said)
                    free[rank] = end
        for rank, profile in enumerate(made):
            profile.kernel("adam", host + 2_010.0, free[rank], 1_000.0)
    return made


def test_waits_for_sharded_parameters_are_no_part_of_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The slow rank costs 4 x 1 ms forward and 4 x 2 ms backward a step; the replay finds it by its compute."""
    paths, out = [profile.write(tmp_path) for profile in fsdp()], tmp_path / "out"
    assert run(["health", "op-trace", *paths, "--save", str(out)]) == 0
    capsys.readouterr()
    assert run(["stragglers", str(out / "trace.parquet"), "--meta", str(out / "meta.yaml"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (late,) = found["arrivals"]["latecomers"]
    assert (late["rank"], milliseconds(late["seconds"])) == (LATE, 12.0)
    assert [milliseconds(found["breakdown"][rank]["backward"]) for rank in (0, LATE)] == [16.0, 24.0]
    assert (found["cause"], found["slow_workers"][0]["dp"]) == ("worker", LATE)
    assert found["slow_workers"][0]["factor"] == pytest.approx(1.5)


def test_calls_on_cpus_tell_who_comes_last(tmp_path: Path) -> None:
    """Calls of gloo have no kernels: they last until all ranks are there, and the host's times are those of the job."""
    profiles = []
    for rank in range(RANKS):
        made = RankProfile(rank, RANKS, backend="gloo")
        own = 3_000.0 if rank == LATE else 0.0
        made.host("ProfilerStep#1", 0.0, 20_000.0)
        made.host("## forward ##", 0.0, 5_000.0 + own)
        made.host("## backward ##", 5_000.0 + own, 5_000.0)
        made.host("gloo:all_reduce", 10_000.0 + own, 4_000.0 - own, tid=3)
        made.host("Optimizer.step#SGD.step", 14_000.0, 100.0)
        profiles.append(made)
    found = read(profiles, tmp_path)
    assert found.untold == ()
    assert found.arrivals is not None
    assert [(late.rank, milliseconds(late.seconds)) for late in found.arrivals.latecomers] == [(LATE, 3.0)]
