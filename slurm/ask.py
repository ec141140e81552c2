"""What Slurm's own programs print, asked live: the one place that starts them.

They get words, never a line for a shell.  All answers are text: not every build of ``scontrol`` has ``--json``, as
Debian's 22.05, the text says the same, and of 10,000 nodes it takes half a second instead of half a minute.
"""

import os
import shlex
import subprocess
from collections.abc import Container, Sequence

from ground.errors import InvalidInput
from ground.files import Source
from topology.slurm_snapshot import SlurmRequest, named_topology

ANSWER_SECONDS = 60.0  # for one answer; scontrol itself gives up on a controller after some 10 s, and asks the next
LONGEST = 300  # characters of a complaint that are repeated


class SlurmRefused(InvalidInput):
    """Slurm cannot be asked, or does not say what is needed."""


def ask_slurm(
    request: SlurmRequest, *, jobs: bool = False
) -> tuple[Source, tuple[Source, ...], tuple[str, ...], tuple[Source, ...] | None]:
    """Return what Slurm says of its topology, as ``topology.conf`` has it; of its nodes and of what holds them; notes;
    and what it says of its jobs, where that is wanted.

    :raises SlurmRefused: there is no ``scontrol``, no controller answers, or Slurm has no topology or no nodes.
    :raises InvalidInput: there is no partition as the request names.
    """
    # nodes first: where no controller answers, scontrol fails for them alone; without a topology it says 0 as well
    records = [ask_nodes()]
    for question, options in {"show partitions": ("--all", "--oneliner"), "show reservations": ("--oneliner",)}.items():
        answer, _ = ask("scontrol", question, *options)
        records.append(answer)
    notes = []
    for program, question in (("squeue", "--all --start"), ("scontrol", "show config")):
        try:
            answer, _ = ask(program, question)
            records.append(answer)
        except SlurmRefused as error:
            notes.append(f"{error.where} was not answered, and is not needed for most: {error.message}")
    name, _ = named_topology(records, request)
    topology, complaint = ask("scontrol", f"show topology {name}".rstrip())
    if not topology.text.strip():
        flat = f"Slurm gives no topology{complaint or ': its nodes are one flat list'}"
        fix = (
            "set TopologyPlugin=topology/tree (or block) with a topology.conf, or take all nodes as one level: "
            "scontrol show nodes > nodes.txt, and --cluster nodes.txt"
        )
        raise SlurmRefused(flat, where=topology.name, fix=fix)
    notes += [f"the topology of the partition was read, {name}"] if name else []
    # the details have the GPUs of a job where the accounting does not count them
    running = (ask("scontrol", "show jobs", "--all", "--oneliner", "--details")[0],) if jobs else None
    return topology, tuple(records), tuple(notes), running


def ask_nodes(*options: str, epoch: bool = False) -> Source:
    """Return what Slurm says of its nodes, one at least; raise as :func:`ask`, also where it lists none."""
    nodes, complaint = ask("scontrol", "show nodes", "--all", "--future", "--oneliner", *options, epoch=epoch)
    if "NodeName=" not in nodes.text:
        none = f"Slurm lists no nodes{complaint}"
        raise SlurmRefused(none, where=nodes.name, fix="check that the controller knows its nodes: sinfo")
    return nodes


def ask(program: str, question: str, *options: str, epoch: bool = False) -> tuple[Source, str]:
    """Return what a program of Slurm's prints, and the last words that it complains in; empty = none.

    :param epoch: whether it is to print times in seconds since 1970.
    :raises SlurmRefused: it is not there, does not answer, or fails.
    """
    return _run([program, *options, *question.split()], where=f"{program} {question}".rstrip(), epoch=epoch)


def tell(*words: str) -> None:
    """Have ``scontrol`` change something, each word as it is; raise as :func:`ask`."""
    _run(["scontrol", *words], where=f"scontrol {' '.join(words[:2])}")


def submit(words: Sequence[str], *, without: Container[str] = ()) -> tuple[int, str]:
    """Return the exit code of ``sbatch`` and what it prints; what it complains of goes where our own complaints go.

    :param without: variables of the environment that it is not to see.
    """
    environment = {name: value for name, value in os.environ.items() if name not in without}
    done = subprocess.run(["sbatch", *words], stdout=subprocess.PIPE, text=True, check=False, env=environment)
    return done.returncode, done.stdout


def through(command: str, text: str) -> str:
    """Give a program of the site's a text, and return its complaints; raise InvalidInput: it cannot be started."""
    try:
        done = subprocess.run(shlex.split(command), input=text, capture_output=True, text=True, check=False)
    except (OSError, ValueError, IndexError) as error:
        fix = "give the command of manifests/slurm/node_keeper, such as 'sudo -u slurm /etc/slurm/node_keeper'"
        raise InvalidInput(f"{command[:80]!r} cannot be started: {error}", where="--through", fix=fix) from error
    return done.stderr.strip() or ("" if done.returncode == 0 else f"it ended with {done.returncode}")


def _run(command: Sequence[str], *, where: str, epoch: bool = False) -> tuple[Source, str]:
    program = command[0]
    # a user's formats, for times and for columns, are not to be read by anybody else
    formats = ("SLURM_TIME_FORMAT", "SQUEUE_FORMAT", "SQUEUE_FORMAT2", "SQUEUE_SORT")
    environment = {name: value for name, value in os.environ.items() if name not in formats} | {"LC_ALL": "C"}
    environment |= {"SLURM_TIME_FORMAT": "%s"} if epoch else {}
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=ANSWER_SECONDS, env=environment
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
    complaint = f": {complaints[-1].strip()[:LONGEST]}" if complaints else ""
    if done.returncode:
        ended = f"{' '.join(command)} ended with {done.returncode}{complaint}"
        fix = "check that the controller answers (scontrol ping), and that SLURM_CONF names the right Slurm"
        raise SlurmRefused(ended, where=where, fix=fix)
    # a reason or a comment, which others wrote, may be in any encoding
    return Source(where, done.stdout.decode("utf-8", "replace")), complaint
