"""Steps and passes that no range names: old profiles, own loops, inference, what is missing and what is broken."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import ArnoldError, InvalidInput
from health.whatif.conversion import Conversion
from health.whatif.converters import PROFILE_READERS, convert, sizes_of
from health.whatif.converters.profile import CoveredTime
from health.whatif.trace import RankLayout, layout_of
from tests.case_counts import examples
from tests.facts import says
from tests.health.whatif.profiles_made import RankProfile, milliseconds

ALONE = RankLayout(dp=1, dsp=1, pp=1, tp=1, vpp=1)


def loop(*, marked: bool, backward: str = "autograd::engine::evaluate_function: AddmmBackward0") -> RankProfile:
    """Four steps of 10 ms of a loop of one process: data 1 ms, forward to 4 ms, backward to 8 ms, update 1 ms."""
    made = RankProfile(None, None)
    for step in range(4):
        at = 10_000.0 * step
        if marked:
            made.host(f"ProfilerStep#{step}", at, 10_000.0)
        made.host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, 1_000.0, category="cpu_op")
        # many loops zero the gradients between both passes
        made.host("Optimizer.zero_grad#SGD.zero_grad", at + 3_900.0, 50.0)
        if backward:
            made.host(backward, at + 4_000.0, 2_000.0, category="cpu_op", tid=2)
            made.host("torch::autograd::AccumulateGrad", at + 6_500.0, 1_500.0, category="cpu_op", tid=2)
            made.host("Optimizer.step#SGD.step", at + 8_000.0, 1_000.0)
        for begin in (1_000.0, 4_500.0):
            made.kernel("gemm", at + begin + 10.0, at + begin + 20.0, 1_500.0)
    return made


def lengths(found: Conversion, optype: str) -> list[float]:
    """Durations of a type in milliseconds, by their start."""
    chosen = sorted((op for op in found.ops if op.optype == optype), key=lambda op: op.start)
    return [milliseconds(op.end - op.start) for op in chosen]


@pytest.mark.parametrize("backward", ["autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward"])
def test_autograd_tells_passes_that_have_no_range(backward: str, tmp_path: Path) -> None:
    """A single process that joined no group is rank 0 of 1; its passes are told by the nodes of autograd."""
    found = convert([loop(marked=True, backward=backward).write(tmp_path)], ALONE)
    assert lengths(found, "forward-compute") == lengths(found, "backward-compute") == [1.5] * 4
    assert any("no range names a forward pass" in note for note in found.notes)


def test_profiles_before_pytorch_1_12(tmp_path: Path) -> None:
    """Categories were Operator, Runtime, Kernel, and all ranges were operators: the same comes of it."""
    made = loop(marked=True)
    names = {"user_annotation": "Operator", "cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel"}
    for event in made.events:
        event["cat"] = names[event["cat"]]
    found = convert([made.write(tmp_path, name="worker0.1623143089861.pt.trace.json.gz")], ALONE)
    assert found.recovered == {"forward-compute": 4, "backward-compute": 4, "optimizer": 4}


def test_updates_end_steps_that_are_not_marked(tmp_path: Path) -> None:
    """Without ProfilerStep# an optimizer ends a step; the first, which began before the file, is left out."""
    found = convert([loop(marked=False).write(tmp_path)], ALONE)
    assert len({op.step for op in found.ops}) == 3
    assert says(found.notes, "a step", "optimizer's")
    assert found.breakdown[0].step == pytest.approx(0.010)


def test_a_breakdown_is_of_all_steps(tmp_path: Path) -> None:
    """A last step without its update is no row of the op trace, and counts where the time goes all the same."""
    made = loop(marked=True)
    made.events = [
        event for event in made.events if not (event["name"].startswith("Optimizer.step") and event["ts"] > 3e4)
    ]
    found = convert([made.write(tmp_path)], ALONE)
    assert len({op.step for op in found.ops}) == 3
    assert (found.breakdown[0].steps, milliseconds(found.breakdown[0].forward)) == (4, 1.5)


def test_inference_is_one_forward_pass_a_step(tmp_path: Path) -> None:
    """No autograd, no update: that is said, and what does not exist is not called a loss."""
    found = convert([loop(marked=True, backward="").write(tmp_path)], ALONE)
    assert set(found.recovered) == {"forward-compute"}
    assert any("inference" in note for note in found.notes)
    assert {entry.disables for entry in found.missing if entry.optype == "optimizer"} == {"nothing, if the job infers"}


