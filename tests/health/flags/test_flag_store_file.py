"""A store on disk: crashes, torn lines, two writers, files that are none."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from health.flags import FlagStore, Ledger, Recorded
from health.flags import store as module
from topology.errors import InvalidInput, TooLarge
from topology.flags import FAULTY, NodeFlag

T0 = datetime(2026, 11, 17, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)

SLOW = NodeFlag("n1", "straggler", 1.5, source="what-if", evidence="Prüfung \u2028 mit \n Zeilen")
BROKEN = NodeFlag("n2", "faulty", FAULTY, source="nvsentinel")


def record(path: Path, *flags: NodeFlag, now: datetime = T0) -> tuple[Recorded, int]:
    """Take findings in."""

    def change(ledger: Ledger) -> Recorded:
        return ledger.record(flags, now=now)

    return FlagStore(path).change(change, now=now)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a few lines."""
    path = tmp_path / "flags.jsonl"
    record(path, SLOW)
    record(path, BROKEN, now=T0 + HOUR)
    return path


def test_a_store_is_a_text_file_of_lines(path: Path) -> None:
    """One line an event, whatever the evidence holds; appending leaves what is there alone."""
    before = path.read_bytes()
    assert before.count(b"\n") == 3
    record(path, SLOW, now=T0 + 2 * HOUR)
    after = path.read_bytes()
    assert after.startswith(before)
    (flag, _) = FlagStore(path).read().holding(T0 + 2 * HOUR)
    assert flag.evidence == SLOW.evidence


def test_a_crash_at_any_byte_loses_at_most_what_was_not_promised(path: Path, tmp_path: Path) -> None:
    """Cut off anywhere: whole lines count, the rest is told, and the next writer goes on as if it had not been."""
    whole = path.read_bytes()
    ends = [i for i, byte in enumerate(whole) if byte == ord("\n")]
    for length in (*range(ends[0] + 3), ends[1] - 1, ends[1], ends[1] + 1, ends[2] - 1, ends[2]):
        cut = tmp_path / f"cut-{length}.jsonl"
        cut.write_bytes(whole[:length])
        complete = [end for end in ends if end <= length]
        if complete:
            log = FlagStore(cut).read()
            assert len(log.lines) == len(complete)
            assert log.torn == max(0, length - complete[-1] - 1)
        record(cut, SLOW, BROKEN, now=T0 + 2 * HOUR)
        again = FlagStore(cut).read()
        assert again.torn == 0
        assert {flag.node for flag in again.holding(T0 + 2 * HOUR)} == {"n1", "n2"}


def test_the_writer_says_what_it_took_away(path: Path) -> None:
    """Bytes of the unfinished line; a last line that lacks nothing but its end is kept."""
    with path.open("a", encoding="utf-8") as file:
        file.write('{"time":"2026-11')
    assert FlagStore(path).read().torn == 16
    assert record(path, SLOW, now=T0 + 2 * HOUR)[1] == 16
    lines = path.read_bytes().splitlines()
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert record(path, SLOW, now=T0 + 3 * HOUR)[1] == 0
    assert path.read_bytes().splitlines()[:-1] == lines


def test_a_change_that_fails_writes_nothing(path: Path) -> None:
    """Whatever the ledger had decided before."""
    before = path.read_bytes()

    def change(ledger: Ledger) -> None:
        ledger.record([SLOW], now=T0 + 2 * HOUR)
        raise InvalidInput("no")

    with pytest.raises(InvalidInput, match="no"):
        FlagStore(path).change(change, now=T0 + 2 * HOUR)
    assert path.read_bytes() == before


def test_one_writer_at_a_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes second waits, and in the end says why nothing happened; readers do not wait."""
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.0)
    with path.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(InvalidInput, match="another process has been writing") as caught:
            record(path, SLOW, now=T0 + 2 * HOUR)
        assert caught.value.where == str(path)
        assert len(FlagStore(path).read().lines) == 3
    record(path, SLOW, now=T0 + 2 * HOUR)


WRITER = """
import sys
from datetime import UTC, datetime
from health.flags import FlagStore
from topology.flags import NodeFlag
path, name = sys.argv[1:]
for i in range(10):
    now = datetime.now(UTC)
    flags = [NodeFlag(f"{name}{i}", "straggler", 1.5, source=name)]
    FlagStore(path).change(lambda ledger: ledger.record(flags, now=now), now=now)
"""


def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    """Twenty findings from two writers at once: all are there, each line whole, times in order."""
    path = tmp_path / "flags.jsonl"
    root = Path(__file__).parents[4]
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], cwd=root) for name in ("a", "b")]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    raised = [line.node for line in FlagStore(path).read().lines if line.event == "raised"]
    assert sorted(raised) == sorted(f"{name}{i}" for name in "ab" for i in range(10))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("- {node: n1, kind: faulty}\n", "is no flag store"),
        ("n1\n", "is no flag store"),
        ('{"arnold":"flag-store","version":2,"time":"2026-11-17T08:00:00Z","event":"opened"}\n', "version 2"),
        ('{"arnold":"flag-store","time":"2026-11-17T08:00:00Z","event":"opened"}\n', "says its version"),
        ('{"arnold":"flag-store","version":1,"time":"2026-11-17T08:00:00Z","event":"cleared"}\n', "names a node"),
    ],
)
def test_other_files_are_left_alone(tmp_path: Path, text: str, complaint: str) -> None:
    """Neither read as a store nor written to."""
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=complaint) as caught:
        record(path, SLOW)
    assert caught.value.where == f"{path}:1"
    assert path.read_text() == text


def test_places_that_cannot_be_written_to(tmp_path: Path) -> None:
    """A folder that is not there, a folder instead of a file, a name that no file can have."""
    for path in (tmp_path / "missing" / "flags", tmp_path, tmp_path / ("x" * 300)):
        with pytest.raises(InvalidInput, match="cannot be written"):
            record(path, SLOW)


def test_a_store_that_must_be_there(tmp_path: Path) -> None:
    """Lifting flags makes no file."""
    path = tmp_path / "flags.jsonl"
    with pytest.raises(InvalidInput, match="no such file"):
        FlagStore(path).change(lambda ledger: None, now=T0, create=False)
    assert not path.exists()


def test_rules_in_the_store_that_are_none(path: Path) -> None:
    """Somebody edited the file."""
    with path.open("a", encoding="utf-8") as file:
        file.write('{"time":"2026-11-17T10:00:00Z","event":"rules","rules":{"default":3}}\n')
    with pytest.raises(InvalidInput, match="rules in the store cannot be read"):
        record(path, SLOW, now=T0 + 3 * HOUR)


def test_a_store_that_has_grown_too_large(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither read nor written to, and what to do is said."""
    monkeypatch.setattr(module, "MAX_STORE_BYTES", 100)
    with pytest.raises(TooLarge, match="is larger than"):
        FlagStore(path).read()
    with pytest.raises(TooLarge) as caught:
        record(path, SLOW, now=T0 + 2 * HOUR)
    assert "arnold flags compact" in caught.value.fix
