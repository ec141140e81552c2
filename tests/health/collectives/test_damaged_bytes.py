"""Records of collectives with wrong bytes, or cut off: our own error or a diagnosis, never a traceback."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from ground.errors import ArnoldError
from ground.formats import nearest, recognise
from health.collectives.reading import COLLECTIVES_READERS, diagnose_files, read_trace
from tests.case_counts import examples
from tests.health.collectives.made_dumps import SHAPES, dumps
from tests.health.collectives.test_collective_readers import inspector, lines, progress, prom, ras

GOOD = {
    "progress": lines(progress()).text,
    "inspector": lines([inspector(rank, seq, start=seq, end=seq + 0.5) for seq in (1, 2) for rank in (0, 1)]).text,
    "prometheus": "".join(prom(f"n{i}", "GPU0", 0.3) for i in range(4)),
    "flight-recorder": dumps("order", SHAPES["events"])[2].text,
    "ras": ras([8, 8, 7, 8]).text,
}


def test_each_format_says_what_marks_it() -> None:
    """All marks of a format stand in a file of it, and the nearest format of a file is its own."""
    formats = COLLECTIVES_READERS.formats()
    assert {format.name for format in formats} == set(GOOD)
    for format in formats:
        assert nearest(formats, GOOD[format.name]) == (format, ())


@pytest.mark.parametrize("name", list(GOOD))
@given(data=st.data())
@examples(80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_wrong_bytes_are_an_error_or_a_diagnosis(tmp_path: Path, name: str, data: st.DataObject) -> None:
    """Strictly and leniently, by its content and as the format that it is said to be."""
    content = bytearray(GOOD[name].encode())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "rank_2"
    path.write_bytes(bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))]))
    for lenient in (False, True):
        for said in (None, name):
            with suppress(ArnoldError):
                assert diagnose_files([read_trace(str(path))], format=said, lenient=lenient)[0] in GOOD


@pytest.mark.parametrize("name", list(GOOD))
def test_the_sample_itself_is_read(tmp_path: Path, name: str) -> None:
    """What is damaged above is good before."""
    path = tmp_path / "rank_2"
    path.write_text(GOOD[name])
    assert recognise(COLLECTIVES_READERS, read_trace(str(path))).format.name == name
    assert diagnose_files([read_trace(str(path))])[0] == name
