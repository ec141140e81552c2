"""Traces and metadata that are wrong: a clear error with file, row and fix; leniently, a count of what was dropped."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from ground.errors import ArnoldError, InvalidInput, TooLarge, TraceFormatError
from ground.files import Source, read_source
from health.whatif import Replayed, analyse, flags_of, prepare, read_metadata, read_trace, slow_workers
from health.whatif.trace import COLUMNS, RankLayout, layout_of
from tests.case_counts import examples
from tests.facts import saying, says

Columns = dict[str, Any]
Write = Callable[..., tuple[Path, Path]]
FORWARDS = "forward-compute"


def read(files: tuple[Path, Path], *, lenient: bool = False) -> Replayed:
    """Read with metadata and prepare."""
    trace, meta = files
    sizes = read_metadata(read_source(meta))
    return prepare(read_trace(trace, sizes=sizes, lenient=lenient), lenient=lenient)


def row_of(columns: Columns, *, nth: int = 0, **values: Any) -> int:
    """Number of the nth row with such values."""
    fits = np.ones(len(columns["step"]), dtype=bool)
    for key, value in values.items():
        fits &= columns[key] == value
    return int(np.flatnonzero(fits)[nth])


def without(columns: Columns, drop: Any) -> None:
    """Leave rows out."""
    keep = np.ones(len(columns["step"]), dtype=bool)
    keep[drop] = False
    for key in columns:
        columns[key] = columns[key][keep]


def set_value(key: str, value: Any, **where: Any) -> Callable[[Columns], None]:
    """Set one cell."""

    def spoil(columns: Columns) -> None:
        columns[key][row_of(columns, **where)] = value

    return spoil


def skew(seconds: float, **where: Any) -> Callable[[Columns], None]:
    """Set the clock of some rows forward."""

    def spoil(columns: Columns) -> None:
        fits = np.ones(len(columns["step"]), dtype=bool)
        for key, value in where.items():
            fits &= columns[key] == value
        columns["start_ts"] = columns["start_ts"] + np.where(fits, seconds, 0.0)

    return spoil


def drop_where(**where: Any) -> Callable[[Columns], None]:
    """Leave one row out."""
    return lambda columns: without(columns, row_of(columns, **where))


def drop_all(key: str, value: int) -> Callable[[Columns], None]:
    """Leave all rows with a value out."""
    return lambda columns: without(columns, columns[key] == value)


def twice(columns: Columns) -> None:
    """One row there twice."""
    row = row_of(columns, optype=FORWARDS, dp_rank=1, step=1)
    for key in columns:
        columns[key] = np.append(columns[key], columns[key][row])


def cut_off(columns: Columns) -> None:
    """The last step ends in the middle."""
    without(columns, (columns["step"] == 2) & (columns["start_ts"] > 0.8))


def extra(columns: Columns) -> None:
    """A fifth forward pass in one step."""
    row = row_of(columns, optype=FORWARDS, dp_rank=1, step=1, seq_id=3)
    for key in columns:
        columns[key] = np.append(columns[key], columns[key][row])
    columns["seq_id"][-1] = 4


SPOILED: dict[str, tuple[Callable[[Columns], None], str]] = {
    "unknown type": (
        set_value("optype", "forward-compte", optype=FORWARDS, step=1, dp_rank=1),
        "unknown operation type",
    ),
    "nan start": (set_value("start_ts", np.nan, optype=FORWARDS, step=1), "start_ts is nan"),
    "infinite duration": (set_value("duration", np.inf, optype=FORWARDS, step=1), "duration is inf"),
    "negative duration": (set_value("duration", -0.5, optype=FORWARDS, step=1), "ends before it begins"),
    "negative number": (set_value("seq_id", -1, optype=FORWARDS, step=1), "seq_id is -1"),
    "no microbatch": (set_value("mb_id", -1, optype=FORWARDS, step=1), "no microbatch"),
    "missing row": (drop_where(optype=FORWARDS, step=1, dp_rank=1), "is missing"),
    "missing send": (drop_where(optype="forward-send", step=1, dp_rank=1), "is missing"),
    "cut off at the end": (cut_off, "is missing"),
    "row twice": (twice, "is there twice"),
    "one pass more": (extra, "most other ranks or steps have no such operation"),
    "clock skew in a step": (skew(0.4, step=1, stage=1), "clocks disagree by at least"),
}
"""What happens to one step only: an error, and with `lenient` that step is left out."""


@pytest.mark.parametrize("name", SPOILED)
def test_spoiled_step(write: Write, name: str) -> None:
    """One spoiled step of three is named with file and row; leniently, it is left out, counted, and two remain."""
    spoil, message = SPOILED[name]
    files = write(spoil)
    with pytest.raises(TraceFormatError, match=message) as caught:
        read(files)
    assert ":row " in caught.value.where
    assert caught.value.fix
    replayed = read(files, lenient=True)
    assert len(replayed.trace.steps) == 2
    assert sum(replayed.trace.dropped.values()) > 0
    assert analyse(replayed).slowdown > 0.9


def test_untouched_trace_drops_nothing(write: Write) -> None:
    """Lenient reading of a whole trace leaves nothing out and changes no number."""
    files = write()
    strict, lenient = read(files), read(files, lenient=True)
    assert lenient.trace.dropped == {}
    assert analyse(strict).slowdown == analyse(lenient).slowdown


def test_rows_in_any_order(write: Write) -> None:
    """The order of the rows means nothing."""

    def shuffle(columns: Columns) -> None:
        order = np.random.default_rng(1).permutation(len(columns["step"]))
        for key in columns:
            columns[key] = columns[key][order]

    straight = analyse(read(write()))
    assert analyse(read(write(shuffle))).slowdown == pytest.approx(straight.slowdown, rel=1e-12)


def test_first_step_cut_off(write: Write) -> None:
    """The graph is built from the first whole step: a step cut off at the beginning of the trace is left out too."""
    files = write(lambda columns: without(columns, (columns["step"] == 0) & (columns["start_ts"] < 0.5)))
    with pytest.raises(TraceFormatError, match="is missing"):
        read(files)
    assert read(files, lenient=True).trace.steps == (1, 2)


def test_absent_rank(write: Write) -> None:
    """A rank that is absent is named; leniently the others are judged, under their own numbers."""
    files = write(drop_all("dp_rank", 0))
    with pytest.raises(TraceFormatError, match=saying("data-parallel rank 0")):
        read(files)
    replayed = read(files, lenient=True)
    assert replayed.trace.dp_ranks == (1,)
    assert analyse(replayed).dp_ranks == (1,)


def test_absent_worker(write: Write) -> None:
    """A worker (a rank's stage) that is absent is named; leniently its whole rank is left out, and counted."""
    files = write(lambda columns: without(columns, (columns["dp_rank"] == 1) & (columns["stage"] == 1)))
    with pytest.raises(TraceFormatError, match=saying("dp 1 / stage 1", "absent")):
        read(files)
    replayed = read(files, lenient=True)
    assert replayed.trace.dp_ranks == (0,)
    assert replayed.trace.dropped == {"rank without a stage": len(replayed.trace.row.ravel()) // 2}


def test_every_rank_lacks_a_worker(write: Write) -> None:
    """No rank is whole: nothing can be replayed, leniently or not."""
    files = write(lambda columns: without(columns, columns["dp_rank"] == columns["stage"]))
    for lenient in (False, True):
        with pytest.raises(TraceFormatError, match="is absent"):
            read(files, lenient=lenient)


def test_absent_stage(write: Write) -> None:
    """Without a stage there is no pipeline to replay, leniently or not."""
    files = write(drop_all("stage", 1))
    for lenient in (False, True):
        with pytest.raises(TraceFormatError, match=saying("stage 1", "pp_size is 2")):
            read(files, lenient=lenient)


def test_unpaired_everywhere(write: Write) -> None:
    """Sends that are missing in every step and rank cannot be paired, leniently or not."""
    files = write(lambda columns: without(columns, (columns["optype"] == "forward-send") & (columns["seq_id"] == 3)))
    for lenient in (False, True):
        with pytest.raises(TraceFormatError, match="unpaired"):
            read(files, lenient=lenient)


def test_microbatches_that_do_not_meet(write: Write) -> None:
    """A stage that numbers its microbatches otherwise sends what nobody receives."""

    def renumber(columns: Columns) -> None:
        columns["mb_id"] = np.where((columns["stage"] == 1) & (columns["mb_id"] == 3), 9, columns["mb_id"])

    with pytest.raises(TraceFormatError, match=saying("never received")):
        read(write(renumber))


def test_impossible_orders(write: Write) -> None:
    """A backward pass before its forward pass; stages that pass microbatches on in another order than they come."""

    def reverse(columns: Columns) -> None:
        last = (columns["optype"] == "backward-compute") & (columns["stage"] == 1)
        columns["start_ts"] = np.where(last, columns["start_ts"] - 100.0, columns["start_ts"])

    def swap(columns: Columns) -> None:
        numbers = columns["mb_id"]
        other = np.where(numbers == 0, 1, np.where(numbers == 1, 0, numbers))
        columns["mb_id"] = np.where(columns["stage"] == 1, other, numbers)

    for spoil, message in ((reverse, "begins before its forward pass"), (swap, "circle")):
        with pytest.raises(TraceFormatError, match=message):
            read(write(spoil))


def test_clocks_that_disagree_throughout(write: Write) -> None:
    """A rank whose clock is off in all steps leaves nothing to judge."""
    files = write(skew(0.5, stage=1))
    for lenient in (False, True):
        with pytest.raises(TraceFormatError, match=r"clocks disagree by at least 0\.4"):
            read(files, lenient=lenient)


@pytest.mark.parametrize("column", [key for key in COLUMNS if key not in ("rank", "gmc")])
def test_missing_column(write: Write, column: str) -> None:
    """Every column that is used must be there; the error names it."""
    with pytest.raises(TraceFormatError, match=f"the column '{column}' is missing"):
        read(write(lambda columns: columns.pop(column)))


@pytest.mark.parametrize("column", COLUMNS)
def test_column_of_another_type(write: Write, column: str) -> None:
    """Text where numbers are due, and numbers where text is, are named by column."""

    def retype(columns: Columns) -> None:
        size = len(columns["step"])
        columns[column] = np.zeros(size) if column == "optype" else np.array(["x"] * size, dtype=object)

    if column == "gmc":  # nothing is read from it
        read(write(retype))
        return
    with pytest.raises(TraceFormatError, match=f"the column '{column}' holds"):
        read(write(retype))


def test_nulls_are_missing_values(write: Write) -> None:
    """A null in any column is a missing value, named by column and row; leniently its step is left out."""
    trace, meta = write()
    table = pq.read_table(trace)
    for column in ("dp_rank", "step", "optype", "start_ts", "mc"):
        values = table[column].to_pylist()
        values[100] = None
        place = table.schema.get_field_index(column)
        spoiled = table.set_column(place, column, pa.array(values, type=table.schema.field(column).type))
        pq.write_table(spoiled, trace)
        with pytest.raises(TraceFormatError) as caught:
            read((trace, meta))
        assert caught.value.where.endswith(":row 100")
        assert len(read((trace, meta), lenient=True).trace.steps) == 2


@pytest.mark.parametrize("mark", [None, float("nan")])
def test_what_has_no_microbatch_may_say_nothing(write: Write, mark: float | None) -> None:
    """Of an operation other than a pass, a null or NaN in mc and mb_id is -1: pandas writes floats then."""
    trace, meta = write()
    table = pq.read_table(trace)
    expected = analyse(read((trace, meta))).slowdown
    for column in ("mc", "mb_id"):
        values = [mark if value < 0 else float(value) for value in table[column].to_pylist()]
        table = table.set_column(table.schema.get_field_index(column), column, pa.array(values, pa.float64()))
    pq.write_table(table, trace)
    assert analyse(read((trace, meta))).slowdown == expected


def test_whole_numbers_as_floats(write: Write) -> None:
    """Floats that are whole numbers are read; a fraction, or an infinity, is named with its row."""
    columns = ("dp_rank", "stage", "rank", "step", "seq_id", "mc", "mb_id")

    def floats(spoiled: float | None) -> Callable[[Columns], None]:
        def spoil(table: Columns) -> None:
            table.update({key: table[key].astype(np.float64) for key in columns})
            if spoiled is not None:
                table["stage"][17] = spoiled

        return spoil

    assert analyse(read(write(floats(None)))).slowdown == analyse(read(write())).slowdown
    for value in (0.5, np.inf):
        with pytest.raises(TraceFormatError, match=f"stage is {value}, not a whole number") as caught:
            read(write(floats(value)))
        assert caught.value.where.endswith(":row 17")


def test_steps_on_a_clock_that_runs_on(write: Write) -> None:
    """Starts that count from the beginning of the job are counted from the first operation of their step."""

    def running(columns: Columns) -> None:
        columns["start_ts"] = columns["start_ts"] + 4096.0 * (columns["step"] + 1)

    analysis, usual = analyse(read(write(running))), analyse(read(write()))
    assert analysis.traced_step_seconds == pytest.approx(usual.traced_step_seconds)
    assert analysis.replay_error == pytest.approx(0.0, abs=1e-9)


def test_a_send_that_ends_before_its_receive_is_no_clock(write: Write) -> None:
    """A small message is sent once it is buffered: nothing is said of clocks, and the transfer took no time."""

    def buffered(columns: Columns) -> None:
        columns["duration"] = np.where(columns["optype"] == "forward-send", 0.0, columns["duration"])

    replayed = read(write(buffered))
    assert not replayed.durations.early.any()
    sends = [i for i, operation in enumerate(replayed.trace.operations) if operation.optype == "forward-send"]
    assert (replayed.durations.traced[sends] == 0.0).all()


@pytest.mark.parametrize("metadata", ["dp_size: 3\npp_size: 2", "dp_size: 1\npp_size: 2", "dp_size: 2\npp_size: 3"])
def test_metadata_that_contradict_the_rows(write: Write, metadata: str) -> None:
    """More ranks or stages than the rows have, or fewer: an error that names both."""
    trace, meta = write()
    meta.write_text(metadata)
    with pytest.raises(TraceFormatError, match=r"absent|dp_size is 1|does not occur"):
        read((trace, meta))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pp_size: 2", "dp_size is missing"),
        ("dp_size: 2", "pp_size is missing"),
        ("dp_size: two\npp_size: 2", "not a whole number"),
        ("dp_size: 0\npp_size: 2", "not a whole number"),
        ("dp_size: true\npp_size: 2", "not a whole number"),
        ("dp_size: 2.0\npp_size: 2", "not a whole number"),
        ("dp_size: 2\npp_size: 2\ntp_size: 4\nworld_size: 64", "world_size is 64"),
        ("- 1\n- 2", "not a mapping"),
    ],
)
def test_bad_metadata(text: str, message: str) -> None:
    """Sizes that are missing, no numbers, or contradict each other."""
    with pytest.raises(TraceFormatError, match=message) as caught:
        read_metadata(Source("meta.yaml", text))
    assert caught.value.where.startswith("meta.yaml")
    assert caught.value.fix


