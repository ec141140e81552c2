"""Formats are told by the beginning of a file, whatever it holds."""

from __future__ import annotations

from time import process_time

import pytest

from arnold.commands.formats import READERS
from ground.files import Content
from ground.formats import Format, recognise
from ground.plugins import object_at

SIZE = 60_000  # Bytes, about what is looked at of a file

ODD = {
    "blanks": b" ",
    "tabs": b"\t",
    "empty lines": b"\n",
    "one long line of objects": b'{"type": "x"}, ',
    "lists": b"[",
    "objects": b'{"a": ',
    "blanks in a bracket": b"[ ",
}


def seconds(head: bytes) -> float:
    """Return how long the readers of all kinds of files look at a beginning, of which none is sure."""
    readers: list[Format] = [reader for group in READERS.values() for reader in object_at(group).load_all()]
    begun = process_time()
    assert not [reader.format.name for reader in readers if reader.likeness(head) == 1.0]
    return process_time() - begun


@pytest.mark.parametrize("pieces", ODD.values(), ids=ODD)
def test_what_a_file_is_is_told_at_once(pieces: bytes) -> None:
    """No reader breaks, or takes long: a pattern that begins anew at each blank would take a thousand times as long as
    all of them for a text of letters.
    """
    seconds(b"a")  # imports what they need
    assert seconds((pieces * SIZE)[:SIZE]) < 100 * seconds(b"a" * SIZE)


def test_a_mark_of_bytes_hides_no_format() -> None:
    """A log of jobs in the Standard Workload Format, eighteen numbers a line, with what Windows may write before it."""
    row = b" ".join(b"%d" % number for number in (1, 0, 0, 100, 8, *[-1] * 2, 8, *[-1] * 10))
    for content in (row, b"\xef\xbb\xbf" + row):
        assert recognise(object_at(READERS["jobs"]), Content("f", content)).format.name == "swf"
