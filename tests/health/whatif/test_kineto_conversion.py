"""Kineto traces become op traces: operations come back with the times they were given, and gaps are named."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import ArnoldError, InvalidInput
from health.whatif.conversion import Conversion, ConversionSettings, Op
from health.whatif.converters import convert
from health.whatif.converters.names import meaning_of
from health.whatif.trace import RankLayout
from tests.case_counts import examples
from tests.facts import says

LAYOUT = RankLayout(dp=1, dsp=1, pp=2, tp=2, vpp=1)
"""Four ranks, two workers: ranks 0 and 2 stand for stage 0 and 1."""

FRAME = "/opt/megatron/core/{}.py(173): {}"
FRAMES = {
    "forward-compute": FRAME.format("pipeline_parallel/schedules", "forward_step"),
    "backward-compute": FRAME.format("pipeline_parallel/schedules", "backward_step"),
    "forward-send": FRAME.format("pipeline_parallel/p2p_communication", "send_forward"),
    "forward-recv": FRAME.format("pipeline_parallel/p2p_communication", "recv_forward"),
    "backward-send": FRAME.format("pipeline_parallel/p2p_communication", "send_backward"),
    "backward-recv": FRAME.format("pipeline_parallel/p2p_communication", "recv_backward"),
    "optimizer-clip-main-grad": FRAME.format("optimizer/clip_grads", "get_grad_norm_fp32"),
    "layernorm-grads-all-reduce": FRAME.format("distributed/finalize_model_grads", "_allreduce_layernorm_grads"),
    "embedding-grads-all-reduce": FRAME.format("distributed/finalize_model_grads", "_allreduce_word_embedding_grads"),
    "optimizer": "Optimizer.step#FusedAdam.step",
}
"""How Megatron-LM's own functions show in a trace with call stacks."""

GROUPS = {
    "params-all-gather": ("_allgather_base", "DATA_PARALLEL_GROUP_WITH_CP"),
    "grads-reduce-scatter": ("_reduce_scatter_base", "DATA_PARALLEL_GROUP_WITH_CP"),
    "layernorm-grads-all-reduce": ("allreduce", "TENSOR_MODEL_PARALLEL_GROUP"),
    "embedding-grads-all-reduce": ("allreduce", "EMBEDDING_GROUP"),
    "optimizer-clip-main-grad": ("allreduce", "MODEL_PARALLEL_GROUP"),
}
"""What NCCL kernels record of themselves."""

FIRST = ["forward-compute", "forward-send", "backward-recv", "backward-compute"]
LAST = ["forward-recv", "forward-compute", "backward-compute", "backward-send"]
TAIL = ["layernorm-grads-all-reduce", "embedding-grads-all-reduce", "grads-reduce-scatter", "optimizer-clip-main-grad"]


@dataclass
class RankFile:
    """A small Kineto file, written operation by operation; host ranges of 10 us stand 20 us apart."""

    rank: int
    named: Callable[[str], str | None] = lambda optype: optype
    """Name of the host range around an operation; None = no range, the kernel stands alone."""
    on_device: bool = True
    base: int = 1_700_000_000_000_000_000
    events: list[dict[str, Any]] = field(default_factory=list)
    host: float = 100.0
    number: int = 0

    def add(self, **event: Any) -> None:
        """One complete event."""
        self.events.append({"ph": "X", "pid": 1, "tid": 1, **event})

    def step(self, number: int, ops: Sequence[tuple[str, float, float]]) -> None:
        """One step: each operation with its start and duration in microseconds on the device."""
        begin = self.host
        for optype, start, duration in ops:
            self.op(optype, start, duration)
        self.add(cat="user_annotation", name=f"ProfilerStep#{number}", ts=begin, dur=self.host - begin)

    def op(self, optype: str, start: float, duration: float) -> None:
        """One operation: its range on the host, a launch inside, the kernel on the device."""
        self.number += 1
        name, arguments = self.named(optype), {"correlation": self.number, "stream": 7}
        if name is not None:
            category = "python_function" if ".py(" in name else "user_annotation"
            self.add(cat=category, name=name, ts=self.host, dur=10.0)
        if self.on_device and optype != "gc":
            communicates = optype not in ("forward-compute", "backward-compute", "optimizer")
            kernel = "ncclDevKernel_Generic" if communicates else "gemm"
            collective, group = GROUPS.get(optype, ("send", "PIPELINE_MODEL_PARALLEL_GROUP"))
            if communicates:
                arguments |= {"Collective name": collective, "Process Group Description": group}
            # The launch may come from another thread, as the backward pass does.
            self.add(cat="cuda_runtime", name="cudaLaunchKernel", tid=9, ts=self.host + 1, dur=1.0, args=arguments)
            self.add(cat="kernel", name=kernel, ts=start, dur=duration, args=arguments)
        self.host += 20.0

    def document(self) -> dict[str, Any]:
        """The file: some of what stands beside the events comes before them, some after."""
        return {
            "schemaVersion": 1,
            "distributedInfo": {"backend": "nccl", "rank": self.rank, "world_size": LAYOUT.world_size},
            "traceEvents": [{"ph": "M", "name": "process_name", "pid": 1}, *self.events],
            "traceName": "t",
            "baseTimeNanoseconds": self.base,
        }

    def write(self, folder: Path, *, packed: bool = False) -> str:
        """The path of the written file."""
        path = folder / f"rank-{self.rank}.json{'.gz' if packed else ''}"
        text = json.dumps(self.document()).encode()
        path.write_bytes(gzip.compress(text) if packed else text)
        return str(path)