def test_metadata_of_virtual_stages_may_be_empty() -> None:
    """Sizes that a launcher leaves empty are 1, and unknown keys are nobody's business."""
    sizes = read_metadata(Source("meta.yaml", "trial_name: X\ndp_size: 4\npp_size: 2\nvpp_size: null\n"))
    assert (sizes.vpp, sizes.tp, sizes.world) == (1, 1, 8)


def test_ranks_that_share_a_sequence(write: Write) -> None:
    """``dsp_size``: ranks of a sequence count as data-parallel ranks where the rows number them through, else not."""
    trace, meta = write()
    plain = read((trace, meta))
    meta.write_text("dp_size: 1\ndsp_size: 2\npp_size: 2\ntp_size: 2\n")
    shared = read((trace, meta))
    assert shared.trace.dp_ranks == plain.trace.dp_ranks == (0, 1)
    assert shared.trace.sizes.world == 8
    # The rows have one of the two ranks of each sequence: nothing is absent.
    meta.write_text("dp_size: 2\ndsp_size: 2\npp_size: 2\ntp_size: 2\n")
    assert read((trace, meta)).trace.dp_ranks == (0, 1)
    # Of three sequence ranks the rows have two.
    meta.write_text("dp_size: 1\ndsp_size: 3\npp_size: 2\n")
    with pytest.raises(TraceFormatError, match=saying("data-parallel rank 2 is absent", "3")):
        read((trace, meta))


