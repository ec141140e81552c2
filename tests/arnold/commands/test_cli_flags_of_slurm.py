"""Why Slurm has nodes out of work, as flags: ``scontrol show nodes`` and ``sinfo -R`` into a store, and placements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Arnold = Callable[..., Any]

NODE = "NodeName={name} Gres=gpu:8 State={state} Partitions=batch {reason}\n"
ECC, OURS = "Reason=NHC: GPU 3 ECC [{user}@2026-11-20T16:16:51]", "Reason=arnold: slow 1.12 [slurm@2026-11-20T16:16:51]"
AT = "--at", "2026-11-20T18:00Z"
NEXT_DAY = "--at", "2026-11-21T18:00Z"
"""After the half hour that a flag lasts beyond the all-clear of its source."""


def listed(tmp_path: Path, *reasons: str) -> Path:
    """What scontrol prints of sixteen nodes, the first ones drained for some reasons; empty = in order."""
    rows = [(reason, "IDLE+DRAIN" if reason else "ALLOCATED") for reason in (*reasons, *[""] * (16 - len(reasons)))]
    file = tmp_path / "nodes.txt"
    file.write_text("".join(NODE.format(name=f"n{i:02}", state=row[1], reason=row[0]) for i, row in enumerate(rows)))
    return file


@pytest.fixture
def standing(arnold: Arnold, tmp_path: Path) -> Callable[..., list[tuple[str, str, str]]]:
    """Imports a listing, and returns node, source and evidence of what the store holds at a time."""

    def after(file: Path, *at: str) -> list[tuple[str, str, str]]:
        store = tmp_path / "flags.db"
        ran = arnold("flags", "import", "--from", "slurm", file, "--store", store, *at)
        assert ran.code == 0, ran.err
        shown = arnold("flags", "show", "--store", store, "--json", *at).json
        return [(flag["node"], flag["source"], flag["evidence"]) for flag in shown["flags"]]

    return after


def test_drain_reasons_come_and_go(standing: Callable[..., list[tuple[str, str, str]]], tmp_path: Path) -> None:
    """The reason, by whom; drained by another one, that counts; back in work, the broken device is forgotten too."""
    ecc = ECC.format(user="nhc")
    assert standing(listed(tmp_path, ecc), *AT) == [("n00", "slurm:nhc", "NHC: GPU 3 ECC")]
    by_another = listed(tmp_path, ecc.replace("nhc@", "anna@"))
    assert ("n00", "slurm:anna", "NHC: GPU 3 ECC") in standing(by_another, "--at", "2026-11-20T18:10Z")
    standing(listed(tmp_path), "--at", "2026-11-20T18:20Z")
    assert standing(listed(tmp_path), *NEXT_DAY) == []


def test_what_we_drained_is_no_evidence(standing: Callable[..., list[tuple[str, str, str]]], tmp_path: Path) -> None:
    """Else it would keep the node drained for ever; a node that is down without a reason is flagged by its state."""
    assert standing(listed(tmp_path, OURS), *AT) == []
    down = listed(tmp_path)
    down.write_text(down.read_text().replace("State=ALLOCATED", "State=DOWN*", 1))
    assert standing(down, *AT) == [("n00", "slurm", "Slurm: down*")]


def test_a_list_without_states_is_refused(arnold: Arnold, tmp_path: Path) -> None:
    """Nothing is recorded, as absence of a node is no all-clear."""
    (tmp_path / "x").write_text("n00\n")
    ran = arnold("flags", "import", "--from", "slurm", tmp_path / "x", "--store", tmp_path / "flags.db")
    assert (ran.code, (tmp_path / "flags.db").exists()) == (2, False)


SINFO = """\
REASON               USER      TIMESTAMP           NODELIST
NHC: GPU 3 ECC       root      2026-11-20T16:16:51 n0[1-2]
arnold: slow 1.12    slurm     2026-11-20T16:16:35 n03
"""


@pytest.mark.parametrize("bars", [False, True])
def test_reasons_of_sinfo_are_a_flag_file(arnold: Arnold, tmp_path: Path, *, bars: bool) -> None:
    """``--flags`` reads them, and ``record`` does; why a node is avoided is the reason.  Ours counts in no store."""
    cluster, job, reasons, store = (tmp_path / name for name in ("c.csv", "j.yaml", "sinfo", "flags.db"))
    cluster.write_text("node,minipod,gpus\n" + "".join(f"n0{i},mp{i % 2},8\n" for i in range(1, 5)))
    job.write_text("parallelism: {tp: 8, dp: 2}\n")
    text = SINFO.replace("GPU 3", "GPU  3")
    reasons.write_text(
        SINFO
        if not bars
        else "|".join(["REASON", "USER", "TIMESTAMP", "NODELIST"])
        + "\n"
        + "".join("|".join([line[:20].strip(), *line[20:].split()]) + "\n" for line in text.splitlines()[1:])
    )
    asked = ("explain", "--cluster", cluster, "--job", job, "--flags", reasons, *AT)
    assert arnold(*asked).code == 3
    assert "NHC: GPU 3 ECC" in arnold(*asked, "-v").out
    assert arnold("flags", "record", "--store", store, reasons, *AT).code == 0
    why = arnold("flags", "why", "n02", "--store", store, *AT, "--json").json
    assert why["avoided"]
    assert "NHC: GPU 3 ECC" in str(why["spells"])
    assert [flag["node"] for flag in arnold("flags", "show", "--store", store, *AT, "--json").json["flags"]] == [
        "n01",
        "n02",
    ]


def test_a_broken_row_of_reasons_is_refused(arnold: Arnold, tmp_path: Path) -> None:
    """A node must not get lost: the row is named."""
    reasons = tmp_path / "sinfo"
    reasons.write_text(SINFO + "GPU gone  root  n04\n")
    ran = arnold("flags", "record", "--store", tmp_path / "flags.db", reasons)
    assert (ran.code, "sinfo:4" in ran.err) == (2, True)
