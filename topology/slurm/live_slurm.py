"""A live Slurm, asked through its own programs: its topology, and how its nodes, partitions and reservations are.

All answers are text: not every build of ``scontrol`` has ``--json`` (Debian's 22.05 has not), the text says the same,
and of 10,000 nodes it takes half a second instead of half a minute.  Asked are, in this order,

- ``scontrol show nodes``, with those of hidden partitions and with those that are yet to come;
- ``scontrol show partitions`` and ``scontrol show reservations``;
- ``squeue --start``, when jobs that wait are planned to start, and ``scontrol show config``, when all that was: where
  Slurm does not answer one of these two, it is read without;
- ``scontrol show topology``, of the partition's own topology where partitions have several (26.05): it knows what
  ``topology.conf`` or ``topology.yaml`` made of the nodes.

Source: the manual pages scontrol(1) and squeue(1).
"""

from __future__ import annotations

import os
import subprocess

from topology.errors import InvalidInput
from topology.files import Source
from topology.slurm.slurm_snapshot import SlurmRequest, named_topology

ANSWER_SECONDS = 60.0  # for one answer; scontrol itself gives up on a controller after some 10 s, and asks the next
LONGEST = 300  # characters of a complaint that are repeated


class SlurmRefused(InvalidInput):
    """Slurm cannot be asked, or does not say what is needed."""


def ask_slurm(request: SlurmRequest) -> tuple[Source, tuple[Source, ...], tuple[str, ...]]:
    """Return what Slurm says of its topology, as ``topology.conf`` has it; of its nodes and of what holds them; and
    notes.

    :raises SlurmRefused: there is no ``scontrol``, no controller answers, or Slurm has no topology or no nodes.
    :raises InvalidInput: there is no partition as the request names.
    """
    # nodes first: where no controller answers, scontrol fails for them alone; without a topology it says 0 as well
    nodes, said = _ask("scontrol", "show nodes", "--all", "--future", "--oneliner")
    if "NodeName=" not in nodes.text:
        none = f"Slurm lists no nodes{said}"
        raise SlurmRefused(none, where=nodes.name, fix="check that the controller knows its nodes: sinfo")
    records = [nodes]
    for question, options in {"show partitions": ("--all", "--oneliner"), "show reservations": ("--oneliner",)}.items():
        answer, _ = _ask("scontrol", question, *options)
        records.append(answer)
    notes = []
    for program, question in (("squeue", "--all --start"), ("scontrol", "show config")):
        try:
            answer, _ = _ask(program, question)
            records.append(answer)
        except SlurmRefused as error:
            notes.append(f"{error.where} was not answered, and is not needed for most: {error.message}")
    name, _ = named_topology(records, request)
    topology, said = _ask("scontrol", f"show topology {name}".rstrip())
    if not topology.text.strip():
        flat = f"Slurm gives no topology{said or ': its nodes are one flat list'}"
        fix = (
            "set TopologyPlugin=topology/tree (or block) with a topology.conf, or take all nodes as one level: "
            "scontrol show nodes > nodes.txt, and --cluster nodes.txt"
        )
        raise SlurmRefused(flat, where=topology.name, fix=fix)
    notes += [f"the topology of the partition was read, {name}"] if name else []
    return topology, tuple(records), tuple(notes)


def _ask(program: str, question: str, *options: str) -> tuple[Source, str]:
    """Return what a program of Slurm's prints, and the last words that it complains in; empty = none."""
    where = f"{program} {question}"
    command = [program, *options, *question.split()]
    # a user's formats, for times and for columns, are not to be read by anybody else
    formats = ("SLURM_TIME_FORMAT", "SQUEUE_FORMAT", "SQUEUE_FORMAT2", "SQUEUE_SORT")
    environment = {name: value for name, value in os.environ.items() if name not in formats} | {"LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=ANSWER_SECONDS,
            env=environment,
        )
    except FileNotFoundError:
        fix = "run this where Slurm's client programs are, or give files: --cluster topology.conf --busy nodes.txt"
        raise SlurmRefused(f"the program {program} is not on PATH", where=where, fix=fix) from None
    except subprocess.TimeoutExpired:
        slow = f"no answer within {ANSWER_SECONDS:g} s"
        raise SlurmRefused(slow, where=where, fix="check that the controller answers: scontrol ping") from None
    except OSError as error:
        failed = f"{program} cannot be started: {error.strerror or error}"
        raise SlurmRefused(failed, where=where, fix="check the program and its permissions") from error
    complaints = done.stderr.decode("utf-8", "replace").strip().splitlines()
    said = f": {complaints[-1].strip()[:LONGEST]}" if complaints else ""
    if done.returncode:
        ended = f"{' '.join(command)} ended with {done.returncode}{said}"
        fix = "check that the controller answers (scontrol ping), and that SLURM_CONF names the right Slurm"
        raise SlurmRefused(ended, where=where, fix=fix)
    # a reason or a comment, which others wrote, may be in any encoding
    return Source(where, done.stdout.decode("utf-8", "replace")), said