def test_rows_beyond_the_ranks_that_share_a_sequence(write: Write) -> None:
    """Rank 1 of dp 1: without ``dsp_size`` the metadata are of another job."""
    trace, meta = write()
    meta.write_text("dp_size: 1\ndsp_size: 1\npp_size: 2\n")
    with pytest.raises(TraceFormatError, match=saying("dp_rank is 1", "dp_size is 1")):
        read((trace, meta))


def test_the_world_with_and_without_sequence_ranks() -> None:
    """``world_size`` may count sequence ranks among those of dp; the layout of global ranks follows it."""
    text = "dp_size: 4\npp_size: 2\ntp_size: 2\ndsp_size: 2\nworld_size: {}\n"
    apart, inside = (read_metadata(Source("m", text.format(world))) for world in (32, 16))
    assert (apart.dsp, apart.world, inside.dsp, inside.world) == (2, 32, 2, 16)
    assert read_metadata(Source("m", text.format("").replace("world_size: ", ""))).world == 32
    # One rank in four stands for a worker, with sequence ranks of their own; one in two without.
    assert layout_of(apart).representatives() == list(range(0, 32, 4))
    assert layout_of(inside).representatives() == list(range(0, 16, 2))
    assert [layout_of(apart).worker(rank) for rank in (0, 3, 4, 16)] == [(0, 0), (0, 0), (1, 0), (0, 1)]
    assert layout_of(apart).family([0, 1]) == "tp"
    assert layout_of(apart).family([0, 2]) == "cp"
    # A grid is its five sizes and nothing else: dp 4, dsp 2 or among those of dp, pp 2, tp 2, one chunk a stage.
    assert (layout_of(apart), layout_of(inside)) == (RankLayout(4, 2, 2, 2, 1), RankLayout(4, 1, 2, 2, 1))
    with pytest.raises(TraceFormatError, match="x dsp 2 makes 32"):
        read_metadata(Source("m", text.format(64)))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not parquet at all", pickle.dumps({"a": 1})])
