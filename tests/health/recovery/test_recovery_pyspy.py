"""Dumps of py-spy, in both formats, whole and broken."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from ground.files import Source
from health.recovery.stacks import Process, StackFrame, StackView, Thread, parse_dump, read_dumps
from tests.case_counts import examples
from tests.health.recovery.recovery_world import SEND, SYNC, as_json, as_text, dump_text, write_dumps

LOCALS = """\
Process 7624: python prog.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 7624 (idle): "MainThread"
    all_reduce (prog.py:3)
        Arguments:
            x: 1
        Locals:
            group: <ProcessGroup at 0x7f4472b0d250>
    main (prog.py:8)
"""

NATIVE = """\
Process 7624: python prog.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 7624 (idle): "MainThread"
    0x{address} (libc.so.6)
    std::unique_lock<std::mutex>::lock(int, bool) (libtorch_cuda.so)
    all_reduce (prog.py:{line})
    <module> (<frozen runpy>:88)
"""

TREE = """\
Process 12180: python -c import os
print("over two lines")
Python v3.11.7 (/usr/bin/python3.11)

Thread 12180 (idle): "MainThread"
    main (prog2.py:9)
Thread 12184 (idle)

--------------------------------------------------------------------------------
Process 12182: python prog2.py
Python v3.11.7 (/usr/bin/python3.11)
Parent Process 12180: python prog2.py

[2026-01-02T03:04:05Z WARN  py_spy::python_spy] something
Thread 0x7F4472B0D250 (active+gil): "we "quote""
    child (prog2.py:4)
