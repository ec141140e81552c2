"""``arnold slurm flags`` through ``manifests/slurm/node_keeper`` on a real Slurm."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real_slurm import Install, RealSlurm, real_slurm

pytestmark = [pytest.mark.launchers, pytest.mark.xdist_group("launchers")]

KEEPER = Path(__file__).parents[2] / "manifests" / "slurm" / "node_keeper"
NODES = ("n01", "n02", "n03", "n04")
TOPOLOGY = "SwitchName=mp1 Nodes=n0[1,3]\nSwitchName=mp0 Nodes=n0[2,4]\nSwitchName=top Switches=mp[0-1]\n"

Arnold = Callable[..., Any]


@pytest.fixture(scope="module")
def started(install: Install, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """A Slurm of four nodes, of each version that is found here."""
    with real_slurm(install, tmp_path_factory.mktemp("slurm"), NODES, TOPOLOGY, gpus=2) as slurm:
        yield slurm


@pytest.fixture
def slurm(started: RealSlurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealSlurm]:
    """It, led to by the environment, all its nodes in order before and after."""
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, started.environment[name])
    yield started
    started.tried("scontrol", "delete", "ReservationName=arnold_suspect")
    for node in NODES:
        started.run("scontrol", "update", f"NodeName={node}", "Comment=", "Weight=1")
        started.tried("scontrol", "update", f"NodeName={node}", "State=RESUME")
    started.wait_for(len(NODES))


def record(slurm: RealSlurm, node: str) -> str:
    """What scontrol shows of a node."""
    return slurm.run("scontrol", "show", "node", node, "--oneliner")


def store(arnold: Arnold, tmp_path: Path, *nodes: str) -> Path:
    """A store in which some nodes are faulty."""
    flags, file = tmp_path / "flags.yaml", tmp_path / "flags.db"
    flags.write_text("".join(f"- {{node: {node}, kind: faulty, evidence: GPU 3 ECC}}\n" for node in nodes))
    assert arnold("flags", "record", "--store", file, flags, "--yes").code == 0
    return file


def test_a_drain_and_its_end(arnold: Arnold, slurm: RealSlurm, tmp_path: Path) -> None:
    """Nothing without --through; one node of four a day, with its reason; lifted, it is in work again."""
    file = store(arnold, tmp_path, "n03", "n04")
    asked = ("slurm", "flags", "--store", file, "--measures", "faulty=drain")
    assert "DRAIN" not in record(slurm, "n03")
    said = arnold(*asked)
    assert (said.code, "DRAIN" not in record(slurm, "n04")) == (0, True)
    assert arnold(*asked, "--through", KEEPER).code == 0
    drained = [node for node in ("n03", "n04") if "DRAIN" in record(slurm, node)]
    assert len(drained) == 1
    assert "Reason=arnold: GPU 3 ECC" in record(slurm, *drained)
    assert arnold(*asked, "--through", KEEPER).out == ""  # nothing more, however often
    assert arnold("flags", "lift", *drained, "--store", file, "--because", "replaced").code == 0
    assert arnold(*asked, "--through", KEEPER).code == 0
    assert "DRAIN" not in record(slurm, *drained)
    assert arnold(*asked, "--through", KEEPER).out == ""  # the day is not over


def test_suspects_and_weights(arnold: Arnold, slurm: RealSlurm, tmp_path: Path) -> None:
    """Made, and taken back when the policy is another one."""
    asked = ("slurm", "flags", "--store", store(arnold, tmp_path, "n02"), "--through", KEEPER)
    said = arnold(*asked, "--measures", "faulty=reserve")
    assert said.code == 0, said.err
    assert "Nodes=n02 " in slurm.run("scontrol", "show", "reservation", "--oneliner")
    assert arnold(*asked, "--measures", "faulty=weight").code == 0
    assert "No reservations" in slurm.run("scontrol", "show", "reservation")
    assert "Weight=10001 " in record(slurm, "n02")
    assert arnold(*asked).code == 0
    assert "Weight=1 " in record(slurm, "n02")


@pytest.mark.parametrize(
    "line",
    [
        "resume\tn01\t-\t-",
        "drain\tn01,n02\tarnold: x\tarnold: drained=1",
        "drain\tn02\tbroken\tarnold: drained=1",
        "drain\tn02\tarnold: x\t-",
        "drain\tn02\tarnold: x\tarnold: drained=1 State=DOWN",
        "drain\tn01\tarnold: x\tarnold: drained=1",
        "weight\tn01\t5\tarnold: weight=1",
        "weight\tn02\t-1\t-",
        "down\tn02\t-\t-",
        "suspect\tALL State=DOWN\t-\t-",
        "drain\t$(touch pwned)\tarnold: x\tarnold: drained=1",
    ],
)
def test_what_the_keeper_refuses(slurm: RealSlurm, line: str, tmp_path: Path) -> None:
    """Lines that Arnold would not write: n01 is drained by a person, who left a comment, and nothing changes."""
    slurm.run("scontrol", "update", "NodeName=n01", "State=DRAIN", "Reason=fan", "Comment=mine")
    shown = [_settled(slurm, node) for node in NODES]
    done = subprocess.run(
        [str(KEEPER)],
        input=line + "\n",
        env=slurm.environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "refused" in done.stderr) == (1, True)
    assert [_settled(slurm, node) for node in NODES] == shown
    assert [*tmp_path.iterdir()] == []


def _settled(slurm: RealSlurm, node: str) -> tuple[str, ...]:
    text = record(slurm, node)
    found = [re.search(rf" {key}=(\S*)", text) for key in ("State", "Weight", "Reason", "Comment")]
    return tuple("" if match is None else match[1] for match in found)
