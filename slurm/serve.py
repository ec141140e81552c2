"""``arnold slurm serve``: look, decide, write, until it is told to stop.

It keeps nothing of its own: killed anywhere, its successor goes on, and without one the begin of each job comes, and
Slurm starts it.  A lock beside the orders keeps a second daemon away.

How often it looks: a look at a large Slurm costs half a second of processor time.  So it asks every second for the
counters of jobs alone, looks when :mod:`slurm.watch` says that something came of them, and besides when polls, looks
and all else took less than a hundredth of a core since, or when the begin of a job that waits is near.
"""

import fcntl
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from time import monotonic
from typing import ClassVar

from ground.errors import ArnoldError, InvalidInput
from ground.files import check_writable, write_file
from scheduler.placement.types import Limits
from scheduler.queue.policy import QueuePolicy
from slurm.ask import SlurmRefused, tell
from slurm.decide import NEARLY, RESERVED_FROM, Orders, SlurmDecision, Update, at, decide
from slurm.live import Eyes, LiveSlurm, ask_rows, clock_and_counts
from slurm.watch import COLUMNS, LookBudget, SlurmWatch, processor_seconds
from topology.node_names import expand_hostlist, fold_hostlist

SHARE = 0.01  # of a core that polls and looks for no reason take together
POLL = 1.0  # seconds between two questions for the counters; more where one costs more than half of the share
LEAST_REST, MOST_REST = 5.0, 300.0  # seconds between looks for no reason
CLEARING = 60.0  # seconds for which nodes of a job that has ended are waited for
LONGEST_BACK_OFF = 30.0  # seconds between questions to a controller that does not answer
HELD_MINUTES = 10  # a reservation ends by itself when its job has not started until then
FLAGS = "NO_HOLD_JOBS_AFTER,PURGE_COMP=00:01:00"
"""Of a reservation: its job may start without it; it goes a minute after its job, or when none is in it."""
FLEXIBLE = f"FLEX,{FLAGS}"
"""Of one whose job requires its nodes: the job may run on when it ends."""
LOCK = ".serve.lock"
AWAY = ("not on PATH", "no answer within", "Unable to contact", "timed out", "Connection refused", "Zero Bytes")
"""Words of errors after which nothing more is asked for a while."""
DENIED = ("ermission denied", "Invalid user id")
"""Words of errors of an account that may not do what is asked, of any job."""


class AlreadyServed(ArnoldError):
    """Another daemon serves this Slurm."""

    exit_code: ClassVar[int] = 1


@dataclass(frozen=True)
class Service:
    """How a Slurm is served."""

    folder: Path  # of the orders
    policy: QueuePolicy
    say: Callable[[str], None]  # writes a line of the log
    limits: Limits = Limits(seconds=10.0)  # noqa: RUF009  (frozen)
    reserved_from: float = RESERVED_FROM

    def run(self, stop: Event) -> None:
        """Serve until told to stop.

        :raises AlreadyServed: another daemon does; InvalidInput: the folder of orders cannot be written to.
        """
        check_writable(self.folder / "0")
        eyes, pause, told, budget = Eyes(), 1.0, set[str](), LookBudget(SHARE, MOST_REST)
        tries, undone = 0, tuple[object, ...]()
        with alone(self.folder, self.policy.name):
            while not stop.is_set():
                spent = processor_seconds()
                try:
                    counts = clock_and_counts()[1]
                    orders = read_orders(self.folder)  # first, as an order of a job that has ended since is kept
                    live = eyes.look()
                    decision = decide(
                        live, orders, policy=self.policy, limits=self.limits, reserved_from=self.reserved_from
                    )
                    self.act(decision, live, told)
                    least = max(POLL, 2 * (processor_seconds() - spent))
                    watch = SlurmWatch(live, decision)
                    # what comes of it is looked at soon, and less and less so where nothing does
                    before, updated = undone, [update.jobs for update in decision.updates]
                    undone = (updated, decision.unheld, watch.unclear)
                    tries = tries + 1 if undone == before else 0
                    most = least * 2 ** min(tries, 9) if any(undone) else MOST_REST
                    self._rest(stop, watch, budget, counts=counts, least=least, most=most)
                    pause = 1.0
                except (ArnoldError, OSError) as error:  # of what Slurm says, too: it may be that of a later release
                    self.say(f"{error}; asked again in {pause:.0f} s")
                    stop.wait(pause)
                    pause = min(2 * pause, LONGEST_BACK_OFF)

    def _rest(
        self, stop: Event, watch: SlurmWatch, budget: LookBudget, *, counts: str, least: float, most: float
    ) -> None:
        """Wait until another look is due.

        :param counts: counters of jobs before the look.
        :param least: seconds that pass before the next one; ``most``: after which there is one.
        """
        live, started, poll = watch.live, monotonic(), POLL
        asked = [live.by_number[number] for number, state in watch.decision.states.items() if state == "asked"]
        near = min((job.begin - live.now - NEARLY / 2 for job in asked if job.begin is not None), default=MOST_REST)
        most = max(least, min(most, near, MOST_REST))
        polls, polling = 0, 0.0
        changed, clearing = started, bool(asked) and any(job.state == "COMPLETING" for job in live.jobs)
        while not stop.wait(poll) and (rested := monotonic() - started) < most:
            spent = processor_seconds()
            latest = clock_and_counts()[1]
            polls, polling = polls + 1, polling + processor_seconds() - spent
            poll = max(POLL, 2 * polling / polls / SHARE)
            changed = monotonic() if latest != counts else changed
            if rested >= least and (latest != counts or (clearing and monotonic() - changed < CLEARING)):
                rows = [*ask_rows(COLUMNS)]
                if watch.worth_a_look(rows):
                    return
                counts, clearing = latest, bool(asked) and any(row["state"] == "COMPLETING" for row in rows)
            if budget.paid() and rested >= LEAST_REST:
                return

    def act(self, decision: SlurmDecision, live: LiveSlurm, told: set[str]) -> None:
        """Write what was decided; what is refused of one job stops nothing of the others.

        :param told: what was said before, so that it is said once.
        :raises SlurmRefused: the controller does not answer.
        """
        for name in decision.unheld:
            with self._going_on(told):
                tell("delete", f"ReservationName={name}")
        for update in decision.updates:
            with self._going_on(told):
                self._write(update, live, told)
        for number in decision.forgotten:
            with suppress(FileNotFoundError):
                (self.folder / number).unlink()

    def _write(self, update: Update, live: LiveSlurm, told: set[str]) -> None:
        if update.nodes:
            check(update, live)
        if update.reservation:
            required = "ReqNodeList" in update.fields
            words = {
                "ReservationName": update.reservation, "Nodes": fold_hostlist(sorted(update.nodes)),
                "StartTime": at(live.now), "Duration": HELD_MINUTES if required else "UNLIMITED", "Users": update.owner,
                "Flags": FLEXIBLE if required else FLAGS,
            }  # fmt: skip
            held = False
            with self._going_on(told):
                tell("create", "reservation", *(f"{key}={value}" for key, value in words.items()))
                held = True
            if not held and not required:
                return  # it is asked about again
            if not held:
                rest = {key: value for key, value in update.fields.items() if key != "ReservationName"}
                update = replace(update, fields=rest)
        if update.nodes:
            write_order(self.folder, update.jobs[0], update.nodes)
        tell(*update.words())
        if update.released:
            tell("release", update.jobs[0])
        self.say(f"job {','.join(update.jobs)}: {update.why}")

    @contextmanager
    def _going_on(self, told: set[str]) -> Iterator[None]:
        """Say what is refused, once, and go on; but not where the controller does not answer."""
        try:
            yield
        except ArnoldError as error:
            if isinstance(error, SlurmRefused) and any(word in error.message for word in AWAY):
                raise
            reason = error.message.rpartition(": ")[2] if isinstance(error, SlurmRefused) else error.message
            denied = next((words for words in DENIED if words in reason), "")
            line = f"{error.where}: {reason}" + ("; `arnold slurm check` says what is missing" if denied else "")
            if (about := denied or line) not in told:
                told.add(about)
                self.say(line)