"""


def text(content: str) -> Source:
    """A file."""
    return Source("dump.txt", content)


WORDS = st.text("abcXYZ_.<>0 ", min_size=1, max_size=12).map(str.strip).filter(bool)
FRAMES = st.builds(StackFrame, WORDS, WORDS.filter(lambda file: " (" not in file), st.integers(0, 9999))
THREADS = st.builds(
    Thread, st.integers(1, 10**6).map(str), WORDS | st.just(""), st.lists(FRAMES, max_size=4).map(tuple)
)
PROCESSES = st.builds(Process, st.integers(1, 10**6), st.lists(THREADS, min_size=1, max_size=4).map(tuple))


@examples(60)
@given(PROCESSES)
def test_both_formats_say_the_same(process: Process) -> None:
    """Text and JSON of one process give that process back, threads in the same order."""
    assert parse_dump(text(as_text(process))) == (process,)
    assert parse_dump(text(as_json(process))) == (process,)


def test_locals_are_passed_over() -> None:
    """Arguments and locals are indented deeper than calls, and are none."""
    (process,) = parse_dump(text(LOCALS))
    assert [frame.function for frame in process.main.frames] == ["all_reduce", "main"]


def test_native_calls_lose_their_addresses_and_lines_unless_asked() -> None:
    """Two ranks in the same place differ in addresses and lines; the view decides what of that counts."""
    one = parse_dump(text(NATIVE.format(address="7f4472ea3f16", line=3)))
    other = parse_dump(text(NATIVE.format(address="7c0000000000", line=4)))
    assert StackView().signature(one) == StackView().signature(other)
    assert StackView(lines=True).signature(one) != StackView(lines=True).signature(other)
    assert StackView(addresses=True).signature(one) != StackView(addresses=True).signature(other)
    frames = one[0].main.frames
    assert frames[1] == StackFrame("std::unique_lock<std::mutex>::lock(int, bool)", "libtorch_cuda.so", 0)
    assert frames[3] == StackFrame("<module>", "<frozen runpy>", 88)


def test_subprocesses_have_a_head_of_their_own() -> None:
    """Two processes; a command line over two lines, a thread without calls, a log line, a name with quotes."""
    parent, child = parse_dump(text(TREE))
    assert (parent.pid, child.pid) == (12180, 12182)
    assert [len(thread.frames) for thread in parent.threads] == [1, 0]
    assert child.threads[0].name == 'we "quote"'


def test_styled_output_is_read() -> None:
    """Colours of a terminal that found their way into the file are taken out."""
    styled = dump_text(SYNC).replace("MainThread", "\x1b[32mMainThread\x1b[0m")
    assert parse_dump(text(styled)) == parse_dump(text(dump_text(SYNC)))


@pytest.mark.parametrize(
    ("name", "number", "expected"), [("MainThread", "9", 0), ("other", "77", 0), ("other", "9", 1)]
)
def test_the_main_thread(name: str, number: str, expected: int) -> None:
    """By its name, else by the number of the process, else the oldest, which stands first."""
    named, oldest = Thread(number, name, ()), Thread("5", "oldest", ())
    process = Process(77, (oldest, named) if expected == 0 else (named, oldest))
    assert process.main is (named if expected == 0 else process.threads[0])


def test_helper_threads_count_when_asked() -> None:
    """By default only main threads are compared; a helper thread elsewhere makes a difference under `all`."""
    one, other = parse_dump(text(dump_text(SYNC, pid=1))), parse_dump(text(dump_text(SYNC, pid=2)))
    assert StackView(lines=True).signature(one) == StackView(lines=True).signature(other)
    # The helper stands on line 1 and 2 of the same call.
    assert StackView(lines=True, threads="all").signature(one) != StackView(lines=True, threads="all").signature(other)


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("hello\n", 1, "no stack dump"),
        ("Process 1: x\nPython v3.12\n\n    main (a.py:1)\n", 4, "neither a thread nor a call"),
        ('Process 1: x\nPython v3.12\n\nThread 1 (idle): "MainThread"\n    main (a.p', 5, "neither"),
        ("Process 1: x\nPython v3.12\n\nThread 1 (asleep)\n", 4, "neither"),
        ("Process 1: x\nPython v3.12\n", None, "cut off"),
        ("Process 1: x\n", None, "cut off"),
        ("Error: Failed to get process executable name.\n", 1, "py-spy failed"),
        ("[]", None, "no thread"),
        ('[{"pid": 1, "thread_id": 2}]', 1, "frames"),
        ('[{"pid": 1, "thread_id": 2, "frames": [{"name": 3, "filename": "a"}]}]', 1, "name"),
        ('[{"pid": 1, "thread_id": 2, "frames": [{"name": "f", "filename": "a", "line": NaN}]}]', 1, "line"),
        ('[{"pid": 1, "thread_id": 2, "fra', None, "truncated"),
    ],
)
def test_broken_dumps(content: str, line: int | None, words: str) -> None:
    """What is no dump, is cut off, or says that py-spy failed: with the line and a remedy."""
    with pytest.raises(InvalidInput) as caught:
        parse_dump(text(content))
    assert caught.value.where.startswith("dump.txt")
    assert line is None or caught.value.where == f"dump.txt:{line}"
    assert words in caught.value.message
    assert caught.value.fix


@examples(60)
@given(st.text(max_size=200) | st.text('[]{}":,0 \nProcessThread(idle)', max_size=200))
def test_any_text_is_a_dump_or_an_error(content: str) -> None:
    """Nothing but InvalidInput is ever raised."""
    with suppress(InvalidInput):
        assert parse_dump(text(content))


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank-3.txt", 3),
        ("rank_0007.json", 7),
        ("job12.local_rank0.rank12.txt", 12),
        ("n0017-localrank1-rank9", 9),
        ("5.dump", 5),
    ],
)
def test_rank_in_the_name(tmp_path: Path, name: str, rank: int) -> None:
    """The number after the word rank, which is not the local one, else the only number."""
    (tmp_path / name).write_text(dump_text(SYNC))
    assert list(read_dumps([str(tmp_path)], ranks=16).by_rank) == [rank]


@pytest.mark.parametrize(
    ("name", "words"),
    [("dump.txt", "no number"), ("n17-3.txt", "more than one"), ("rank-16.txt", "not one of the job's 16 ranks")],
)
def test_names_without_a_rank(tmp_path: Path, name: str, words: str) -> None:
    """A name that says no rank of the job is refused, as the stack would be counted for another machine."""
    (tmp_path / name).write_text(dump_text(SYNC))
    with pytest.raises(InvalidInput, match=words) as caught:
        read_dumps([str(tmp_path)], ranks=16)
    assert name in caught.value.where


def test_processes_of_a_rank_are_put_together(tmp_path: Path) -> None:
    """A rank with two files has the processes of both, in folders of any depth; hidden files are passed over."""
    write_dumps(tmp_path / "a", {0: SYNC})
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "rank-0-loader.txt").write_text(dump_text(SEND, pid=99))
    (tmp_path / ".rank-1.swp").write_text("rubbish")
    dumps = read_dumps([str(tmp_path)], ranks=2)
    assert {rank: [p.pid for p in processes] for rank, processes in dumps.by_rank.items()} == {0: [4242, 99]}


def test_a_process_twice_is_refused(tmp_path: Path) -> None:
    """Two looks thrown together would count one rank in two places."""
    write_dumps(tmp_path / "first", {0: SYNC})
    write_dumps(tmp_path / "second", {0: SEND})
    with pytest.raises(InvalidInput, match="two dumps of process 4242"):
        read_dumps([str(tmp_path)], ranks=2)


def test_lenient_counts_what_it_leaves_out(tmp_path: Path) -> None:
    """A binary file (a pickle, say) and an empty one are left out by name; the rest is read; none left is an error."""
    write_dumps(tmp_path, {0: SYNC, 1: SYNC})
    (tmp_path / "rank-2.pkl").write_bytes(b"\x80\x04\x95\x00\x00cos\nsystem\n")
    (tmp_path / "rank-3.txt").write_text("")
    with pytest.raises(InvalidInput, match="binary"):
        read_dumps([str(tmp_path)], ranks=4)
    dumps = read_dumps([str(tmp_path)], ranks=4, lenient=True)
    assert list(dumps.by_rank) == [0, 1]
    assert [Path(drop.file).name for drop in dumps.dropped] == ["rank-2.pkl", "rank-3.txt"]
    with pytest.raises(InvalidInput, match="none of 1 files"):
        read_dumps([str(tmp_path / "rank-3.txt")], ranks=4, lenient=True)


def test_no_dump_at_all(tmp_path: Path) -> None:
    """An empty folder and a path that is not there."""
    with pytest.raises(InvalidInput, match="there is none"):
        read_dumps([str(tmp_path)], ranks=4)
    with pytest.raises(InvalidInput, match="no such file"):
        read_dumps([str(tmp_path / "rank-0.txt")], ranks=4)
