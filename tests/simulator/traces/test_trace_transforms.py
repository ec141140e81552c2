"""Load, window, size and merging: pure functions over traces."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput, TraceFormatError
from simulator.job_record import JobRecord
from simulator.traces import JobTrace, max_gpus, merge, scale_load, window
from simulator.traces.job_trace import parse_window
from tests.case_counts import examples
from tests.facts import saying

TRACE = JobTrace(
    (
        JobRecord("a", 1000.0, 10.0, 1.0),
        JobRecord("b", 1060.0, 20.0, 8.0, announced=1030.0),
        JobRecord("c", 1300.0, 30.0, 64.0),
    ),
    {"no GPUs": 2},
    "jobs.csv",
    "csv",
)


def names(trace: JobTrace) -> list[str]:
    """Ids in order."""
    return [record.job_id for record in trace.records]


def test_twice_the_load_is_half_the_time_between_arrivals() -> None:
    """The first job stays; run times stay; a job is announced as long before its submission as before."""
    dense = scale_load(TRACE, 2.0)
    assert [record.submit for record in dense.records] == [1000.0, 1030.0, 1150.0]
    assert [record.duration for record in dense.records] == [10.0, 20.0, 30.0]
    # 30 s before 1060, and so 30 s before 1030.
    assert dense.records[1].announced == 1000.0
    assert dense.dropped == {"no GPUs": 2}


@examples(50)
@given(factor=st.floats(0.01, 100), submits=st.lists(st.floats(0, 1e9), min_size=1, max_size=20))
def test_scaling_keeps_order_and_undoes_itself(factor: float, submits: list[float]) -> None:
    """Jobs stay in order, and the inverse factor gives the first trace again."""
    records = tuple(JobRecord(str(i), submit, 1.0, 1.0) for i, submit in enumerate(sorted(submits)))
    scaled = scale_load(JobTrace(records), factor)
    times = [record.submit for record in scaled.records]
    assert times == sorted(times)
    back = scale_load(scaled, 1 / factor)
    assert [record.submit for record in back.records] == pytest.approx([r.submit for r in records], rel=1e-6, abs=1e-3)


@pytest.mark.parametrize("factor", [0.0, -1.0, math.nan, math.inf])
def test_a_load_that_cannot_be(factor: float) -> None:
    """Only factors above 0 scale."""
    with pytest.raises(InvalidInput, match="the load is scaled by"):
        scale_load(TRACE, factor)


def test_window_is_half_open_and_counts() -> None:
    """A job at the beginning is in, one at the end is out; those outside are counted beside what was dropped before."""
    part = window(TRACE, 1000.0, 1300.0)
    assert names(part) == ["a", "b"]
    assert part.dropped == {"no GPUs": 2, "outside the window": 1}
    assert window(TRACE, -math.inf, math.inf).records == TRACE.records


def test_windows_that_cannot_be() -> None:
    """One that ends before it begins, and one in which nothing arrives: the error says when something does."""
    with pytest.raises(InvalidInput, match=saying("5")):
        window(TRACE, 5.0, 5.0)
    with pytest.raises(TraceFormatError, match=saying("2000")) as error:
        window(TRACE, 2000.0, 3000.0)
    assert "1000 to 1300" in error.value.fix


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1000..1300", (1000.0, 1300.0)),
        ("1000:1300", (1000.0, 1300.0)),
        ("0.5:", (0.5, math.inf)),
        (":+1d", (-math.inf, 87_400.0)),
        ("+1m..+5m", (1060.0, 1300.0)),
        ("+1.5h..", (6400.0, math.inf)),
        ("..1970-01-01T00:20", (-math.inf, 1200.0)),
        ("1970-01-02 00:00:00+00:00..", (86_400.0, math.inf)),
        (":1970-01-02", (-math.inf, 86_400.0)),
    ],
)
def test_windows_as_people_write_them(text: str, expected: tuple[float, float]) -> None:
    """Numbers and dates on the clock of the trace, or + after its first job."""
    assert parse_window(text, TRACE) == expected


@pytest.mark.parametrize("text", ["", "5", "soon..later", "b:a", "1:2:3", "+2y..", "1.2.3..4", "+...."])
def test_windows_nobody_understands(text: str) -> None:
    """The error shows how they are written."""
    with pytest.raises(InvalidInput) as error:
        parse_window(text, TRACE)
    assert "START..END" in error.value.fix


def test_max_gpus_keeps_the_small() -> None:
    """Jobs of exactly so many GPUs stay."""
    small = max_gpus(TRACE, 8)
    assert names(small) == ["a", "b"]
    assert small.dropped == {"no GPUs": 2, "more GPUs than --max-gpus": 1}
    with pytest.raises(TraceFormatError, match=saying("0.5 GPUs")) as error:
        max_gpus(TRACE, 0.5)
    assert error.value.fix == "the smallest has 1"
    with pytest.raises(InvalidInput, match="at most 0 GPUs"):
        max_gpus(TRACE, 0)


def test_merge_keeps_order_and_makes_ids_unique() -> None:
    """An id of both traces carries the number of its trace, in both; others stay as they are."""
    other = JobTrace(
        (JobRecord("a", 900.0, 1.0, 1.0), JobRecord("d", 1060.0, 1.0, 1.0)), {"no GPUs": 1}, "more.csv", "philly"
    )
    both = merge([TRACE, other])
    assert names(both) == ["a@2", "a@1", "b", "d", "c"]
    assert both.dropped == {"no GPUs": 3}
    assert (both.source, both.format) == ("jobs.csv + more.csv", "csv + philly")


def test_merge_does_not_make_a_name_that_is_taken() -> None:
    """A job may be called a@1 already."""
    first = JobTrace((JobRecord("a", 0.0, 1.0, 1.0), JobRecord("a@1", 0.0, 1.0, 1.0)))
    merged = names(merge([first, JobTrace((JobRecord("a", 0.0, 1.0, 1.0),))]))
    assert len(set(merged)) == 3


def test_merge_wants_traces() -> None:
    """Of none there is none to return."""
    with pytest.raises(InvalidInput, match="no traces"):
        merge([])
