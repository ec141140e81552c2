"""A run that is asked to stop notices it between two instants."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from arnold.console.interrupts import asked_to_stop, stopped_by
from tests.facts import says


def test_the_first_signal_asks_and_the_second_interrupts() -> None:
    """The SIGTERM of a batch system, like Ctrl-C: once is a question, twice an order; then all is as before."""
    before = signal.getsignal(signal.SIGTERM)
    with asked_to_stop() as asked:
        assert not asked()
        signal.raise_signal(signal.SIGTERM)
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_signal_stops_whatever_the_wait_for_it_is_doing() -> None:
    """It may come while the event that it sets is locked, as at the begin of each wait; then all is as before."""
    before = signal.getsignal(signal.SIGTERM)
    with stopped_by(signal.SIGTERM) as stop:
        assert not stop.is_set()
        with stop._cond:  # type: ignore[attr-defined] # what Event.wait holds
            signal.raise_signal(signal.SIGTERM)
        assert stop.wait(10)
    assert signal.getsignal(signal.SIGTERM) == before


HARD = random.Random(103)
PODS = [HARD.randint(2, 90) for _ in range(22)]
"""Free nodes of 22 pods, 979 in all; 122 x 8 cells fill all but three, and are not proved in a minute."""

SEARCHING = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
deaf = float(sys.argv.pop())
import arnold.commands.run as command
from arnold.console import interrupts

interrupts.GRACE = 0.2
own_run = command.run

def run(args):
    from scheduler.placement.exact import schedule

    def run_stage(stage, search):
        if stage is schedule.STAGES[0]:
            print("searching", file=sys.stderr, flush=True)
            time.sleep(deaf)
        stage(search)

    schedule.search_pairs.__defaults__ = (run_stage,)
    return own_run(args)

command.run = run
from arnold.main import main
main("place", "--cluster", "cluster.csv", "--job", "job.yaml", "--time-limit", "600", "--json")
"""
"""The command, which says on standard error when there is a placement and the stages that better it begin.

It takes SIGINT as at a terminal, whatever the tests were started with.
"""


@contextmanager
def searching(folder: Path, *, deaf: float = 0.0) -> Iterator[subprocess.Popen[str]]:
    """A process in the middle of a search that would take ten minutes.

    :param deaf: seconds in which the stage does not look whether it is to end.
    """
    rows = [f"p{pod}-{i},p{pod},8" for pod, room in enumerate(PODS) for i in range(room)]
    (folder / "cluster.csv").write_text("\n".join(["node,pod,gpus", *rows]) + "\n")
    job = "name: hard\ngpus_per_node: 8\nparallelism: {tp: 8, dp: 122, pp: 8}\nalpha: 0.4\n"
    (folder / "job.yaml").write_text(job)
    command = [sys.executable, "-c", SEARCHING, str(deaf)]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert "searching\n" in iter(process.stderr.readline, "")
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_clock_of_a_search(tmp_path: Path, number: int) -> None:
    """Exit 0 with the best so far and its bound, long before the limit of ten minutes, and what ended it."""
    with searching(tmp_path) as search:
        search.send_signal(number)
        out, _ = search.communicate(timeout=300)
    answer = json.loads(out)
    assert (search.returncode, answer["status"], answer["stopped_at"]) == (0, "feasible", "interrupted")
    assert answer["proved_to"] is None
    assert len({cell["node"] for cell in answer["assignment"]}) == 122 * 8
    # where every group touches one pod the objective is 1
    assert 1.0 <= answer["bound"] < answer["objective"]
    assert says(answer["notes"], "interrupted")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_ends_the_program(tmp_path: Path, number: int, code: int) -> None:
    """At once, with no answer, also while the search does not listen."""
    with searching(tmp_path, deaf=300.0) as search:
        assert search.stderr is not None
        search.send_signal(number)
        assert any("best so far" in line for line in iter(search.stderr.readline, ""))
        search.send_signal(number)
        out, _ = search.communicate(timeout=200)
    assert (search.returncode, out) == (code, "")