def ops_of(optypes: Sequence[str], *, at: float = 1000.0, each: float = 50.0) -> list[tuple[str, float, float]]:
    """Operations one after the other on the device, two microseconds apart."""
    return [(optype, at + i * (each + 2.0), each) for i, optype in enumerate(optypes)]


def two_ranks(folder: Path, *, packed: bool = False, **settings: Any) -> list[str]:
    """Files of both workers: two steps of two microbatches with all that belongs to them."""
    paths = []
    for rank, middle in ((0, FIRST), (2, LAST)):
        file = RankFile(rank, **settings)
        for step in (5, 6):
            order = ["params-all-gather", *middle, *middle, *TAIL, "optimizer"]
            file.step(step, ops_of(order, at=1000.0 + 10_000.0 * step))
        paths.append(file.write(folder, packed=packed))
    return paths


def times(conversion: Conversion, optype: str, *, rank: int = 0, step: int = 5) -> list[tuple[float, float]]:
    """Starts, counted from the earliest operation of all, and durations, both in microseconds."""
    first = min(op.start for op in conversion.ops)
    chosen = sorted((op for op in conversion.ops if (op.rank, op.step, op.optype) == (rank, step, optype)), key=_start)
    return [(round((op.start - first) * 1e6, 2), round((op.end - op.start) * 1e6, 2)) for op in chosen]


def _start(op: Op) -> float:
    return op.start


def refused(paths: Sequence[str], layout: RankLayout = LAYOUT) -> InvalidInput:
    """The error of a conversion."""
    with pytest.raises(InvalidInput) as caught:
        convert(paths, layout)
    return caught.value


def from_megatron(optype: str) -> str | None:
    """Ranges as Megatron-LM gives them with call stacks; what has no function of its own stands as a kernel."""
    return FRAMES.get(optype)


def from_kernels(optype: str) -> str | None:
    """Ranges around compute alone: all collectives must be told by their process groups."""
    return optype if optype.endswith("-compute") or optype == "optimizer" else None


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("named", [lambda optype: optype, from_megatron], ids=["record_function", "call stacks"])
def test_every_operation_comes_back_at_its_time(
    named: Callable[[str], str | None], packed: bool, tmp_path: Path
) -> None:
    """Both dialects give the device times of all operations of both ranks; only pauses of garbage collection lack."""
    found = convert(two_ranks(tmp_path, packed=packed, named=named), LAYOUT)
    # Order of two microbatches at stage 0: one all-gather, then F S R B twice; 52 us from one to the next.
    assert times(found, "params-all-gather") == [(0.0, 50.0)]
    assert times(found, "forward-compute") == [(52.0, 50.0), (260.0, 50.0)]
    assert times(found, "forward-send") == [(104.0, 50.0), (312.0, 50.0)]
    assert times(found, "backward-compute") == [(208.0, 50.0), (416.0, 50.0)]
    assert times(found, "optimizer", rank=2, step=6) == [(10_676.0, 50.0)]
    assert found.recovered == {
        "forward-compute": 8, "backward-compute": 8, "optimizer": 4, "forward-send": 4, "forward-recv": 4,
        "backward-send": 4, "backward-recv": 4, "params-all-gather": 4, "grads-reduce-scatter": 4,
        "layernorm-grads-all-reduce": 4, "embedding-grads-all-reduce": 4, "optimizer-clip-main-grad": 4,
    }  # fmt: skip
    assert [entry.optype for entry in found.missing] == ["gc"]