def check(update: Update, live: LiveSlurm) -> None:
    """Make sure of a plan before it is written: Slurm takes doubles, too many names and other partitions' nodes.

    :raises InvalidInput: it is wrong, which is a mistake of ours.
    """
    job = live.by_number[update.jobs[0]]
    names = expand_hostlist(update.fields["ReqNodeList"]) if "ReqNodeList" in update.fields else update.nodes
    partition = live.said.known_partitions().get(job.partition)
    faults = {
        "has a node twice": len({*names}) < len(names),
        "has another number of nodes than its job": len(names) != job.count,
        "is not the order of ranks": sorted(names) != sorted(update.nodes),
        "has nodes of another partition": partition is not None
        and partition.nodes is not None
        and not partition.nodes.issuperset(names),
    }
    for fault, is_so in faults.items():
        if is_so:
            raise InvalidInput(f"the plan {fault}", where=f"job {job.number}", fix="please report it")


def write_order(folder: Path, number: str, nodes: Sequence[str]) -> None:
    """Write the order file of a job: its nodes by rank, one a line."""
    write_file(folder / number, "".join(f"{node}\n" for node in nodes))


def read_orders(folder: Path) -> Orders:
    """Return the order files: number of a job -> its nodes by rank; raise InvalidInput: they cannot be read."""
    orders: dict[str, tuple[str, ...]] = {}
    try:
        for file in folder.iterdir():
            if file.name.isdecimal() and file.is_file():
                with suppress(FileNotFoundError):
                    orders[file.name] = tuple(file.read_text(errors="replace").split())
    except OSError as error:
        why, fix = f"the orders of ranks cannot be read: {error.strerror}", "say --orders FOLDER, or mount it again"
        raise InvalidInput(why, where=str(error.filename or folder), fix=fix) from error
    return orders


@contextmanager
def alone(folder: Path, policy: str) -> Iterator[None]:
    """Hold the lock of a folder of orders, and say in it by which queue policy jobs are planned.

    :raises AlreadyServed: another process holds it.
    """
    with (folder / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            fix = "stop that one first, or leave it to it"
            raise AlreadyServed(f"{file.read().strip()} serves this Slurm", where=str(folder), fix=fix) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {os.uname().nodename} (--policy {policy})\n")
        file.flush()
        yield


def served(folder: Path) -> str | None:
    """Return the queue policy of the daemon that holds the lock of a folder of orders; empty = it does not say it yet,
    ``None`` = there is none.
    """
    try:
        with (folder / LOCK).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                policy = re.search(r"--policy ([^)]+)", file.read())
                return "" if policy is None else policy[1]
    except OSError:
        pass
    return None
