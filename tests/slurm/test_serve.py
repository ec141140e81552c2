"""What `arnold slurm serve` writes, in which order, and what it does where Slurm refuses."""

from __future__ import annotations

import re
from dataclasses import replace
from errno import ESTALE
from pathlib import Path
from threading import Event

import pytest

from ground.errors import InvalidInput
from scheduler.queue.fifo_and_backfill import PriorityBackfill
from slurm import serve
from slurm.ask import SlurmRefused
from slurm.serve import AlreadyServed, Service, alone, check, read_orders, served
from tests.facts import saying
from tests.slurm.made_slurm import BLOCKS, NOW, decided, job, looked


class Told:
    """A controller that takes, or refuses, what it is told; and the log of the daemon."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **refused: str) -> None:
        self.folder, self.refused = folder, refused
        self.calls: list[tuple[tuple[str, ...], bool]] = []  # words, and whether there was an order file by then
        self.log: list[str] = []
        self.service = Service(folder, PriorityBackfill(), self.log.append)
        monkeypatch.setattr(serve, "tell", self.tell)

    def tell(self, *words: str) -> None:
        """As :func:`slurm.ask.tell`."""
        self.calls.append((words, any(read_orders(self.folder))))
        if words[0] in self.refused:
            why = self.refused[words[0]].format(words[1])
            raise SlurmRefused(f"scontrol ended with 1: {why}", where=f"scontrol {' '.join(words[:2])}")


def test_reservation_order_and_one_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reservation first, which ends by itself and then holds no job; then the order; then one call."""
    told, live = Told(tmp_path, monkeypatch), looked(job())
    decision = decided(live, reserved_from=4)
    told.service.act(decision, live, set())
    (created, order_before), (update, order_then) = told.calls
    assert created[:3] == ("create", "reservation", "ReservationName=arnold_1")
    assert {"Users=ann", "Flags=FLEX,NO_HOLD_JOBS_AFTER,PURGE_COMP=00:01:00"} <= {*created}
    assert update[:2] == ("update", "JobId=1")
    assert {word.partition("=")[0] for word in update[2:]} == {"ReqNodeList", "StartTime", "Comment", "ReservationName"}
    assert (order_before, order_then) == (False, True)
    assert read_orders(tmp_path)["1"] == decision.updates[0].nodes


def test_a_reservation_that_is_refused_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An account that may not make any says so once, for all jobs, and names the command that says what is missing."""
    told, live = Told(tmp_path, monkeypatch, create="Access/permission denied"), looked(job(1), job(2))
    told.service.act(decided(live, reserved_from=4), live, set())
    updates = [words for words, _ in told.calls if words[0] == "update"]
    assert [words[1] for words in updates] == ["JobId=1", "JobId=2"]
    assert not any("ReservationName" in word for words in updates for word in words)
    assert sum("permission denied" in line and "arnold slurm check" in line for line in told.log) == 1


@pytest.mark.parametrize("refusal", ["Invalid user id for job {}", "Access/permission denied for {}"])
def test_an_account_that_may_update_no_job_of_others_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: str
) -> None:
    """In either wording of Slurm's, whatever job it is about."""
    told, once = Told(tmp_path, monkeypatch, update=refusal), set[str]()
    for live in (looked(job(1), job(2)), looked(job(3))):
        told.service.act(decided(live), live, once)
    (line,) = told.log
    assert "arnold slurm check" in line


def test_on_blocks_nothing_is_done_without_a_reservation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lasts as long as its job may run, which is to be on its nodes alone; where it is refused the job waits."""
    live = looked(job(), topology=BLOCKS)
    told, refused = Told(tmp_path, monkeypatch), Told(tmp_path, monkeypatch, create="Requested nodes are busy")
    refused.service.act(decided(live), live, set())
    assert [words[0] for words, _ in refused.calls] == ["create"]
    assert read_orders(tmp_path) == {}
    monkeypatch.setattr(serve, "tell", told.tell)
    told.service.act(decided(live), live, set())
    (created, _), (update, _) = told.calls
    assert {"Duration=UNLIMITED", "Flags=NO_HOLD_JOBS_AFTER,PURGE_COMP=00:01:00"} <= {*created}
    assert not any(word.startswith("ReqNodeList") for word in update)


def test_a_controller_that_goes_away_ends_the_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more is asked; one that refuses a job, as it has ended, is asked for the next."""
    live = looked(job(1), job(2))
    away = Told(tmp_path, monkeypatch, update="Unable to contact slurm controller (connect failure)")
    with pytest.raises(SlurmRefused):
        away.service.act(decided(live), live, set())
    assert len(away.calls) == 1
    ended = Told(tmp_path, monkeypatch, update="Job/step already completing or completed")
    ended.service.act(decided(live), live, set())
    assert len(ended.calls) == 2


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"ReqNodeList": "n[01-03],n03"}, "twice"),
        ({"ReqNodeList": "n[01-03]"}, "another number of nodes"),
        ({"ReqNodeList": "n[05-08]"}, "order of ranks"),
        ({"ReqNodeList": "n[01-03,99]"}, "order of ranks"),
    ],
)
def test_a_wrong_plan_is_never_written(changes: dict[str, str], fault: str) -> None:
    """Slurm would take each of them without a word."""
    live = looked(job())
    (update,) = decided(live).updates
    check(update, live)
    wrong = replace(update, nodes=("n01", "n02", "n03", "n04"), fields={**update.fields, **changes})
    with pytest.raises(InvalidInput, match=saying(fault)):
        check(wrong, live)


