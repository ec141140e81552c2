"""Xid and SXid errors in a kernel's log: what convicts a GPU, and what a program did."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Literal

import pytest

from health.look.folder import look_at_folder
from health.look.node_reports import XIDS
from tests.facts import says
from topology.xids import PROGRAM_XIDS


def xid(number: int, words: str = "") -> str:
    """A line as dmesg -T prints it."""
    return f"[Sun Feb 23 16:24:18 2025] NVRM: Xid (PCI:0000:9b:00): {number}, pid=77, name=python{words}\n"


@pytest.mark.parametrize(("number", "sure"), [(79, "certain"), (48, "certain"), (94, "likely"), (156, "possible")])
def test_an_xid_of_hardware_names_the_gpu(tmp_path: Path, number: int, sure: str) -> None:
    """By its PCI address, and the node by the name of the file."""
    (tmp_path / "dmesg-node07.txt").write_text(xid(13) + xid(number))
    (suspect,) = look_at_folder(str(tmp_path)).suspects
    assert (suspect.node, suspect.gpu, suspect.sure, suspect.why[0].lines) == ("node07", "0000:9b:00", sure, (2,))


@pytest.mark.parametrize("number", [13, 31, 43, 45, 63, 999])
def test_an_xid_of_a_program_names_nobody(tmp_path: Path, number: int) -> None:
    """Nor does one that the catalogue does not list; the note of the file says that they were seen."""
    (tmp_path / "xid13.txt").write_text(xid(number))
    found = look_at_folder(str(tmp_path))
    assert found.suspects == ()
    assert f"Xid {number}" in found.files[0].note


# What NVIDIA's catalogue says at once: RESET_GPU, RESTART_BM, RESTART_APP with an ECC error, and IGNORE or RESTART_APP
@pytest.mark.parametrize(
    ("action", "numbers"),
    [
        ("reset", [46, 48, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, *range(144, 151), 155, 156, 158]),
        ("reboot", [79]),
        ("restart", [94]),
        (
            "ignore",
            [8, 11, 13, 25, 31, 32, 37, 38, 39, 43, 44, 45, 63, 66, 69, 80, 92, 93, 121, 126, 135, 137, 141, 160],
        ),
    ],
)
def test_xids_are_answered_as_the_catalogue_does(action: str, numbers: list[int]) -> None:
    """What is to be ignored convicts nothing; everything else convicts somebody."""
    assert {XIDS[number].action for number in numbers} == {action}
    assert all((XIDS[number].sure is None) == (action == "ignore") for number in numbers)


def test_no_number_is_a_programs_and_convicts() -> None:
    """A row of those that convict would hide the program's of its number."""
    assert {number for number, entry in XIDS.items() if entry.sure is None} == PROGRAM_XIDS.keys()


@pytest.mark.parametrize("seen", ["", "0x1 (GPU Reset Required) to 0x0 (None)"])
def test_recovery_is_what_the_driver_asks_for_last(tmp_path: Path, seen: str) -> None:
    """Xid 154 tells each change: one that ends at none asks for nothing more."""
    asked = xid(154, ", GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)")
    undone = xid(154, f", GPU recovery action changed from {seen}") if seen else ""
    (tmp_path / "dmesg-node07.txt").write_text(asked + undone)
    assert [suspect.sure for suspect in look_at_folder(str(tmp_path)).suspects] == ([] if seen else ["certain"])


def test_one_fatal_error_of_a_switch_is_enough(tmp_path: Path) -> None:
    """A later line of the same number that is not fatal unsays nothing."""
    line = "nvidia-nvswitch3: SXid (PCI:0000:c3:00.0): 20034, {}, Link 30 LTSSM Fault Up\n"
    (tmp_path / "dmesg-node07.txt").write_text(line.format("Fatal") + line.format("Non-fatal"))
    assert [suspect.kind for suspect in look_at_folder(str(tmp_path)).suspects] == ["nvswitch"]


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


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("dmesg-rack3-n12.txt", "rack3-n12"),
        ("dmesg-n12.cluster.local.txt", "n12.cluster.local"),
        ("dmesg-n12-2026-11-30.txt.1", "n12"),
        ("rack3-node12/dmesg.txt", "rack3-node12"),
        ("ip-10-0-0-12/kern.log.2", "ip-10-0-0-12"),
        ("gpu-node12_dmesg.log", "gpu-node12"),
        ("n12.dmesg", "n12"),
        ("dmesg-job77.txt", None),
        ("dmesg-nov30.txt", None),
        ("kern.log-20261130", None),
        ("attempt_0/dmesg.txt", None),
    ],
)
def test_the_name_of_the_file_or_folder_is_the_whole_node(tmp_path: Path, name: str, node: str | None) -> None:
    """Without date, rotation and the word for what it is; jobs, attempts and days are no nodes."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(xid(79))
    assert [suspect.node for suspect in look_at_folder(str(tmp_path)).suspects] == [node]


@pytest.mark.parametrize(
    "before",
    [
        "Nov 30 10:00:00 hgx-a12 kernel: ",
        "Nov 30 10:00:00.123456 hgx-a12 kernel: ",
        "Mon 2026-11-30 10:00:00 UTC hgx-a12 kernel: ",
        "2026-11-30T10:00:00+0000 hgx-a12 kernel: ",
        "[  123.456789] hgx-a12 kernel: ",
        '{"PRIORITY":"3","_HOSTNAME":"hgx-a12","MESSAGE":"',
    ],
)
def test_journald_names_the_node(tmp_path: Path, before: str) -> None:
    """In each --output of journalctl that has it."""
    (tmp_path / "kernel.log").write_text(f"{before}NVRM: Xid (PCI:0000:9b:00): 79, pid=1\n")
    assert [suspect.node for suspect in look_at_folder(str(tmp_path)).suspects] == ["hgx-a12"]


def test_a_log_of_dmesg_without_an_error_is_known(tmp_path: Path) -> None:
    """Though it speaks of network cards."""
    (tmp_path / "dmesg-n12.txt").write_text("[Mon Nov 30 10:00:00 2026] mlx5_core 0000:17:00.0 ib0: Link up\n")
    (file,) = look_at_folder(str(tmp_path)).files
    assert (file.kind, file.read) == ("kernel-log", True)


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_logs_of_several_nodes_in_an_archive_are_not_one_log(tmp_path: Path, mode: Literal["w", "w:gz"]) -> None:
    """The names of its files, which say the nodes, are no lines: its error would be of a node that nobody knows."""
    logs, crash = tmp_path / "logs", tmp_path / "crash"
    logs.mkdir()
    crash.mkdir()
    with tarfile.open(crash / "logs.tar", mode) as archive:
        for node in ("node07", "node08"):
            log = logs / f"dmesg-{node}.txt"
            log.write_text(xid(79))
            archive.add(log, log.name)
    found = look_at_folder(str(crash))
    assert found.suspects == ()
    (file,) = found.files
    assert (file.read, says(file.note, "archive", "its files")) == (False, True)