def test_collectives_are_told_by_their_process_groups(tmp_path: Path) -> None:
    """Without ranges around them, kernels of the five collectives are recognised; sends and receives are laid out."""
    found = convert(two_ranks(tmp_path, named=from_kernels), LAYOUT)
    assert times(found, "grads-reduce-scatter") == [(572.0, 50.0)]
    assert times(found, "embedding-grads-all-reduce") == [(520.0, 50.0)]
    assert times(found, "optimizer-clip-main-grad", rank=2) == [(624.0, 50.0)]
    gone = {entry.optype: entry.disables for entry in found.missing}
    assert set(gone) == {"forward-send, forward-recv, backward-send, backward-recv", "gc"}
    assert found.recovered["forward-send"] == found.recovered["backward-recv"] == 4


def test_members_tell_a_group_without_description(tmp_path: Path) -> None:
    """A list of ranks serves where the description is a number: ranks 0 and 2 are the data-parallel group here."""
    layout = RankLayout(dp=2, dsp=1, pp=1, tp=2, vpp=1)
    paths = []
    for rank in (0, 2):
        file = RankFile(rank, named=from_kernels)
        file.step(5, ops_of(["forward-compute", "backward-compute", "grads-reduce-scatter", "optimizer"]))
        for event in file.events:
            if "Collective name" in event.get("args", {}):
                event["args"] |= {"Process Group Description": "7", "Process Group Ranks": "[0, 2]"}
        paths.append(file.write(tmp_path))
    assert times(convert(paths, layout), "grads-reduce-scatter") == [(104.0, 50.0)]


def test_microbatches_are_numbered_by_order(tmp_path: Path) -> None:
    """The first forward of a step is microbatch 0; other operations carry none."""
    ops = convert(two_ranks(tmp_path), LAYOUT).ops
    chosen = [op for op in ops if op.rank == 0 and op.step == 5]
    numbers = {(op.optype, op.microbatch, op.chunk) for op in chosen}
    assert {("forward-compute", 0, 0), ("forward-compute", 1, 0), ("backward-compute", 1, 0)} <= numbers
    assert ("forward-send", -1, -1) in numbers
    assert ("params-all-gather", -1, 0) in numbers


def test_an_all_gather_after_the_update_opens_the_next_step(tmp_path: Path) -> None:
    """Megatron gathers parameters at the end of a step; the op trace has it where the next step starts."""
    paths = []
    for rank, middle in ((0, FIRST), (2, LAST)):
        file = RankFile(rank, named=from_megatron)
        for step in (5, 6, 7):
            file.step(step, ops_of([*middle, *TAIL, "optimizer", "params-all-gather"], at=10_000.0 * step))
        paths.append(file.write(tmp_path))
    found = convert(paths, LAYOUT)
    # Step 5 has no all-gather before it; step 8 has nothing else and is no step.
    assert {op.step for op in found.ops} == {6, 7}
    gathered = next(op for op in found.ops if op.optype == "params-all-gather" and op.step == 6)
    assert gathered.start < min(op.start for op in found.ops if op.step == 6 and op.optype == "forward-compute")
    assert any("1 steps were dropped" in note and note.endswith(": 5") for note in found.notes)


def test_a_single_step_is_enough(tmp_path: Path) -> None:
    """Its all-gather of the end belongs to a step that was not profiled: it is missing, the rest is there."""
    paths = []
    for rank, middle in ((0, FIRST), (2, LAST)):
        file = RankFile(rank, named=from_megatron)
        file.step(5, ops_of([*middle, *TAIL, "optimizer", "params-all-gather"]))
        paths.append(file.write(tmp_path))
    found = convert(paths, LAYOUT)
    assert {op.step for op in found.ops} == {5}
    assert {entry.optype for entry in found.missing} == {"params-all-gather", "gc"}


