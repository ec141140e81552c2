"""`arnold slurm serve` killed over and over on a real Slurm, while jobs of others come and nodes are lost.

``ARNOLD_KILLS`` says how often; for five kills there are four jobs of ours, sixteen of others and two lost nodes, so
that ``make slurm``, with 60, has 50 jobs, 200 and 20.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.real_slurm import Install, RealSlurm, real_slurm
from tests.slurm.killed_daemon import STEPS, killed_at

pytestmark = [pytest.mark.launchers, pytest.mark.xdist_group("launchers")]
KILLS = int(os.environ.get("ARNOLD_KILLS", "5"))
JOBS, OTHERS, LOSSES = -(-KILLS * 5 // 6), -(-KILLS * 10 // 3), KILLS // 3
NODES = tuple(f"n{i:02}" for i in range(1, 17))
POD = [f"n[{4 * i + 1:02}-{4 * i + 4:02}]" for i in range(4)]
TOPOLOGIES = {
    "tree": "".join(f"SwitchName=mp{i} Nodes={nodes}\n" for i, nodes in enumerate(POD))
    + "SwitchName=top Switches=mp[0-3]\n",
    "blocks": "".join(f"BlockName=b{i} Nodes={nodes}\n" for i, nodes in enumerate(POD)) + "BlockSizes=4\n",
}
SEGMENTS_SINCE = (24, 5)
RANKS = 8  # of a job of ours: four nodes of two GPUs
PATIENCE = 30.0  # seconds for a daemon to come to a step; else it is ended, and that kill is made later
LONGEST = 240.0 + 20.0 * KILLS  # seconds for all; bounds a failure

OURS = """#!/bin/bash
#SBATCH --ntasks-per-node=2 --gpus-per-node=2 --open-mode=append --requeue -t 5
echo run
srun sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME'
echo end
sleep 1
"""


@pytest.fixture(params=[*TOPOLOGIES])
def slurm(
    install: Install, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[RealSlurm]:
    """Sixteen nodes of two GPUs in four minipods, or in four blocks; ended jobs are remembered."""
    if request.param == "blocks" and install.numbers < SEGMENTS_SINCE:
        pytest.skip("it has no segments")
    shared, folder = tmp_path_factory.getbasetemp(), tmp_path_factory.mktemp("slurm")
    conf = "JobSubmitPlugins=lua\nMinJobAge=7200\n"
    with real_slurm(install, folder, NODES, TOPOLOGIES[request.param], gpus=2, shared=shared, conf=conf) as started:
        yield started


@dataclass
class Soak:
    """The jobs, and what may happen between two kills."""

    slurm: RealSlurm
    folder: Path
    rng: random.Random
    blocks: bool
    more: int = 0  # jobs of ours beside the others: where all have ended, no daemon has anything to do
    ours: list[str] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)  # number -> comment
    lost: list[str] = field(default_factory=list)

    def submit(self) -> None:
        """Submit jobs of ours and of others, as many as their share of all."""
        share = len(self.ours) / JOBS
        if len(self.ours) < JOBS + self.more:
            script = self.folder / "ours.sh"
            script.write_text(OURS)
            output = f"--output={self.folder}/%j.out"
            # before 25.11 the plug-in cannot say it
            segment = ["--segment=1"] if self.blocks else []
            self.ours.append(self._sbatch("-N4", "--comment=arnold: tp=2,dp=2,pp=2", output, *segment, script))
        while len(self.others) < OTHERS and len(self.others) < OTHERS * (share + 1 / JOBS):
            comment, words = f"of others {len(self.others)}", self.rng.choice(([], ["--begin=now+3"], ["-N2"]))
            number = self._sbatch(
                "--requeue", f"--comment={comment}", "-o/dev/null", "-t5", *words, "--wrap", "sleep 0.3"
            )
            self.others[number] = comment

    def lose_a_node(self) -> None:
        """Take a node down, whatever runs on it; the one before is back."""
        for name in self.lost[-1:]:
            self.slurm.tried("scontrol", "update", f"NodeName={name}", "State=RESUME")
        if len(self.lost) < LOSSES:
            self.lost.append(self.rng.choice(NODES))
            self.slurm.tried("scontrol", "update", f"NodeName={self.lost[-1]}", "State=DOWN", "Reason=lost")

    def jobs(self) -> Mapping[str, str]:
        """What Slurm shows of each job."""
        text = self.slurm.run("scontrol", "show", "jobs", "--all", "--oneliner")
        return {match[1]: line for line in text.splitlines() if (match := re.match(r"JobId=(\d+) ", line))}

    def ended(self) -> bool:
        """Whether all jobs have completed, and no reservation of ours is left."""
        shown = self.jobs()
        held = re.search(r"ReservationName=arnold_\d", self.slurm.run("scontrol", "show", "reservations"))
        return not held and all(" JobState=COMPLETED " in shown[number] for number in (*self.ours, *self.others))

    def _sbatch(self, *words: object) -> str:
        return self.slurm.run("sbatch", "--parsable", *words).strip()


def test_killed_over_and_over_it_loses_no_job(slurm: RealSlurm, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Killed at each of five steps in turn, with nodes lost: every job of ours completes, no rank is there twice in any
    of its runs, and jobs of others keep what they asked for and complete.
    """
    soak = Soak(slurm, tmp_path, random.Random(1), blocks="blocks" in request.node.name)
    kills, end = Counter[str](), monotonic() + LONGEST
    steps = [*islice(cycle(STEPS), KILLS)]
    while steps:
        assert monotonic() < end, (steps, kills)
        soak.submit()
        if kills.total() % 3 == 0:
            soak.lose_a_node()
        step = steps.pop(0)
        with subprocess.Popen(killed_at(step), env=slurm.environment) as daemon:
            try:
                assert daemon.wait(PATIENCE) == -signal.SIGKILL
                kills[step] += 1
            except subprocess.TimeoutExpired:  # nothing to do at that step now
                daemon.kill()
                steps.append(step)
                soak.more += 1
    while len(soak.ours) < JOBS or len(soak.others) < OTHERS:
        soak.submit()
    for name in soak.lost:
        slurm.tried("scontrol", "update", f"NodeName={name}", "State=RESUME")
    arnold = [str(Path(sys.executable).with_name("arnold")), "slurm", "serve", "--reserve-from", "4"]
    with (
        (tmp_path / "served").open("w") as log,
        subprocess.Popen(arnold, env=slurm.environment, stdout=log) as daemon,
    ):
        while not soak.ended():
            assert monotonic() < end, (tmp_path / "served").read_text()[-2000:] + slurm.run("squeue", "--all")
            sleep(1)
        daemon.terminate()
    shown = soak.jobs()
    for number, comment in soak.others.items():
        assert f" Comment={comment} " in f"{shown[number]} "
        assert " ReqNodeList=(null) " in shown[number]
    assert kills == Counter(islice(cycle(STEPS), KILLS))
    planned = 0
    for number in soak.ours:
        *cut, last = (tmp_path / f"{number}.out").read_text().split("run\n")[1:]
        for run in cut:
            ranks = [line.split()[0] for line in run.splitlines() if line[:1].isdigit()]
            assert len({*ranks}) == len(ranks), (number, run)
        assert sorted(int(line.split()[0]) for line in last.splitlines() if line != "end") == [*range(RANKS)]
        planned += "; DP spread" in shown[number]
    assert planned >= len(soak.ours) / 2  # the others began by themselves, as they may
