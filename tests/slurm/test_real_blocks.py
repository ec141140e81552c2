"""Jobs of Arnold's on a real Slurm with topology/block, which by itself refuses nodes of several blocks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real_slurm import Install, RealSlurm, real_slurm

pytestmark = [pytest.mark.launchers, pytest.mark.xdist_group("launchers")]

NODES = tuple(f"n{i}" for i in range(1, 9))
TOPOLOGY = "BlockName=a Nodes=n[1-4]\nBlockName=b Nodes=n[5-8]\nBlockSizes=4\n"
SINCE = (24, 5)  # that takes --segment
LISTS_SINCE = (25, 11)  # that starts a job on a list of nodes of several blocks
GRID = {"tp": 2, "dp": 2, "pp": 2}  # four nodes of two GPUs: by itself Slurm would wait for a block
SAY = "echo $SLURM_PROCID $SLURMD_NODENAME"

Arnold = Callable[..., Any]


@pytest.fixture(scope="module")
def made(install: Install, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """A Slurm of two blocks of four nodes, half of each drained."""
    if install.numbers < SINCE:
        pytest.skip("it has no segments")
    shared, folder = tmp_path_factory.getbasetemp(), tmp_path_factory.mktemp("slurm")
    with real_slurm(install, folder, NODES, TOPOLOGY, gpus=2, shared=shared, conf="JobSubmitPlugins=lua\n") as started:
        started.run("scontrol", "update", "NodeName=n[3-4,7-8]", "State=DRAIN", "Reason=busy")
        yield started


@pytest.fixture
def slurm(made: RealSlurm, monkeypatch: pytest.MonkeyPatch) -> RealSlurm:
    """It, led to by the environment, its other nodes idle."""
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, made.environment[name])
    made.wait_for(4)
    return made


@pytest.mark.parametrize("by", ["submit", "place", "serve"])
def test_a_job_lies_on_nodes_of_several_blocks(
    arnold: Arnold, slurm: RealSlurm, install: Install, tmp_path: Path, by: str
) -> None:
    """As planned, every rank on its node, by ``slurm submit``, the batch script of ``place`` and ``slurm serve``."""
    if by == "place" and install.numbers < LISTS_SINCE:
        pytest.skip("it starts no job on a list of nodes of several blocks")
    out, job, script, batch = (tmp_path / name for name in ("out", "job.yaml", "train.sh", "job.slurm"))
    grid = ",".join(f"{name}={size}" for name, size in GRID.items())
    job.write_text(f"gpus_per_node: 2\nparallelism: {{{grid.replace('=', ': ')}}}\n")
    ran = arnold("place", "--cluster", "slurm:", "--job", job, "--output", batch, "--json")
    assert ran.code == 0, ran.err
    planned = [cell["node"] for cell in sorted(ran.json["assignment"], key=lambda cell: cell["node_rank"])]
    script.write_text(f"#!/bin/bash\n#SBATCH --ntasks-per-node=2 -t 5 -o {out}\nsrun sh -c '{SAY}'\n")
    if by == "submit":
        assert arnold("slurm", "submit", "--grid", grid, "--wait", script).code == 0
    elif by == "serve":
        # from 25.11 on the plug-in sees to the segments
        segment = [] if install.numbers >= LISTS_SINCE else ["--segment=1"]
        with subprocess.Popen(
            [Path(sys.executable).with_name("arnold"), "slurm", "serve"], env=slurm.environment
        ) as daemon:
            slurm.run("sbatch", "--wait", "-N4", f"--comment=arnold: {grid}", *segment, script)
            daemon.terminate()
        assert " SegmentSize=1" in slurm.run("scontrol", "show", "jobs", "-o") or segment
    else:
        slurm.run("sbatch", "--wait", f"--output={out}", batch, "sh", "-c", SAY)
    said = dict(line.split() for line in out.read_text().splitlines())
    assert [said[str(2 * rank)] for rank in range(len(planned))] == planned
