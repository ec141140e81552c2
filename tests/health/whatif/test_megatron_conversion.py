"""Megatron-LM's timers become an op trace along the known schedule; what they do not hold is named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ground.errors import InvalidInput, TooLarge
from health.whatif.conversion import Conversion, ConversionSettings, Op, write_conversion
from health.whatif.converters import convert
from health.whatif.optypes import interleaved, one_forward_one_backward
from health.whatif.trace import JobSizes, RankLayout
from tests.facts import says

LAYOUT = RankLayout(dp=1, dsp=1, pp=2, tp=1, vpp=1)
"""Two ranks, one a stage."""

TIMERS: Mapping[str, tuple[float, float]] = {
    "forward-compute": (20.0, 20.0),
    "backward-compute": (40.0, 60.0),
    "forward-recv": (0.0, 12.0),
    "layernorm-grads-all-reduce": (1.0, 1.0),
    "embedding-grads-all-reduce": (2.0, 2.0),
    "all-grads-sync": (5.0, 4.0),
    "optimizer-clip-main-grad": (3.0, 3.0),
    "optimizer": (13.0, 13.0),
}
"""Milliseconds of one step on ranks 0 and 1."""


def block(iteration: int, timers: Mapping[str, tuple[float, ...]] = TIMERS, *, prefix: str = "") -> str:
    """What rank N-1 prints at one iteration: its line, then the times, zeros left out."""
    lines = [
        f" iteration {iteration:8d}/     100 | consumed samples: 64 | elapsed time per iteration (ms): 140.0 |",
        "times across ranks (ms):",
    ]
    for name, values in timers.items():
        lines.append(f"  {name}:")
        lines += [f"     rank {rank:2d}: {value:.2f}" for rank, value in enumerate(values) if value > 0]
    return "".join(f"{prefix}{line}\n" for line in lines)


def log(folder: Path, *blocks: str, head: str = "setting number of microbatches to constant 2\n") -> str:
    """A log on disk."""
    path = folder / "train.log"
    path.write_text(head + "".join(blocks))
    return str(path)


def spans(conversion: Conversion, optype: str, rank: int) -> list[tuple[float, float]]:
    """Start and end of the operations of a type in milliseconds."""
    chosen = [op for op in conversion.ops if (op.optype, op.rank) == (optype, rank)]
    return [(round(op.start * 1e3, 6), round(op.end * 1e3, 6)) for op in sorted(chosen, key=_start)]


def _start(op: Op) -> float:
    return op.start


def refused(path: str, layout: RankLayout = LAYOUT) -> InvalidInput:
    """The error of a conversion."""
    with pytest.raises(InvalidInput) as caught:
        convert([path], layout)
    return caught.value


def test_compute_is_laid_out_as_1f1b(tmp_path: Path) -> None:
    """Two microbatches on two stages, forward 10 ms each, backward 20 ms on stage 0 and 30 ms on stage 1."""
    found = convert([log(tmp_path, block(7))], LAYOUT)
    # Stage 0: F0 0-10, F1 10-20, then it waits for B0 of stage 1.  Stage 1: F0 10-20, B0 20-50, F1 50-60, B1 60-90.
    assert spans(found, "forward-compute", 0) == [(0, 10), (10, 20)]
    assert spans(found, "forward-compute", 1) == [(10, 20), (50, 60)]
    assert spans(found, "backward-compute", 1) == [(20, 50), (60, 90)]
    assert spans(found, "backward-compute", 0) == [(50, 70), (90, 110)]


def test_transfers_end_when_both_sides_are_there(tmp_path: Path) -> None:
    """Stage 0 has sent F1 at 20 ms, stage 1 is ready for it at 50 ms: both operations end at 50 ms."""
    found = convert([log(tmp_path, block(7))], LAYOUT)
    assert spans(found, "forward-send", 0) == [(10, 10), (20, 50)]
    assert spans(found, "forward-recv", 1) == [(0, 10), (50, 50)]
    assert spans(found, "backward-recv", 0) == [(20, 50), (70, 90)]


def test_the_end_of_a_step_follows_the_timers(tmp_path: Path) -> None:
    """After the last compute at 110 ms: 1 + 2 + 5 + 3 ms of collectives, then the optimizer without its clipping."""
    found = convert([log(tmp_path, block(7))], LAYOUT)
    assert spans(found, "layernorm-grads-all-reduce", 1) == [(110, 111)]
    assert spans(found, "embedding-grads-all-reduce", 0) == [(111, 113)]
    assert spans(found, "grads-reduce-scatter", 1) == [(113, 117)]
    assert spans(found, "optimizer-clip-main-grad", 1) == [(118, 121)]
    assert spans(found, "optimizer", 0) == [(121, 131)]


@pytest.mark.parametrize(
    ("optype", "names"),
    [
        ("layernorm-grads-all-reduce", ("layernorm-grads-all-reduce", "non-tensor-parallel-grads-all-reduce")),
        ("grads-reduce-scatter", ("all-grads-sync", "grads-reduce-scatter", "grads-all-reduce")),
    ],
)
def test_names_that_timers_have_had(tmp_path: Path, optype: str, names: tuple[str, ...]) -> None:
    """Releases of Megatron-LM call the same timer by other names; each is the same operation."""
    plain = {name: times for name, times in TIMERS.items() if name not in names}
    found = [convert([log(tmp_path, block(7, {**plain, name: (5.0, 4.0)}))], LAYOUT) for name in names]
    assert len({tuple(conversion.ops) for conversion in found}) == 1
    assert len(spans(found[0], optype, 1)) == 1
    assert optype not in {entry.optype for entry in found[0].missing}


def test_what_timers_cannot_say_is_listed(tmp_path: Path) -> None:
    """Transfers, single microbatches and garbage collection are never there; the all-gather was not logged."""
    missing = {entry.optype: entry for entry in convert([log(tmp_path, block(7))], LAYOUT).missing}
    assert set(missing) == {
        "params-all-gather", "forward-send, forward-recv, backward-send, backward-recv", "single microbatches", "gc"
    }  # fmt: skip
    assert "sequence length" in missing["single microbatches"].disables


def test_a_mean_over_iterations_is_listed(tmp_path: Path) -> None:
    """Blocks ten iterations apart do not speak of single steps."""
    found = convert([log(tmp_path, block(10), block(20))], LAYOUT)
    entry = next(entry for entry in found.missing if entry.optype == "single steps")
    assert "mean of 10 iterations" in entry.reason
    assert {op.step for op in found.ops} == {10, 20}


def test_lines_may_carry_what_a_launcher_puts_before_them(tmp_path: Path) -> None:
    """A launcher writes ``[default1]:`` before every line; other lines between blocks do not matter."""
    text = block(7, prefix="[default1]: ") + "[default1]: saving checkpoint\n" + block(8, prefix="[default1]: ")
    assert {op.step for op in convert([log(tmp_path, text)], LAYOUT).ops} == {7, 8}


@pytest.mark.parametrize("prefix", ["[default1]:", "[trainer7]: INFO:megatron.core.timers:", "[2026-11-22 10:00:00] "])
def test_lines_of_processes_that_torchrun_mixes(prefix: str, tmp_path: Path) -> None:
    """What other processes print between the lines of a block does not end it, whatever stands before a line."""
    plain = convert([log(tmp_path, block(7))], LAYOUT)
    lines = block(7, prefix=prefix).splitlines(keepends=True)
    mixed = "".join(f"{line}[default0]:something else\n" for line in lines)
    found = convert([log(tmp_path, mixed, head=f"{prefix}setting number of microbatches to constant 2\n")], LAYOUT)
    assert found.ops == plain.ops


def test_an_iteration_run_twice_counts_once(tmp_path: Path) -> None:
    """After a restart a log has iteration 7 again: the later block holds, 40 ms of forward instead of 20."""
    again = dict(TIMERS) | {"forward-compute": (40.0, 40.0)}
    found = convert([log(tmp_path, block(7), block(8), block(7, again), block(8))], LAYOUT)
    assert {op.step for op in found.ops} == {7, 8}
    assert set(spans(found, "forward-compute", 0)) == {(0, 20), (20, 40), (0, 10), (10, 20)}


def test_a_log_that_ends_within_an_iteration(tmp_path: Path) -> None:
    """Of a run that goes on, or was killed, the last block lacks what comes last in it: it is left out, and said."""
    whole = block(8)
    for cut in (len(whole) - 20, whole.index("  optimizer:"), whole.index("  backward-compute:")):
        found = convert([log(tmp_path, block(7), whole[:cut])], LAYOUT)
        assert {op.step for op in found.ops} == {7}
        assert says(found.notes, "iteration 8", "left out")


def test_the_number_of_microbatches_can_be_given(tmp_path: Path) -> None:
    """A log that starts late does not say it; the option does."""
    path = log(tmp_path, block(7), head="")
    assert "how many microbatches" in refused(path).message
    assert len(spans(convert([path], LAYOUT, ConversionSettings(microbatches=4)), "forward-compute", 0)) == 4


def test_minimum_and_maximum_are_refused_with_the_remedy(tmp_path: Path) -> None:
    """The default log option does not say whose the maximum is."""
    text = "(min, max) time across ranks (ms):\n    forward-compute ......................: (20.00, 40.00)\n"
    error = refused(log(tmp_path, text))
    assert "do not say whose" in error.message
    assert "--timing-log-option all" in error.fix


def test_a_low_level_is_refused(tmp_path: Path) -> None:
    """Level 1 has the optimizer but no compute."""
    assert says(refused(log(tmp_path, block(7, {"optimizer": (1.0, 1.0)}))).message, "level of timing", "too low")


def test_a_rank_without_times_is_named_with_its_line(tmp_path: Path) -> None:
    """Rank 1 has no backward: the block's heading is line 3 of the file."""
    text = block(7, {"forward-compute": (1.0, 1.0), "backward-compute": (1.0, 0.0)})
    error = refused(log(tmp_path, text))
    assert "no backward-compute of rank 1" in error.message
    assert error.where.endswith("train.log:3")


