"""A store on disk: killed writers, two at once, full disks, folders that may only be read, files that are none."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ground.errors import InvalidInput
from health.flags import Recorded, open_ledger
from tests.facts import saying
from topology.flag_sources import open_log
from topology.flags import FAULTY, FlagEvent, NodeFlag

ROOT = Path(__file__).parents[3]
T0 = datetime(2026, 11, 17, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)

SLOW = NodeFlag("n1", "straggler", 1.5, source="what-if", evidence="Prüfung \u2028 mit \n Zeilen")
BROKEN = NodeFlag("n2", "faulty", FAULTY, source="nvsentinel")


def record(path: Path, *flags: NodeFlag, now: datetime = T0) -> Recorded:
    """Take findings in."""
    with open_ledger(path, now=now) as ledger:
        return ledger.record(flags, now=now)


def events(path: Path) -> list[FlagEvent]:
    """All events of a store."""
    with open_log(path) as log:
        return [*log.events()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a few events."""
    path = tmp_path / "flags.db"
    record(path, SLOW)
    record(path, BROKEN, now=T0 + HOUR)
    return path


def test_a_store_is_one_file_that_keeps_every_word(path: Path) -> None:
    """An SQLite file in WAL mode, nothing beside it when nobody uses it; evidence comes back as it was."""
    assert path.read_bytes().startswith(b"SQLite format 3\0")
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with open_log(path) as log:
        (flag, _) = log.holding(T0 + 2 * HOUR)
    assert flag.evidence == SLOW.evidence
    assert [file.name for file in path.parent.iterdir()] == [path.name]


KILLED = """
import os, signal, sys
from datetime import UTC, datetime, timedelta
from health.flags import open_ledger
from topology.flags import NodeFlag
now = datetime(2026, 11, 17, 10, tzinfo=UTC)
with open_ledger(sys.argv[1], now=now) as ledger:
    ledger.record([NodeFlag(f"n{i}", "straggler", 1.5) for i in range(5000)], now=now)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_writer_that_is_killed_leaves_what_was_there(path: Path) -> None:
    """In the middle of five thousand findings: none of them is there, and the next writer goes on."""
    before = events(path)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=ROOT, check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert events(path) == before
    record(path, SLOW, now=T0 + 3 * HOUR)
    assert [event.event for event in events(path)] == [*(event.event for event in before), "renewed"]


def test_a_change_that_fails_writes_nothing(path: Path) -> None:
    """Whatever had been decided before."""
    before = events(path)

    def fail() -> None:
        with open_ledger(path, now=T0 + 2 * HOUR) as ledger:
            ledger.record([SLOW], now=T0 + 2 * HOUR)
            raise InvalidInput("no")

    with pytest.raises(InvalidInput, match="no"):
        fail()
    assert events(path) == before


def test_one_writer_at_a_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one waits, and in the end says why nothing happened."""
    monkeypatch.setattr("topology.flag_sources.PATIENCE_SECONDS", 0.0)
    with open_ledger(path, now=T0 + 2 * HOUR) as ledger:
        ledger.record([SLOW], now=T0 + 2 * HOUR)
        with pytest.raises(InvalidInput, match="another process has been writing") as caught:
            record(path, SLOW, now=T0 + 2 * HOUR)
        assert caught.value.where == str(path)
    record(path, SLOW, now=T0 + 3 * HOUR)


def test_readers_neither_wait_nor_see_half_of_a_change(path: Path) -> None:
    """While a writer is at work they see what was before; a reader that began then sees it to the end."""
    with open_log(path) as early:
        with open_ledger(path, now=T0 + 2 * HOUR) as ledger:
            ledger.record([SLOW, BROKEN], now=T0 + 2 * HOUR)
            assert len(events(path)) == 3
        assert len([*early.events()]) == 3
    assert len(events(path)) == 5


WRITER = """
import sys
from datetime import UTC, datetime
from health.flags import open_ledger
from topology.flags import NodeFlag
path, name = sys.argv[1:]
for i in range(10):
    now = datetime.now(UTC)
    with open_ledger(path, now=now) as ledger:
        ledger.record([NodeFlag(f"{name}{i}", "straggler", 1.5, source=name)], now=now)
"""


def test_processes_that_make_a_store_together_lose_nothing(tmp_path: Path) -> None:
    """Thirty findings from three writers at once, none of which finds the file there: all are in, times in order."""
    path = tmp_path / "flags.db"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], cwd=ROOT) for name in "abc"]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    written = events(path)
    assert [event.event for event in written] == ["opened"] + 30 * ["raised"]
    assert {event.node for event in written[1:]} == {f"{name}{i}" for name in "abc" for i in range(10)}
    assert [event.time for event in written] == sorted(event.time for event in written)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"- {node: n1, kind: faulty}\n", "is no flag store"),
        (b"n1\n", "is no flag store"),
        (b"SQLite format 3\0 and then something else", "not a database"),
        (b'{"arnold":"flag-store","version":1,"time":"2026-11-17T08:00:00Z","event":"opened"}\n', "JSON lines"),
    ],
    ids=["flag file", "node list", "damaged", "store of an earlier version"],
)
def test_other_files_are_left_alone(tmp_path: Path, content: bytes, complaint: str) -> None:
    """Neither read as a store nor written to, and what to do is said."""
    path = tmp_path / "file"
    path.write_bytes(content)
    uses: list[Callable[[], object]] = [lambda: record(path, SLOW), lambda: events(path)]
    for use in uses:
        with pytest.raises(InvalidInput, match=complaint) as caught:
            use()
        assert caught.value.where == str(path)
        assert caught.value.fix
    assert path.read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_databases_of_others_are_left_alone(tmp_path: Path, path: Path) -> None:
    """Of another program, and of a later version of this one."""
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE notes (text)")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 3")
    for file, complaint in ((other, "is no flag store"), (path, "version 3 of the format, and 2 is known")):
        with pytest.raises(InvalidInput, match=complaint):
            record(file, SLOW)
        with pytest.raises(InvalidInput, match=complaint):
            events(file)


