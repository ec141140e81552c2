"""Xid and SXid errors in a kernel's log: what convicts a GPU, and what a program did."""

from __future__ import annotations

from pathlib import Path

import pytest

from health.look.folder import look_at_folder


def xid(number: int, words: str = "") -> str:
    """A line as dmesg -T prints it."""
    return f"[Sun Feb 23 16:24:18 2025] NVRM: Xid (PCI:0000:9b:00): {number}, pid=77, name=python{words}\n"


@pytest.mark.parametrize(("number", "sure"), [(79, "certain"), (48, "certain"), (94, "likely"), (63, "possible")])
def test_an_xid_of_hardware_names_the_gpu(tmp_path: Path, number: int, sure: str) -> None:
    """By its PCI address, and the node by the name of the file."""
    (tmp_path / "dmesg-node07.txt").write_text(xid(13) + xid(number))
    (suspect,) = look_at_folder(str(tmp_path)).suspects
    assert (suspect.node, suspect.gpu, suspect.sure, suspect.why[0].lines) == ("node07", "0000:9b:00", sure, (2,))


@pytest.mark.parametrize("number", [13, 31, 43, 45, 999])
def test_an_xid_of_a_program_names_nobody(tmp_path: Path, number: int) -> None:
    """Nor does one that the catalogue does not list; the note of the file says that they were seen."""
    (tmp_path / "xid13.txt").write_text(xid(number))
    found = look_at_folder(str(tmp_path))
    assert found.suspects == ()
    assert f"Xid {number}" in found.files[0].note


@pytest.mark.parametrize(
    "before", ["", "kernel: ", "kern  :warn  : 2025-01-21T04:41:44,285060+00:00 ", "[ 9.1] ", "Info: "]
)
def test_no_word_of_the_log_is_a_node(tmp_path: Path, before: str) -> None:
    """What stands before an error names a node only where syslog or pdsh put it."""
    line = "NVRM: Xid (PCI:0000:9b:00): 79, pid=1\n"
    switch = "nvidia-nvswitch3: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n"
    (tmp_path / "pasted.txt").write_text(f"{before}{line}{before}{switch}")
    assert {suspect.node for suspect in look_at_folder(str(tmp_path)).suspects} == {None}
    (tmp_path / "pasted.txt").write_text(f"gpu7: [ 9.1] {line}")
    assert {suspect.node for suspect in look_at_folder(str(tmp_path)).suspects} == {"gpu7"}