def test_files_that_are_no_parquet(tmp_path: Path, content: bytes) -> None:
    """Empty, text, a pickle (which is never loaded): not Parquet, said without a traceback."""
    file = tmp_path / "trace.parquet"
    file.write_bytes(content)
    with pytest.raises(TraceFormatError, match=r"empty|not a whole Parquet file") as caught:
        read_trace(file)
    assert not content or says(caught.value.fix, "`arnold health op-trace FILES --save DIR`")


def test_no_rows(write: Write) -> None:
    """A table without rows."""
    trace, _ = write(lambda columns: without(columns, slice(None)))
    with pytest.raises(TraceFormatError, match="has no rows"):
        read_trace(trace)


def test_no_file(tmp_path: Path) -> None:
    """A path that does not exist, and a folder."""
    for path in (tmp_path / "nothing.parquet", tmp_path):
        with pytest.raises(InvalidInput):
            read_trace(path)


def test_absurd_numbers(write: Write) -> None:
    """A sequence number in the billions would need a table of that size: refused, not tried."""
    with pytest.raises((TooLarge, TraceFormatError)):
        read(write(set_value("seq_id", 2_000_000_000, optype=FORWARDS)))


def test_too_many_rows(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file can claim any number of rows: it is refused before they are read."""
    monkeypatch.setattr("health.whatif.trace.MAX_ROWS", 10)
    with pytest.raises(TooLarge, match="at most 10"):
        read(write())


def read_or_refuse(files: tuple[Path, Path], *, lenient: bool) -> Replayed | ArnoldError:
    """What reading and analysing ends in, if not in a crash."""
    try:
        replayed = read(files, lenient=lenient)
        analyse(replayed)
    except ArnoldError as error:
        return error
    return replayed


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_bytes_never_crash(write: Write, data: st.DataObject) -> None:
    """Cut anywhere, or with bytes changed, a file is read or refused by an error of ours; never a traceback."""
    trace, meta = write()
    content = bytearray(trace.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        for _ in range(data.draw(st.integers(1, 8))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    trace.write_bytes(bytes(content))
    for lenient in (False, True):
        outcome = read_or_refuse((trace, meta), lenient=lenient)
        assert isinstance(outcome, Replayed) or outcome.fix


CELLS = {
    "dp_rank": st.integers(-3, 5),
    "stage": st.integers(-3, 5),
    "step": st.integers(-(2**40), 2**40),
    "seq_id": st.integers(-3, 40),
    "mc": st.integers(-3, 3),
    "mb_id": st.integers(-3, 9),
    "start_ts": st.floats(allow_nan=True, width=32),
    "duration": st.floats(allow_nan=True, width=32),
    "optype": st.sampled_from(["forward-compute", "gc", "optimizer", "params-all-gather", "", "Forward-Compute"]),
}


@examples(80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_cells_never_crash_nor_accuse(write: Write, data: st.DataObject) -> None:
    """Whatever a few cells say, reading ends in an analysis or in an error of ours, and a healthy job flags nobody."""

    def spoil(columns: Columns) -> None:
        for _ in range(data.draw(st.integers(1, 5))):
            column = data.draw(st.sampled_from(sorted(CELLS)))
            row = data.draw(st.integers(0, len(columns["step"]) - 1))
            columns[column][row] = data.draw(CELLS[column])

    files = write(spoil)
    for lenient in (False, True):
        outcome = read_or_refuse(files, lenient=lenient)
        if isinstance(outcome, Replayed) and outcome.trace.duration.max() < 1.0:
            nodes = {(rank, stage): "n" for rank in range(2) for stage in range(2)}
            analysis = analyse(outcome)
            assert flags_of(slow_workers(outcome, analysis, nodes), analysis) == []