def test_a_file_without_steps_and_updates_is_one_step(tmp_path: Path) -> None:
    """A captured request of a server: 10 ms of host, and a kernel that runs until 40 ms."""
    made = RankProfile(None, None)
    made.host("execute_context_0(0)_generation_8(8)", 0.0, 10_000.0)
    made.kernel("gemm", 9_000.0, 20_000.0, 20_000.0)
    (one,) = convert([made.write(tmp_path)], ALONE).breakdown
    assert (milliseconds(one.step), milliseconds(one.forward), milliseconds(one.idle or 0)) == (40.0, 20.0, 20.0)


def test_nested_wrappers_are_one_pass(tmp_path: Path) -> None:
    """DistributedDataParallel inside DistributedDataParallel, as TorchRec has it; two microbatches of 2 ms."""
    made = RankProfile(0, 1, backend="gloo")
    made.host("ProfilerStep#1", 0.0, 10_000.0)
    for start in (0.0, 5_000.0):
        made.host("DistributedDataParallel.forward", start, 2_000.0)
        made.host("DistributedDataParallel.forward", start + 500.0, 500.0)
        made.host("autograd::engine::evaluate_function: X", start + 2_500.0, 1_000.0, category="cpu_op", tid=2)
    found = convert([made.write(tmp_path)], ALONE)
    assert lengths(found, "forward-compute") == [2.0, 2.0]
    assert lengths(found, "backward-compute") == [1.0, 1.0]


def test_sizes_are_those_that_profiles_say(tmp_path: Path) -> None:
    """World size where it is written, else the highest rank, else a rank a file."""
    said = RankProfile(3, 16).write(tmp_path)
    ranked = RankProfile(5, None).write(tmp_path)
    unnamed = RankProfile(None, None).write(tmp_path)
    assert [sizes_of([path]).dp for path in (said, ranked, unnamed)] == [16, 6, 1]
    assert sizes_of([unnamed] * 3).dp == 3


@pytest.mark.parametrize(
    ("text", "source"),
    [("[2026-01-01 10:00:00] x\n", "Megatron"), ("[default3]: x\n", "Megatron"), ("[ {", "truncated")],
)
def test_a_bracket_alone_is_no_json(text: str, source: str, tmp_path: Path) -> None:
    """Stamps and torchrun's prefixes begin lines of a log; a list of objects is a profile."""
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=source):
        convert([str(path)], ALONE)


def test_what_users_should_know_of_each_format_is_there() -> None:
    """Each format says where it comes from, what makes one and what is read of it."""
    formats = PROFILE_READERS.formats()
    assert [format.name for format in formats] == ["kineto", "megatron-timers"]
    assert all(format.source and format.export and format.read for format in formats)


Stretch = st.tuples(st.integers(0, 50), st.integers(0, 9))


@given(st.lists(Stretch, max_size=12), st.integers(-2, 62), st.integers(0, 20))
@examples(60)
def test_covered_time_counts_each_moment_once(stretches: list[tuple[int, int]], start: int, length: int) -> None:
    """Against units of time, one by one."""
    units = {moment for begin, size in stretches for moment in range(begin, begin + size)}
    begins = np.array([float(begin) for begin, _ in stretches])
    found = CoveredTime.of(begins, begins + np.array([float(size) for _, size in stretches]))
    assert found.total == len(units)
    assert float(found.within(float(start), float(start + length))) == len(units & set(range(start, start + length)))


def log(_: Path) -> bytes:
    """Timers of one rank, one iteration."""
    lines = ["setting number of microbatches to constant 2", " iteration 1/ 2 | x |", "times across ranks (ms):"]
    for name in ("forward-compute", "backward-compute", "optimizer"):
        lines += [f"  {name}:", "     rank  0: 8.00"]
    return "".join(f"[default0]:{line}\n" for line in lines).encode()


def plain(_: Path) -> bytes:
    """A profile, not packed."""
    return json.dumps(loop(marked=True).document()).encode()


def packed(folder: Path) -> bytes:
    """A profile, packed."""
    return Path(loop(marked=True).write(folder, name="rank-0.json.gz")).read_bytes()


@pytest.mark.parametrize("made", [log, plain, packed])
@given(seed=st.integers(0, 1 << 30), share=st.sampled_from([0.0005, 0.005, 0.2]))
@examples(60)
def test_bytes_that_changed_are_an_error_of_ours_or_read(
    made: Callable[[Path], bytes], seed: int, share: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Bytes replaced anywhere: a conversion or an error with its remedy, never anything else."""
    folder, chance = tmp_path_factory.mktemp("changed"), random.Random(seed)
    data = bytearray(made(folder))
    for _ in range(max(1, int(share * len(data)))):
        data[chance.randrange(len(data))] = chance.choice([*b'{}[]",:0129 -aeE.', chance.randrange(256)])
    path = folder / "rank-0"
    path.write_bytes(data)
    with suppress(ArnoldError):
        convert([str(path)], layout_of(sizes_of([str(path)])))
