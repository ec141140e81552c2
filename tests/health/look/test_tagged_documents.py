"""Reports whose lines a launcher or collector tagged, and nodes that are called by two names."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.evidence.pasted_texts import PASTED
from ground.errors import InvalidInput
from health.look.folder import look_at_folder
from health.recovery.stacks import read_dumps

TABLES = [
    f"# nThread 1 nGpus 1\n#  Rank  0 Group  0 Pid 1 on n{node} device  0 [0x1a] NVIDIA H100\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    f"  1073741824     268435456     float     sum      -1    100.0  100.00  {busbw}.00      0\n"
    for node, busbw in enumerate((480, 480, 300, 480))
]


@pytest.mark.parametrize(
    "tag",
    ["{task}: ", "  {task}: ", "[1,{task}]<stdout>:", "[pod/test-{task}/nccl] ", "Nov 30 10:00:00 n{task} sh[12]: "],
)
def test_each_speaker_has_a_table_of_its_own(tmp_path: Path, tag: str) -> None:
    """Four tests of one node each, their lines mixed as they were written: the third is slow."""
    lines = zip(*(table.splitlines(keepends=True) for table in TABLES), strict=True)
    text = "".join(tag.format(task=task) + line for of_all in lines for task, line in enumerate(of_all))
    (tmp_path / "all.txt").write_text(text)
    assert [suspect.node for suspect in look_at_folder(str(tmp_path)).suspects] == ["n2"]


@pytest.mark.parametrize(
    "tag", ["", "0: ", "[default0]:", "[pod/w-1/pt] ", "2026-11-30T10:00:00.123Z ", "[1,0]<stderr>:", "n1: "]
)
def test_the_first_failure_of_torchrun_is_read_behind_any_tag(tmp_path: Path, tag: str) -> None:
    """Host and rank of who was killed."""
    lines = PASTED["torchrun-killed"].text.splitlines(keepends=True)
    (tmp_path / "job.log").write_text("".join(tag + line for line in lines))
    assert [(suspect.node, suspect.rank) for suspect in look_at_folder(str(tmp_path)).suspects] == [("gpu2", 5)]


def test_pdsh_says_whose_report_it_is(tmp_path: Path) -> None:
    """Of two nodes the second has a GPU with a row that was not remapped."""
    well, broken = PASTED["smi-well"].text.splitlines(), PASTED["smi-row"].text.splitlines()
    text = [f"n07: {line}" for line in well] + [f"n08: {line}" for line in broken]
    (tmp_path / "smi.txt").write_text("\n".join(text))
    assert [(suspect.node, suspect.gpu) for suspect in look_at_folder(str(tmp_path)).suspects] == [("n08", 2)]


def test_a_node_has_one_name(tmp_path: Path) -> None:
    """NCCL calls a peer with its domain, and itself without: who lost others is not the one that left first."""

    def nccl(node: int, level: str, words: str) -> str:
        return f"n{node}:9:9 [0] NCCL {level} {words}\n"

    begin = [
        nccl(node, "INFO", f"comm 0x1 rank {node} nranks 4 cudaDev 0 busId 1000 - Init COMPLETE") for node in range(4)
    ]
    closed = "Call to recv from n{}.a.org<4000> failed : Connection closed by remote peer n{}.a.org<4000>"
    lost = [nccl(node, "WARN", closed.format(peer, peer)) for node, peer in ((0, 2), (1, 2), (0, 3), (1, 3), (2, 3))]
    (tmp_path / "job.log").write_text("".join([*begin, *lost]))
    assert [(suspect.node, suspect.kind) for suspect in look_at_folder(str(tmp_path)).suspects] == [
        ("n3", "unreachable")
    ]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("Got async event : port error", True),
        ("Got non-fatal async event: port error(10)", True),
        ("async fatal event: local catastrophic error", True),
        ("Got non-fatal async event: port active(9)", False),
        ("Got non-fatal async event: client reregistration(17)", False),
    ],
)
def test_what_a_port_says_in_each_version(tmp_path: Path, words: str, named: bool) -> None:
    """NCCL 2.22 and later say whether an event is fatal."""
    (tmp_path / "job.log").write_text(f"n1:9:9 [0] transport/net_ib.cc:253 NCCL WARN NET/IB : mlx5_3:1 {words}\n")
    assert [suspect.node for suspect in look_at_folder(str(tmp_path)).suspects] == ["n1"] * named


@pytest.mark.parametrize("value", ["9223372036854775794", "140737488355328", "-1", "NaN"])
def test_a_value_that_dcgm_does_not_have_is_no_error(tmp_path: Path, value: str) -> None:
    """Fields that a GPU lacks are blank, a number that no count reaches."""
    fields = ("ROW_REMAP_FAILURE", "ROW_REMAP_PENDING", "ECC_DBE_VOL_TOTAL")
    (tmp_path / "n7.prom").write_text("".join(f'DCGM_FI_DEV_{name}{{gpu="0"}} {value}\n' for name in fields))
    assert look_at_folder(str(tmp_path)).suspects == ()


def test_tests_of_the_set_up_clear_no_hardware(tmp_path: Path) -> None:
    """What `dcgmi diag -r 1` runs looks at libraries and permissions: a GPU that stopped is suspected as before."""
    xid = "[Sun Feb 23 16:24:18 2025] NVRM: Xid (PCI:0000:9b:00): 46, pid=77, name=python\n"
    (tmp_path / "dmesg-node08.txt").write_text(xid)
    rows = ("Denylist", "NVML Library", "CUDA Main Library", "Permissions and OS Blocks", "Environment Variables")
    table = "".join(f"| {name:<25} | Pass |\n" for name in rows)
    for hardware, sure in (("", "likely"), ("| GPU Memory                | Pass - All |\n", "possible")):
        (tmp_path / "diag-node08.txt").write_text(f"| Diagnostic                | Result |\n{table}{hardware}")
        assert [suspect.sure for suspect in look_at_folder(str(tmp_path)).suspects] == [sure]


def test_an_empty_name_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as that of a variable which is not set: the folder one stands in is not meant."""
    monkeypatch.chdir(tmp_path)
    Path("all.txt").write_text(TABLES[0])
    with pytest.raises(InvalidInput, match="there is no such folder"):
        look_at_folder("")
    with pytest.raises(InvalidInput):
        read_dumps([""], ranks=2)
