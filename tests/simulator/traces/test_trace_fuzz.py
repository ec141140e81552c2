"""Files that are damaged anywhere: jobs or an error of ours with a place, never another exception."""

from __future__ import annotations

import sys
from collections.abc import Callable
from io import BufferedReader, BytesIO
from types import SimpleNamespace

import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from ground.errors import InvalidInput
from simulator.traces import read_trace
from simulator.traces.trace_loading import TRACE_READERS
from tests.case_counts import examples
from tests.simulator.traces.trace_samples import SAMPLES, damaged


def parquet(text: str) -> bytes:
    """A table as Parquet."""
    file = BytesIO()
    pq.write_table(pc.read_csv(BytesIO(text.encode())), file)
    return file.getvalue()


FILES = {name: text.encode() for name, text in SAMPLES.items()} | {
    "acme-as-written": SAMPLES["acme"].encode(),  # read like another
    "llm-workload": b"workload: kalos\ndays: 1\nseed: 1\nper_day: 9\nkinds: [other]\n",  # made from a seed
    "parquet": parquet(SAMPLES["csv"]),
}
"""Format -> a file of it."""


def test_every_format_has_a_sample() -> None:
    """So that a new format cannot be forgotten below."""
    assert set(TRACE_READERS.names()) == set(FILES)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("lenient", [False, True])
def test_damage_is_told(name: str, *, lenient: bool) -> None:
    """Where its format is said, so that the reader itself meets the damage; and recognised, where it still is."""

    @examples(60)
    @given(damaged(FILES[name]))
    def check(data: bytes) -> None:
        for format in (name, None):
            outcome = attempt(data, format, lenient=lenient)
            assert outcome is None or (outcome.where and outcome.message), outcome

    check()


def attempt(data: bytes, format: str | None, *, lenient: bool) -> InvalidInput | None:
    """The error of ours that reading ends with; None = there are jobs."""
    stdin, sys.stdin = sys.stdin, SimpleNamespace(buffer=BufferedReader(BytesIO(data)))  # type: ignore[assignment]
    try:
        assert len(read_trace("-", format=format, lenient=lenient)) > 0
    except InvalidInput as error:
        return error
    finally:
        sys.stdin = stdin
    return None


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_recognised(name: str) -> None:
    """Every sample by its content, and no reader is as sure of it as its own."""
    text = SAMPLES[name].encode()
    likeness: Callable[[str], float] = lambda other: TRACE_READERS.load(other).likeness(text)  # noqa: E731
    assert likeness(name) == 1.0
    assert [other for other in TRACE_READERS.names() if likeness(other) == 1.0] == [name]