def test_a_store_that_is_damaged(path: Path) -> None:
    """Pages overwritten, and an event that is none: an error that says so, and no answer with holes."""
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with pytest.raises(InvalidInput, match="malformed") as caught:
        record(path, SLOW, now=T0 + 2 * HOUR)
    assert "copy" in caught.value.fix
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE events SET json = '{}' WHERE number = 2")
        connection.commit()
    with pytest.raises(InvalidInput, match=saying("an event")):
        events(path)


def test_places_that_cannot_be_written_to(tmp_path: Path) -> None:
    """A folder that is not there, a folder instead of a file, a name that no file can have."""
    for path in (tmp_path / "missing" / "flags", tmp_path, tmp_path / ("x" * 300), tmp_path / "x\0y"):
        with pytest.raises(InvalidInput, match=r"cannot be written|no flag store"):
            record(path, SLOW)


def test_a_store_that_must_be_there(tmp_path: Path) -> None:
    """Lifting flags makes no file, and reading makes none."""
    path = tmp_path / "flags.db"
    with pytest.raises(InvalidInput, match="no such file"), open_ledger(path, now=T0, create=False):
        pass
    with pytest.raises(InvalidInput, match="no such file"):
        events(path)
    assert not path.exists()


def test_rules_in_the_store_that_are_none(path: Path) -> None:
    """A person edited the file."""
    with open_ledger(path, now=T0) as ledger:
        ledger.write([FlagEvent(time=T0 + 2 * HOUR, event="rules", rules={"default": 3})])
    with pytest.raises(InvalidInput, match=saying("rules in the store")):
        record(path, SLOW, now=T0 + 3 * HOUR)


DISK_FULL = """
import resource, sys
from datetime import UTC, datetime
from health.flags import open_ledger
from ground.errors import InvalidInput
from topology.flags import NodeFlag
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
now = datetime(2026, 11, 17, 10, tzinfo=UTC)
try:
    with open_ledger(sys.argv[1], now=now) as ledger:
        ledger.record([NodeFlag(f"n{i}", "straggler", 1.5) for i in range(5000)], now=now)
except InvalidInput as error:
    sys.exit(f"{error.message}; {error.fix}")
"""


def test_a_disk_that_is_full(path: Path) -> None:
    """No file of more than 200 kB: the change is refused with what to do, and what was there stays whole."""
    before = events(path)
    tried = subprocess.run(
        [sys.executable, "-c", DISK_FULL, str(path)], cwd=ROOT, check=False, timeout=60, capture_output=True, text=True
    )
    assert tried.returncode == 1
    assert "cannot be written" in tried.stderr
    assert "make room on the disk" in tried.stderr
    assert events(path) == before
    record(path, SLOW, now=T0 + 3 * HOUR)


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user may look into, which the folders of tests are not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def as_another_user(action: Callable[[], object]) -> int:
    """Do something as a user without rights; its exit code, 1 where it raised."""
    if (child := os.fork()) == 0:
        try:
            if os.getuid() == 0:
                os.setuid(65534)  # nobody, by convention
            action()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_folder_that_may_only_be_read(public_folder: Path) -> None:
    """A store mounted read-only is read, also while its writer has it open, and nothing is left beside it."""
    path = public_folder / "flags.db"
    record(path, SLOW)
    path.chmod(0o444)
    public_folder.chmod(0o555)

    def read() -> None:
        assert [event.event for event in events(path)] == ["opened", "raised"]

    def write() -> None:
        with pytest.raises(InvalidInput, match=saying("cannot be written", "readonly")):
            record(path, SLOW, now=T0 + HOUR)

    assert as_another_user(read) == 0
    assert as_another_user(write) == 0
    assert [file.name for file in public_folder.iterdir()] == ["flags.db"]
    public_folder.chmod(0o755)
    path.chmod(0o644)
    with open_ledger(path, now=T0) as ledger:
        ledger.record([BROKEN], now=T0 + HOUR)
        assert as_another_user(read) == 0
    assert [file.name for file in public_folder.iterdir()] == ["flags.db"]


def test_no_network_is_needed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No socket is opened, for writing or reading."""
    monkeypatch.setattr("socket.socket", None)
    record(path, SLOW, now=T0 + 2 * HOUR)
    assert len(events(path)) == 4
