"""Reading untrusted text and writing whole files."""

import gzip
import io
import os
import sys
from pathlib import Path

import pytest

from ground.errors import InvalidInput, TooLarge, did_you_mean
from ground.files import decode_source, read_source, write_file


def test_a_text_file_is_read_with_its_name(tmp_path: Path) -> None:
    """The byte-order mark that Windows tools write is not part of the text."""
    file = tmp_path / "cluster.csv"
    file.write_bytes(b"\xef\xbb\xbfnode,rack\n")
    source = read_source(file)
    assert source.text == "node,rack\n"
    assert source.at(1) == f"{file}:1"


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """``-`` reads stdin, which errors call by that name."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"node,rack\n")))
    source = read_source("-")
    assert (source.name, source.text) == ("stdin", "node,rack\n")


def test_a_closed_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has none at all then."""
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InvalidInput, match="closed"):
        read_source("-")


@pytest.mark.parametrize(
    ("content", "complaint", "line"),
    [
        (b"", "is empty", ""),
        (b" \n\n", "is empty", ""),
        (b"node\nn1\0", "zero byte", ":2"),
        (b"node\nn1\nn\xff", "is not UTF-8", ":3"),
        (b"\x1f\x8b\x08\0", "gzip", ""),
    ],
)
def test_what_is_not_text_is_refused(content: bytes, complaint: str, line: str) -> None:
    """Empty, binary, compressed or not UTF-8: the error says which, where, and what to do."""
    with pytest.raises(InvalidInput, match=complaint) as caught:
        decode_source("f", content)
    assert caught.value.where == f"f{line}"
    assert caught.value.fix


def test_ends_of_lines_and_a_mark_of_bytes_say_nothing() -> None:
    """A file that came over Windows is the same text: else `$` in no pattern of a reader would find its lines."""
    assert decode_source("f", b"\xef\xbb\xbfnode,rack\r\nn1,r\r\n") == decode_source("f", b"node,rack\nn1,r\n")


def test_a_file_may_be_packed(tmp_path: Path) -> None:
    """With gzip, in one member or in several, as traces may be."""
    file = tmp_path / "cluster.csv.gz"
    file.write_bytes(gzip.compress(b"node,rack\n") + gzip.compress(b"n1,r\n"))
    assert read_source(file).text == "node,rack\nn1,r\n"


def test_a_packed_file_is_never_larger_than_any_other(tmp_path: Path) -> None:
    """A megabyte of zeros takes a thousand bytes; one that is cut off or damaged says so."""
    file = tmp_path / "f.gz"
    packed = gzip.compress(b" " * 2**20)
    file.write_bytes(packed)
    with pytest.raises(TooLarge, match="when unpacked"):
        read_source(file, max_bytes=2**19)
    for content, complaint in ((packed[:-9], "cut off"), (b"\x1f\x8b\x00rubbish", "damaged")):
        file.write_bytes(content)
        with pytest.raises(InvalidInput, match=complaint):
            read_source(file)


@pytest.mark.parametrize("path", ["no-such-file", ".", "a\0b"])
def test_what_is_not_a_file_is_refused(path: str) -> None:
    """Missing, a directory, an impossible name: always the same kind of error."""
    with pytest.raises(InvalidInput) as caught:
        read_source(path)
    assert caught.value.where == path


def test_a_file_without_end_is_refused_at_the_limit(tmp_path: Path) -> None:
    """A well-formed file that is merely too big has exit code 3, and no more than the limit is read."""
    file = tmp_path / "big"
    file.write_bytes(b"a" * 11)
    assert len(read_source(file, max_bytes=11).text) == 11
    with pytest.raises(TooLarge) as caught:
        read_source(file, max_bytes=10)
    assert caught.value.exit_code == 3


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    """The new content replaces the old one, keeps its permissions, and nothing else is left in the folder."""
    file = tmp_path / "out.csv"
    file.write_text("old")
    file.chmod(0o640)
    write_file(file, "nöde\n")
    assert file.read_text(encoding="utf-8") == "nöde\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [file]


def test_a_failed_write_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk fails in the middle, the old file stands and no partial file remains."""
    file = tmp_path / "out.csv"
    file.write_text("old")

    def disk_full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(InvalidInput, match="No space left"):
        write_file(file, "new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_writing_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    """The file behind a symbolic link is replaced, not the link."""
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


@pytest.mark.parametrize("path", ["no/such/folder/out", "out\0"])
def test_a_place_that_does_not_exist_is_refused(path: str, tmp_path: Path) -> None:
    """A missing folder or an impossible name is a clear error."""
    with pytest.raises(InvalidInput, match="cannot be written"):
        write_file(tmp_path / path, "x")


def test_the_meant_name_is_found_among_many() -> None:
    """A typing error at the end of a name is recognised among 100,000 names; a stranger is not."""
    names = [f"n{i:06d}" for i in range(100_000)]
    assert did_you_mean("n004211x", names) == "did you mean 'n004211'? "
    assert did_you_mean("alhpa", ["alpha", "beta"]) == "did you mean 'alpha'? "
    assert did_you_mean("NODE_A", ["Node_B", "node_a"]) == "did you mean 'node_a'? "
    assert did_you_mean("something", ["alpha"]) == ""