def test_pauses_become_one_a_step(tmp_path: Path) -> None:
    """Two pauses of 10 us on one rank in one step: one of 20 us after its last backward; all others have no length."""
    paths = []
    for rank, middle in ((0, FIRST), (2, LAST)):
        file = RankFile(rank)
        for step in (5, 6):
            paused = ["gc", *middle, "gc"] if (rank, step) == (2, 6) else middle
            file.step(step, ops_of([*paused, *TAIL, "optimizer"], at=10_000.0 * step))
        paths.append(file.write(tmp_path))
    found = convert(paths, LAYOUT)
    lengths = {(op.rank, op.step): round((op.end - op.start) * 1e6) for op in found.ops if op.optype == "gc"}
    assert lengths == {(0, 5): 0, (0, 6): 0, (2, 5): 0, (2, 6): 20}
    assert "gc" not in {entry.optype for entry in found.missing}


def test_without_device_events_times_are_of_the_host_and_said_to_be(tmp_path: Path) -> None:
    """A trace of the CPU alone has ranges of 10 us; a note says that these are launch times."""
    found = convert(two_ranks(tmp_path, on_device=False), LAYOUT)
    assert {duration for _, duration in times(found, "forward-compute")} == {10.0}
    assert says(found.notes, "forward-compute", "the host")
    assert "worker" in found.untold


def test_clocks_that_differ_are_told_and_can_be_aligned(tmp_path: Path) -> None:
    """A clock 3 ms ahead shows at the barrier; aligned, the barrier of a step ends at once."""
    paths = two_ranks(tmp_path)
    ahead = json.loads(Path(paths[1]).read_text())
    ahead["baseTimeNanoseconds"] += 3_000_000
    Path(paths[1]).write_text(json.dumps(ahead))
    assert any("0.003000 s apart" in note for note in convert(paths, LAYOUT).notes)
    aligned = convert(paths, LAYOUT, ConversionSettings(align_clocks=True))
    ends = [op.end for op in aligned.ops if op.optype == "optimizer-clip-main-grad" and op.step == 5]
    assert ends[0] == pytest.approx(ends[1], abs=1e-9)


def test_ranks_beside_the_representative_are_left_out(tmp_path: Path) -> None:
    """A tensor-parallel peer's file adds nothing but a note."""
    paths = two_ranks(tmp_path)
    peer = RankFile(1)
    peer.step(5, ops_of(FIRST))
    found = convert([*paths, peer.write(tmp_path)], LAYOUT)
    assert {op.rank for op in found.ops} == {0, 2}
    assert says(found.notes, "1 files", "share a worker")


def test_an_empty_group_description_is_filled(tmp_path: Path) -> None:
    """The hole that some releases leave, ``"Process Group Description": ,``, is no reason to refuse a file."""
    paths = two_ranks(tmp_path)
    text = Path(paths[0]).read_text()
    holed = text.replace(
        '"Process Group Description": "PIPELINE_MODEL_PARALLEL_GROUP"', '"Process Group Description": '
    )
    assert holed != text
    Path(paths[0]).write_text(holed)
    found = convert(paths, LAYOUT)
    assert found.recovered["forward-send"] == 4
    assert any("empty fields" in note for note in found.notes)


def test_a_trace_without_compute_ranges_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """Kernels alone do not say which microbatch they serve."""
    error = refused(two_ranks(tmp_path, named=lambda optype: None))
    assert says(error.message, "no forward-compute", "no backward-compute")
    assert "--pytorch-profiler-collect-callstack" in error.fix


def test_an_absent_rank_is_named(tmp_path: Path) -> None:
    """Rank 2 stands for the last stage and has no file."""
    assert re.search(r"1 of 2 workers have no file: rank 2", refused(two_ranks(tmp_path)[:1]).message)


def test_a_rank_twice_is_refused(tmp_path: Path) -> None:
    """Two files of one rank cannot both be true."""
    path = two_ranks(tmp_path)[0]
    assert "is of rank 0, as" in refused([path, path]).message


