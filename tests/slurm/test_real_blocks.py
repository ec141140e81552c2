"""Jobs of Arnold's on a real Slurm with topology/block, which by itself refuses nodes of several blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real_slurm import Install, RealSlurm, real_slurm

pytestmark = [pytest.mark.launchers, pytest.mark.xdist_group("launchers")]

NODES = tuple(f"n{i}" for i in range(1, 9))
TOPOLOGY = "BlockName=a Nodes=n[1-4]\nBlockName=b Nodes=n[5-8]\nBlockSizes=4\n"
SINCE = (26, 5)  # 24.11 refuses any list of nodes of several blocks, also in segments of one node
GRID = {"tp": 2, "dp": 3, "pp": 2}  # six nodes of two GPUs: more than a block has
SAY = "echo $SLURM_PROCID $SLURMD_NODENAME"

Arnold = Callable[..., Any]


@pytest.fixture(scope="module")
def slurm(install: Install, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """A Slurm of two blocks of four nodes."""
    if install.numbers < SINCE:
        pytest.skip("it takes no list of nodes of several blocks")
    shared, folder = tmp_path_factory.getbasetemp(), tmp_path_factory.mktemp("slurm")
    with real_slurm(install, folder, NODES, TOPOLOGY, gpus=2, shared=shared) as started:
        yield started


@pytest.mark.parametrize("by", ["submit", "place"])
def test_a_job_lies_on_nodes_of_several_blocks(
    arnold: Arnold, slurm: RealSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """As planned, every rank on its node, by ``slurm submit`` and by the batch script of ``place``."""
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, slurm.environment[name])
    out, job, script, batch = (tmp_path / name for name in ("out", "job.yaml", "train.sh", "job.slurm"))
    grid = ",".join(f"{name}={size}" for name, size in GRID.items())
    job.write_text(f"gpus_per_node: 2\nparallelism: {{{grid.replace('=', ': ')}}}\n")
    ran = arnold("place", "--cluster", "slurm:", "--job", job, "--output", batch, "--json")
    assert ran.code == 0, ran.err
    planned = [cell["node"] for cell in sorted(ran.json["assignment"], key=lambda cell: cell["node_rank"])]
    if by == "submit":
        script.write_text(f"#!/bin/bash\n#SBATCH --ntasks-per-node=2 -o {out}\nsrun sh -c '{SAY}'\n")
        assert arnold("slurm", "submit", "--grid", grid, "--wait", script).code == 0
    else:
        slurm.run("sbatch", "--wait", f"--output={out}", batch, "sh", "-c", SAY)
    said = dict(line.split() for line in out.read_text().splitlines())
    assert [said[str(2 * rank)] for rank in range(len(planned))] == planned