def test_a_rank_beyond_the_job_is_refused(tmp_path: Path) -> None:
    """The metadata describe two ranks; the log has a third."""
    assert "rank 2 does not exist" in refused(log(tmp_path, block(7, {"forward-compute": (1.0, 1.0, 1.0)}))).message


def test_a_schedule_beyond_measure_is_refused(tmp_path: Path) -> None:
    """A number of microbatches that no job has does not fill the memory."""
    with pytest.raises(TooLarge, match="passes"):
        convert([log(tmp_path, block(7))], LAYOUT, ConversionSettings(microbatches=100_000_000))


def test_virtual_stages_are_refused(tmp_path: Path) -> None:
    """A timer adds up the chunks of a stage."""
    layout = RankLayout(dp=1, dsp=1, pp=2, tp=1, vpp=2)
    assert "virtual stages" in refused(log(tmp_path, block(7)), layout).message


@pytest.mark.parametrize("value", ["nan", "-3.00", "fast"])
def test_a_time_that_is_none_is_refused(value: str, tmp_path: Path) -> None:
    """NaN, a negative time and a word are told with their line."""
    text = block(7).replace("20.00", value, 1)
    error = refused(log(tmp_path, text))
    assert "is not a time" in error.message
    assert error.where.endswith(":5")


def test_the_files_hold_what_was_converted(tmp_path: Path) -> None:
    """Parquet with the public columns, times from the start of the step, and the statement beside it."""
    found = convert([log(tmp_path, block(7))], LAYOUT)
    paths = write_conversion(found, JobSizes(dp=1, pp=2), tmp_path / "out")
    rows = pq.read_table(paths[0]).to_pylist()
    assert len(rows) == len(found.ops)
    assert min(row["start_ts"] for row in rows) == 0.0
    backward = [row for row in rows if (row["optype"], row["rank"]) == ("backward-compute", 1)]
    expected = {"dp_rank": 0, "stage": 1, "rank": 1, "step": 7, "seq_id": 1, "mc": 0, "mb_id": 1, "gmc": 1}
    assert expected.items() <= backward[1].items()
    assert backward[1]["duration"] == pytest.approx(0.030)
    statement = json.loads(paths[2].read_text())
    assert statement["source"] == "megatron-timers"
    assert statement["recovered"]["forward-compute"] == 4


def test_1f1b_of_the_paper() -> None:
    """Four stages, eight microbatches (figure 4 of arXiv 2104.04473): stage 0 warms up with three forwards."""
    order = [(forward, i) for forward, _, i in one_forward_one_backward(stage=0, stages=4, microbatches=8)]
    assert order[:6] == [(True, 0), (True, 1), (True, 2), (True, 3), (False, 0), (True, 4)]
    assert order[-3:] == [(False, 5), (False, 6), (False, 7)]
    assert list(one_forward_one_backward(stage=3, stages=4, microbatches=2)) == [
        (True, 0, 0), (False, 0, 0), (True, 0, 1), (False, 0, 1)
    ]  # fmt: skip


def test_interleaving_takes_microbatches_in_groups_of_the_depth() -> None:
    """Two stages with two chunks: microbatches 0 and 1 through chunk 0, then through chunk 1, then 2 and 3."""
    forward = [interleaved(i, stages=2, chunks=2, forward=True) for i in range(6)]
    assert forward == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3)]
    assert interleaved(0, stages=2, chunks=2, forward=False) == (1, 0)