def test_metadata_of_another_job_is_refused(tmp_path: Path) -> None:
    """The file says four ranks; metadata of two contradict it."""
    path = two_ranks(tmp_path)[0]
    assert "of a job of 4 ranks" in refused([path], RankLayout(dp=1, dsp=1, pp=1, tp=2, vpp=1)).message


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@given(share=st.floats(0.02, 0.98))
@examples(12)
def test_a_truncated_file_is_refused(packed: bool, share: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Wherever a file ends too early, the error says that it is truncated."""
    path = Path(two_ranks(tmp_path_factory.mktemp("cut"), packed=packed)[0])
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    assert "truncated" in refused([str(path)]).message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", 'no list "traceEvents"'),
        ('{"schema": "1.0.3-chakra.0.0.4", "nodes": []}', "is an execution trace"),
        ('{"traceEvents": [{"ph": "X"} {"ph": "X"}]}', "is not JSON"),
        ('{"traceEvents": []}', "no ProfilerStep# range"),
        ('{"traceEvents": [{"ph": "X", "cat": "kernel", "args": {"correlation": 1}, "ts": "soon"}]}', "no usable time"),
        ('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "gc", "ts": 1, "dur": -4}]}', "no usable time"),
        ('{"traceEvents": ' + "[" * 100_000, "nested too deep"),
        ('{"traceEvents": [{"ts": ' + "1" * 5_000 + "}]}", "thousands of digits"),
        ('{"traceEvents": [], "baseTimeNanoseconds": "now"}', "no ProfilerStep# range"),
    ],
)
def test_what_is_no_trace_is_refused(text: str, message: str, tmp_path: Path) -> None:
    """Each kind of broken file has an error of its own, never a traceback."""
    path = tmp_path / "rank-0.json"
    path.write_text(text)
    assert message in refused([str(path)]).message


@pytest.mark.parametrize("category", [[], {}, None, 3])
def test_an_event_of_no_category_is_ignored(tmp_path: Path, category: Any) -> None:
    """A list, an object, nothing or a number in place of a name: the other events make the same operations."""
    file = RankFile(0, named=from_kernels)
    file.step(5, ops_of(["forward-compute", "backward-compute", "grads-reduce-scatter", "optimizer"]))
    document, path, layout = file.document(), tmp_path / "rank-0.json", RankLayout(dp=1, dsp=1, pp=1, tp=4, vpp=1)
    path.write_text(json.dumps(document))
    before = convert([str(path)], layout).ops
    document["traceEvents"].append({"ph": "X", "cat": category, "name": "x", "ts": 0, "dur": 1})
    path.write_text(json.dumps(document))
    assert convert([str(path)], layout).ops == before


JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers()))


@given(data=st.data())
@examples(60)
def test_junk_in_a_trace_is_an_error_or_ignored(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Any value of any event, or beside the events, replaced by any other: a result or an error of ours."""
    file = RankFile(0, named=from_kernels)
    file.step(5, ops_of(["forward-compute", "backward-compute", "grads-reduce-scatter", "optimizer"]))
    document = file.document()
    event = data.draw(st.sampled_from(document["traceEvents"]))
    where = data.draw(st.sampled_from([document, event, event.get("args", event)]))
    key = data.draw(st.sampled_from(sorted(where)))
    where[key] = data.draw(JUNK)
    path = tmp_path_factory.mktemp("junk") / "rank-0.json"
    path.write_text(json.dumps(document))
    with suppress(ArnoldError):
        convert([str(path)], RankLayout(dp=1, dsp=1, pp=1, tp=4, vpp=1))


@pytest.mark.parametrize(
    ("name", "optypes"),
    [
        ("backward-compute mb_id=3 mc=1", ("backward-compute",)),
        ("Forward 3", ("forward-compute",)),
        ("nccl:send 0->1", ("forward-send",)),
        ("nccl:send 1->0", ("backward-send",)),
        ("nccl:recv 1<-0", ("forward-recv",)),
        ("nccl:recv 0<-1", ("backward-recv",)),
        ("nccl:send 0->5", None),
        ("Optimizer.step#AdamW.step", ("optimizer",)),
        (FRAME.format("pipeline_parallel/p2p_communication", "send_forward_recv_backward"),
         ("forward-send", "backward-recv")),
        ("my/schedules.py(3): forward_step", None),
        ("aten::mm", None),
    ],
)  # fmt: skip
def test_names_of_ranges(name: str, optypes: tuple[str, ...] | None) -> None:
    """Of two stages, 0 sends forward to 1 and 1 backward to 0; functions count only in Megatron's own modules."""
    meaning = meaning_of(name, stages=2)
    assert (meaning.optypes if meaning else None) == optypes
