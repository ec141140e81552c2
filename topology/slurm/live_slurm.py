"""A live Slurm, asked through its program ``scontrol``: its topology, and how its nodes are.

Both answers are text: not every build of ``scontrol`` has ``--json`` (Debian's 22.05 has not), and the text says the
same.  Asked are ``scontrol show topology``, which knows what ``topology.conf`` or ``topology.yaml`` made of the nodes,
and ``scontrol show nodes`` with those of hidden partitions and with those that are yet to come: a node that is not
listed would count as free.  Source: the manual page scontrol(1).
"""

from __future__ import annotations

import subprocess

from topology.errors import InvalidInput
from topology.files import Source

ANSWER_SECONDS = 60.0  # for one answer; scontrol itself gives up on a controller after some 10 s, and asks the next
LONGEST = 300  # characters of a complaint that are repeated


class SlurmRefused(InvalidInput):
    """Slurm cannot be asked, or does not say what is needed."""


def ask_slurm() -> tuple[Source, Source]:
    """Return what Slurm says of its topology, as ``topology.conf`` has it, and of the states and GPUs of its nodes.

    :raises SlurmRefused: there is no ``scontrol``, no controller answers, or Slurm has no topology or no nodes.
    """
    # nodes first: where no controller answers, scontrol fails for them alone; without a topology it says 0 as well
    nodes, said = _ask("show nodes", "--all", "--future", "--oneliner")
    if "NodeName=" not in nodes.text:
        none = f"Slurm lists no nodes{said}"
        raise SlurmRefused(none, where=nodes.name, fix="check that the controller knows its nodes: sinfo")
    topology, said = _ask("show topology")
    if not topology.text.strip():
        flat = f"Slurm gives no topology{said or ': its nodes are one flat list'}"
        fix = (
            "set TopologyPlugin=topology/tree (or block) with a topology.conf, or take all nodes as one level: "
            "scontrol show nodes > nodes.txt, and --cluster nodes.txt"
        )
        raise SlurmRefused(flat, where=topology.name, fix=fix)
    return topology, nodes


def _ask(question: str, *options: str) -> tuple[Source, str]:
    """Return what ``scontrol`` prints, and the last words that it complains in; empty = none."""
    where = f"scontrol {question}"
    command = ["scontrol", *options, *question.split()]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=ANSWER_SECONDS
        )
    except FileNotFoundError:
        fix = "run this where Slurm's client programs are, or give files: --cluster topology.conf --busy nodes.txt"
        raise SlurmRefused("the program scontrol is not on PATH", where=where, fix=fix) from None
    except subprocess.TimeoutExpired:
        slow = f"no answer within {ANSWER_SECONDS:g} s"
        raise SlurmRefused(slow, where=where, fix="check that the controller answers: scontrol ping") from None
    except OSError as error:
        failed = f"scontrol cannot be started: {error.strerror or error}"
        raise SlurmRefused(failed, where=where, fix="check the program and its permissions") from error
    complaints = done.stderr.decode("utf-8", "replace").strip().splitlines()
    said = f": {complaints[-1].strip()[:LONGEST]}" if complaints else ""
    if done.returncode:
        ended = f"{' '.join(command)} ended with {done.returncode}{said}"
        fix = "check that the controller answers (scontrol ping), and that SLURM_CONF names the right Slurm"
        raise SlurmRefused(ended, where=where, fix=fix)
    # a reason or a comment, which others wrote, may be in any encoding
    return Source(where, done.stdout.decode("utf-8", "replace")), said