def test_nodes_of_another_partition_are_never_written() -> None:
    """As the look shows it, not as it was when the plan was made."""
    (update,) = decided(looked(job())).updates
    less = "PartitionName=all Default=YES MaxNodes=UNLIMITED MaxTime=UNLIMITED Nodes=n01 State=UP\n"
    with pytest.raises(InvalidInput, match=saying("another partition")):
        check(update, looked(job(), partitions=less))


def test_sudo_lets_through_whatever_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without slurmdbd: plans, waits, what is let go, arrays and heterogeneous jobs, jobs that Slurm holds; no more."""
    old = "ReservationName=arnold_7 StartTime=1799999000 EndTime=1900000000 Nodes=n08 Users=ann State=ACTIVE\n"
    held = job(3, required="n0[1,3,5,7]", reason="BadConstraints", priority=0)
    jobs = [job(1), job("4_[0-3,7%2]"), job("5+1"), job(6, begin=NOW + 60, count=8, comment="arnold: tp=2,dp=8")]
    told, live = Told(tmp_path, monkeypatch), looked(*jobs, held, reservations=old)
    orders = {"3": ("n01", "n03", "n05", "n07")}
    told.service.act(decided(live, orders, reserved_from=4), live, set())
    calls = [" ".join(words) for words, _ in told.calls]
    assert {line.split()[0] for line in calls} == {"create", "delete", "release", "update"}
    assert len(calls) == 8
    text = (Path(__file__).parents[2] / "manifests" / "slurm" / "sudoers").read_text()
    allowed = re.findall(r"/usr/bin/scontrol (\^.*\$)(?:, |$)", text, re.MULTILINE)
    calls += ["show nodes --all", "--all --oneliner show partitions"]
    assert [line for line in calls if not any(re.search(words, line) for words in allowed)] == []
    for line in ("update NodeName=n01 State=DRAIN", "release", "delete NodeName=n01", "shutdown", "update JobId=a "):
        assert not any(re.search(words, line) for words in allowed)


def test_orders_that_cannot_be_read(tmp_path: Path) -> None:
    """A folder that is called as a job is no order; a folder of orders that is gone is an error with its name."""
    (tmp_path / "7").mkdir()
    (tmp_path / "8").write_text("n01\nn03\n")
    assert read_orders(tmp_path) == {"8": ("n01", "n03")}
    with pytest.raises(InvalidInput, match=saying("orders", "--orders")) as error:
        read_orders(tmp_path / "away")
    assert error.value.where == str(tmp_path / "away")


def test_the_daemon_goes_on_when_its_folder_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system that answers nothing for a while, where an order of a job that has ended is to go."""
    told, live, stop = Told(tmp_path, monkeypatch), looked(job(9, comment="")), Event()
    (tmp_path / "7").write_text("n01\n")

    def fails(_: Path) -> None:
        raise OSError(ESTALE, "Stale file handle")

    def asked() -> tuple[float, str]:
        if told.log:
            stop.set()
        return 0.0, ""

    monkeypatch.setattr(serve, "clock_and_counts", asked)
    monkeypatch.setattr(serve.Eyes, "look", lambda _: live)
    monkeypatch.setattr(Path, "unlink", fails)
    told.service.run(stop)
    assert any("Stale file handle" in line for line in told.log)


def test_one_daemon_serves_a_folder(tmp_path: Path) -> None:
    """By one policy, which it says; the second is an error of exit code 1; when the first has gone, another may."""
    assert served(tmp_path) is None
    with alone(tmp_path, "fifo"):
        assert served(tmp_path) == "fifo"
        with pytest.raises(AlreadyServed, match=saying("process")) as error, alone(tmp_path, "arnold"):
            pass
        assert error.value.exit_code == 1
        assert served(tmp_path) == "fifo"
    with alone(tmp_path, "arnold"):
        assert served(tmp_path) == "arnold"
    assert served(tmp_path) is None
