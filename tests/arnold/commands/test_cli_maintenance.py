"""Nodes that go away later, and jobs that say how long they run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.facts import says

Arnold = Callable[..., Any]

NOW = "2026-12-03T12:00:00Z"
FRIDAY = (
    '- {node: "n[0-3]", kind: faulty, since: 2026-12-04T06:00:00Z, until: 2026-12-04T18:00:00Z, evidence: cooling}\n'
)


def job_with(tmp_path: Path, text: str) -> Path:
    """Return a job file of 2 x 2 nodes with more keys."""
    file = tmp_path / "job.yaml"
    file.write_text("{parallelism: {tp: 8, dp: 2, pp: 2}, gpus_per_node: 8" + text + "}\n")
    return file


@pytest.fixture
def cluster(tmp_path: Path) -> list[Any]:
    """Two racks of four nodes, of which the first goes away on Friday at six; it is Thursday noon."""
    cluster, flags = tmp_path / "eight.csv", tmp_path / "friday.yaml"
    cluster.write_text("\n".join(["node,rack,gpus", *(f"n{i},r{i // 4},8" for i in range(8)), ""]))
    flags.write_text(FRIDAY)
    return ["--cluster", cluster, "--flags", flags, "--at", NOW]


def nodes_of(ran: Any) -> set[str]:
    """Return the nodes of a placement."""
    return {cell["node"] for cell in ran.json["assignment"]}


def test_a_job_that_ends_before_may_have_the_nodes(arnold: Arnold, cluster: list[Any], tmp_path: Path) -> None:
    """18 hours are left; n4 is in use, so the four together are those of the first rack, and a note names them."""
    busy = tmp_path / "busy"
    busy.write_text("n4\n")
    ran = arnold("place", *cluster, "--busy", busy, "--job", job_with(tmp_path, ", expected_hours: 18"), "--json")
    assert nodes_of(ran) == {"n0", "n1", "n2", "n3"}
    assert says(ran.json["notes"], "2026-12-04 06:00 UTC", "n0")


@pytest.mark.parametrize("names", ["short long", "long short"])
def test_of_several_jobs_each_is_kept_off_by_its_own_length(
    arnold: Arnold, cluster: list[Any], tmp_path: Path, names: str
) -> None:
    """Both have a rack, whichever is named first: the first rack is there for the short one alone, all eight nodes are
    idle to one of the two, and what is not known to end has no nodes that go away.
    """
    words = list[Any]()
    for name in names.split():
        file = tmp_path / f"{name}.yaml"
        hours = {"short": 18, "long": 100}[name]
        text = f"{{name: {name}, parallelism: {{tp: 8, dp: 2, pp: 2}}, gpus_per_node: 8, expected_hours: {hours}}}\n"
        file.write_text(text)
        words += ["--job", file]
    jobs = arnold("place", *cluster, *words, "--json").json["jobs"]
    assert {cell["node"] for cell in jobs["short"]["assignment"]} == {"n0", "n1", "n2", "n3"}
    assert {cell["node"] for cell in jobs["long"]["assignment"]} == {"n4", "n5", "n6", "n7"}
    assert says(arnold("place", *cluster, *words).out, "8 idle")


@pytest.mark.parametrize(("hours", "status"), [("18.1", "infeasible"), ("1000", "infeasible")])
def test_a_job_that_does_not_is_kept_off(
    arnold: Arnold, cluster: list[Any], tmp_path: Path, hours: str, status: str
) -> None:
    """It needs four nodes, and three are left; the reason is said."""
    busy = tmp_path / "busy"
    busy.write_text("n4\n")
    ran = arnold("place", *cluster, "--busy", busy, "--job", job_with(tmp_path, f", expected_hours: {hours}"), "--json")
    assert (ran.code, ran.json["status"]) == (3, status)
    assert says(ran.json["cluster"]["kept_out"], "going away at 2026-12-04 06:00 UTC")


def test_an_interruptible_job_takes_them_last(arnold: Arnold, cluster: list[Any], tmp_path: Path) -> None:
    """Both racks are free: it lies in the second; with n4 in use it still has a placement, on nodes that go away."""
    job = job_with(tmp_path, ", expected_hours: 100, interruptible: true")
    assert nodes_of(arnold("place", *cluster, "--job", job, "--json")) == {"n4", "n5", "n6", "n7"}
    busy = tmp_path / "busy"
    busy.write_text("n4\n")
    ran = arnold("place", *cluster, "--busy", busy, "--job", job, "--json")
    assert ran.code == 0
    assert nodes_of(ran) & {"n0", "n1", "n2", "n3"}


def test_without_hours_the_flags_are_told(arnold: Arnold, cluster: list[Any], tmp_path: Path) -> None:
    """A note says how many begin later and what would keep the job off."""
    ran = arnold("place", *cluster, "--job", job_with(tmp_path, ""), "--json")
    assert says(ran.json["notes"], "4", "2026-12-04 06:00 UTC", "expected_hours")


def test_hours_beyond_all_times(arnold: Arnold, cluster: list[Any], tmp_path: Path) -> None:
    """What runs is said to end on the last day of the calendar, for never: a job of 100 hours starts then."""
    running, job = tmp_path / "jobs.yaml", job_with(tmp_path, ", expected_hours: 100")
    running.write_text('jobs: [{name: a, nodes: "n[0-7]", ends: 9999-12-31T00:00:00Z}]\n')
    ran = arnold("explain", *cluster, "--job", job, "--running", running, "--when", "--json")
    assert ran.json["start"]["p50"] == "9999-12-31T00:00:00Z"


def test_hours_that_cannot_be(arnold: Arnold, cluster: list[Any], tmp_path: Path) -> None:
    """None and less than none are refused with the line."""
    ran = arnold("place", *cluster, "--job", job_with(tmp_path, ", expected_hours: 0"))
    assert ran.code == 2
    assert says(ran.err, "expected_hours", "job.yaml:1")


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let local time, which Slurm prints, be UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


RESERVATIONS = (
    "ReservationName=maint1 StartTime=2026-12-03T10:00:00 EndTime=2026-12-03T18:00:00 Duration=08:00:00 Nodes=n[0-3] "
    "NodeCnt=4 Flags=MAINT,IGNORE_JOBS State=ACTIVE\n"
    "ReservationName=later StartTime=2026-12-04T06:00:00 EndTime=2026-12-04T08:00:00 Nodes=n[0-3] Users=ann "
    "State=INACTIVE\n"
)


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(
    ("hours", "options", "start"),
    [
        (", expected_hours: 12", [], "2026-12-03T18:00:00Z"),
        (", expected_hours: 12.5", [], "2026-12-04T08:00:00Z"),
        ("", ["--time", "12:00:00"], "2026-12-03T18:00:00Z"),
        ("", ["--time", "12:30:00"], "2026-12-04T08:00:00Z"),
        ("", [], "2026-12-04T08:00:00Z"),
        (", expected_hours: 12", ["--reservation", "later"], None),
        (", expected_hours: 2", ["--reservation", "later"], "2026-12-04T06:00:00Z"),
    ],
)
def test_it_starts_between_reservations(
    arnold: Arnold, tmp_path: Path, hours: str, options: list[str], start: str | None
) -> None:
    """Four nodes are in maintenance until six, and reserved for ann twelve hours later; the others are in use until
    the 5th: so long a job starts between, a longer one, or one of no known length, when ann has had hers.  In ann's own
    reservation two hours are possible, and twelve never.
    """
    files = {
        "eight.csv": "\n".join(["node,rack,gpus", *(f"n{i},r{i // 4},8" for i in range(8)), ""]),
        "nodes.txt": "NODELIST STATE GRES\nn[0-3] maint gpu:8\nn[4-7] alloc gpu:8\n",
        "reservations.txt": RESERVATIONS,
        "jobs.yaml": 'jobs: [{name: a, nodes: "n[4-7]", ends: 2026-12-05T00:00:00Z}]\n',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    lists = [word for name in ("nodes.txt", "reservations.txt") for word in ("--busy", tmp_path / name)]
    ran = arnold(
        "explain", "--cluster", tmp_path / "eight.csv", *lists, "--running", tmp_path / "jobs.yaml", "--when", "--at",
        NOW, "--job", job_with(tmp_path, hours), *options, "--json",
    )  # fmt: skip
    assert ran.json["start"]["p50"] == start


@pytest.mark.parametrize(
    ("until", "options", "start"),
    [
        ("2026-12-03T18:00:00Z", [], "2026-12-03T18:00:00Z"),
        ("2026-12-03T18:00:00Z", ["--tolerate", "drain"], NOW),
        (None, [], "2026-12-05T00:00:00Z"),
    ],
)
def test_it_starts_when_taints_go(
    arnold: Arnold, tmp_path: Path, until: str | None, options: list[str], start: str
) -> None:
    """Four nodes have a taint that is to go at six, and the others are in use until the 5th: a job that puts up with it
    starts at once; where nothing says when it goes, the others count.
    """

    def node(i: int) -> dict[str, Any]:
        about: dict[str, Any] = {"name": f"n{i}", "labels": {"example.com/rack": f"r{i // 4}"}}
        spec: dict[str, Any] = {}
        if i < 4:
            about["annotations"] = {} if until is None else {"arnold.dev/taints-until": until}
            spec["taints"] = [{"key": "drain", "effect": "NoSchedule"}]
        gpus = {"nvidia.com/gpu": "8"}
        ready = [{"type": "Ready", "status": "True"}]
        return {
            "kind": "Node",
            "metadata": about,
            "spec": spec,
            "status": {"capacity": gpus, "allocatable": gpus, "conditions": ready},
        }

    file, jobs = tmp_path / "nodes.json", tmp_path / "jobs.yaml"
    file.write_text(json.dumps({"kind": "List", "items": [node(i) for i in range(8)]}))
    jobs.write_text('jobs: [{name: a, nodes: "n[4-7]", ends: 2026-12-05T00:00:00Z}]\n')
    ran = arnold(
        "explain", "--cluster", file, "--levels", "example.com/rack", "--running", jobs, "--when", "--at", NOW, "--job",
        job_with(tmp_path, ""), *options, "--json",
    )  # fmt: skip
    assert ran.json["start"]["p50"] == start
