"""Commands after a fault, of `arnold health`: words first, one JSON document, errors that help."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arnold.documents.recover_answers import CheckpointPeersDocument, EvictDocument, IsolateDocument
from ground.records import read_json
from tests.facts import says
from tests.health.recovery.recovery_world import SYNC, machines, stacks_of, write_dumps

Arnold = Callable[..., Any]

JOB = "name: small\nparallelism: {tp: 8, dp: 6, pp: 4}\nalpha: 0.25\n"
ROW = 2
"""The PP group that hangs: 6 rows, node rank = stage * 6 + row, so that it is on n002, n008, n014 and n020."""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Six rows by four stages."""
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return path


@pytest.fixture
def placement(tmp_path: Path) -> Path:
    """Node rank i on n(i)."""
    rows = [{"node": f"n{i:03}", "dp": i % 6, "pp": i // 6, "node_rank": i} for i in range(24)]
    degrees = {"tp": 8, "dp": 6, "pp": 4}
    path = tmp_path / "placement.json"
    path.write_text(json.dumps({"job": {"name": "small", "parallelism": degrees, "alpha": 0.25}, "assignment": rows}))
    return path


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Two minipods of three racks of four nodes: n000 to n023."""
    rows = [f"n{i:03},mp{i // 12},r{i // 4}" for i in range(24)]
    path = tmp_path / "cluster.csv"
    path.write_text("\n".join(["node,minipod,rack", *rows]) + "\n")
    return path


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    """Stages 1 to 3 of one PP group stand in a send, everybody else in the reduction of gradients."""
    return write_dumps(tmp_path / "dumps", stacks_of(machines(), lambda r, c: r == ROW and c > 0))


def test_evict_names_the_group(arnold: Arnold, dumps: Path, placement: Path) -> None:
    """The verdict, the machines, and flags of those with outliers; the document reads back."""
    ran = arnold("health", "evict", dumps, "--placement", placement, "--json")
    assert ran.code == 0
    document = ran.json
    assert document["unit"]["family"] == "pp"
    assert document["unit"]["group"] == ROW
    assert [machine["node"] for machine in document["machines"]] == ["n002", "n008", "n014", "n020"]
    assert [machine["outliers"] for machine in document["machines"]] == [0, 8, 8, 8]
    assert [flag["node"] for flag in document["flags"]] == ["n008", "n014", "n020"]
    assert read_json(EvictDocument, json.loads(ran.out)).doubt is None
    text = arnold("health", "evict", dumps, "--placement", placement).out
    assert says(text, "PP group 2", "4 machines", "24 of 192 ranks")
    assert "n[002,008,014,020]" in text


def test_flags_of_an_eviction_keep_nodes_out(
    arnold: Arnold, dumps: Path, placement: Path, cluster: Path, tmp_path: Path
) -> None:
    """The saved document is a file of flags: `arnold place` then leaves the three machines out."""
    saved = tmp_path / "evict.json"
    saved.write_text(arnold("health", "evict", dumps, "--placement", placement, "--json").out)
    small = tmp_path / "small.yaml"
    small.write_text("name: s\nparallelism: {tp: 8, dp: 3, pp: 7}\nalpha: 0.5\n")
    args = ["place", "--cluster", cluster, "--job", small, "--flags", saved, "--json"]
    document = arnold(*args).json
    used = {cell["node"] for cell in document["assignment"]}
    # 24 nodes, 3 of them faulty: a job of 21 takes all the others.
    assert len(used) == 21
    assert used.isdisjoint({"n008", "n014", "n020"})


def test_evict_without_a_placement(arnold: Arnold, dumps: Path, job: Path) -> None:
    """Machines are node ranks, nobody is flagged, and the note says where names come from."""
    document = arnold("health", "evict", dumps, "--job", job, "--json").json
    assert [machine["node_rank"] for machine in document["machines"]] == [2, 8, 14, 20]
    assert {machine["node"] for machine in document["machines"]} == {None}
    assert document["flags"] == []
    assert any("--placement" in note for note in document["notes"])


def test_evict_in_rounds(arnold: Arnold, placement: Path, tmp_path: Path) -> None:
    """Five looks, a different machine of row 2 lags in each: the row had the most outliers in all five."""
    looks = [
        write_dumps(tmp_path / f"look-{i}", stacks_of(machines(), lambda r, c, i=i: (r, c) == (ROW, i % 4)))  # type: ignore[misc]
        for i in range(5)
    ]
    document = arnold("health", "evict", "--rounds", *looks, "--placement", placement, "--json").json
    assert (document["unit"]["family"], document["unit"]["group"], document["unit"]["rounds"]) == ("pp", ROW, 5)
    assert document["looks"] == 5
    one = arnold("health", "evict", "--rounds", looks[0], "--placement", placement, "--json")
    assert (one.code, one.json["error"]["where"]) == (2, "--rounds")


def test_evict_says_why_not(arnold: Arnold, job: Path, tmp_path: Path) -> None:
    """All ranks alike: exit 0, nothing to evict, in words."""
    dumps = write_dumps(tmp_path / "alike", stacks_of(machines(), lambda r, c: False))
    ran = arnold("health", "evict", dumps, "--job", job)
    assert ran.code == 0
    assert says(ran.out, "Evict nothing", "all 192 ranks", "same stack")


def test_evict_lenient(arnold: Arnold, dumps: Path, job: Path) -> None:
    """A dump that cannot be read is an error with its file; with --lenient it is left out and named."""
    (dumps / "rank-0.txt").write_text("Process 1: x\nPython v3.12\n\nrubbish\n")
    strict = arnold("health", "evict", dumps, "--job", job, "--json")
    assert (strict.code, strict.json["error"]["kind"]) == (2, "InvalidInput")
    assert strict.json["error"]["where"].endswith("rank-0.txt:4")
    lenient = arnold("health", "evict", dumps, "--job", job, "--lenient", "--json").json
    assert [Path(drop["file"]).name for drop in lenient["dropped"]] == ["rank-0.txt"]
    assert lenient["missing"] == [0]
    assert lenient["unit"]["group"] == ROW
    said = arnold("health", "evict", dumps, "--job", job, "--lenient").out
    assert "Left out" in said
    assert said.count("rank-0.txt") == 1  # its reason begins with the file and the line: the file is not said twice


def test_evict_lines_tell_ranks_apart(arnold: Arnold, job: Path, tmp_path: Path) -> None:
    """One machine stands on another line of the same call: found with --lines, not without."""
    elsewhere = (SYNC[0].replace(":10", ":11"), *SYNC[1:])
    stacks = stacks_of(machines(), lambda r, c: (r, c) == (1, 1), stack=elsewhere)
    dumps = write_dumps(tmp_path / "lines", stacks)
    assert arnold("health", "evict", dumps, "--job", job, "--json").json["unit"] is None
    document = arnold("health", "evict", dumps, "--job", job, "--lines", "--json").json
    assert document["unit"]["node_ranks"] == [7]


@pytest.mark.parametrize("threads", ["main", "all"])
def test_the_calls_shown_tell_groups_apart(arnold: Arnold, job: Path, tmp_path: Path, threads: str) -> None:
    """A system call that all ranks wait in says nothing and is left out; helper threads that are alike are, too."""
    stacks = stacks_of(machines(), lambda r, c: (r, c) == (1, 1))
    deep = {rank: ("clock_nanosleep (libc.so.6)", *stack) for rank, stack in stacks.items()}
    dumps = write_dumps(tmp_path / "deep", deep)
    out = arnold("health", "evict", dumps, "--job", job, "--threads", threads).out
    assert "... < wait (torch/distributed/c10d.py) < finish_grad_sync" in out
    assert "... < _p2p_ops (p2p_communication.py) < send_backward" in out
    assert "nanosleep" not in out


def test_many_stacks_are_cut_short(arnold: Arnold, job: Path, tmp_path: Path) -> None:
    """A table of stacks has at most twenty rows, and says how many more there are."""
    stacks = stacks_of(machines(), lambda r, c: False)
    stacks |= {rank: (f"odd{rank} (a.py:1)",) for rank in range(30)}
    out = arnold("health", "evict", write_dumps(tmp_path / "many", stacks), "--job", job).out
    assert "... 11 more" in out


def test_replay_plans_and_finds(arnold: Arnold, job: Path, placement: Path) -> None:
    """PP 4, DP 6: k = 1 gives m = 4, n = 6. Machine 13 is in 13 // 4 = 3 and 13 % 6 = 1."""
    plan = arnold("health", "isolate", "--job", job, "--json")
    assert plan.code == 0
    document = read_json(IsolateDocument, json.loads(plan.out))
    assert (document.answer, document.group_size, document.groups, document.unique) == ("plan", 4, 6, True)
    assert document.horizontal[3] == (12, 13, 14, 15)
    assert document.vertical[1] == (1, 7, 13, 19)
    args = ["health", "isolate", "--placement", placement, "--failed-horizontal", 3, "--failed-vertical", 1]
    document = arnold(*args, "--json").json
    assert [(suspect["node"], suspect["sure"]) for suspect in document["suspects"]] == [("n013", "likely")]
    assert (document["answer"], document["third"]) == ("suspects", document["next"])
    again = ["--repeats", 2, "--failed", 1, 3, "--failed", 2, 1, "--failed-third", 0, "--failed", 3, 0]
    assert arnold(*args, *again).out.startswith("The culprit is n013")


def test_replay_warns_where_it_is_not_unique(arnold: Arnold, job: Path) -> None:
    """With k = 3 groups are of 12 machines and there are 2: six suspects, said in the plan and with the outcome."""
    text = " ".join(arnold("health", "isolate", "--job", job, "--replicas", 3).out.split())
    assert "up to 6 machines, not one" in text
    assert "m = 12, n = 2" in text
    document = arnold(
        "health", "isolate", "--job", job, "--replicas", 3, "--failed-horizontal", 0, "--failed-vertical", 1, "--json"
    ).json
    assert document["answer"] == "suspects"
    assert [machine["node_rank"] for machine in document["suspects"]] == [1, 3, 5, 7, 9, 11]


def test_peers_share_nothing(arnold: Arnold, cluster: Path, placement: Path) -> None:
    """Every machine has one peer, in another row, stage and rack; the document reads back."""
    ran = arnold(
        "health", "backups", "--cluster", cluster, "--placement", placement, "--failure-level", "rack", "--json"
    )
    assert ran.code == 0
    document = read_json(CheckpointPeersDocument, json.loads(ran.out))
    assert sorted(peer.peer for peer in document.peers) == list(range(24))
    for row in document.peers:
        peer = document.peers[row.peer]
        assert row.dp != peer.dp
        assert row.pp != peer.pp
        assert row.node_rank // 4 != peer.node_rank // 4
    assert document.conflict == ()
    default = arnold("health", "backups", "--cluster", cluster, "--placement", placement)
    assert says(default.out, "24 machines", "no PP, DP or TP group", "no rack")


def test_peers_say_what_gives_way(arnold: Arnold, cluster: Path, placement: Path) -> None:
    """Two minipods of twelve: a peer in the other one for all, which is no conflict; that of all nodes in one is."""
    document = arnold(
        "health", "backups", "--cluster", cluster, "--placement", placement, "--failure-level", "minipod", "--json"
    ).json
    assert document["broken"] == {"dp": 0, "level": 0, "pp": 0}
    cluster.write_text(cluster.read_text().replace("mp1", "mp0"))
    text = arnold("health", "backups", "--cluster", cluster, "--placement", placement, "--failure-level", "minipod").out
    assert says(text.splitlines()[0], "Of 24 machines 24", "in their minipod", "fewer are impossible")
    assert says(text, "one minipod", "24 of the 24 machines")


@pytest.mark.parametrize(
    ("args", "kind", "words"),
    [
        (["evict", "dumps"], "InvalidInput", "no job"),
        (["evict"], "UsageError", "DUMPS"),
        (["evict", "nowhere", "--job", "JOB"], "InvalidInput", "no such file"),
        (["evict", "dumps", "--job", "-", "--placement", "-"], "InvalidInput", "standard input"),
        (["evict", "dumps", "--job", "JOB", "--dominant", "0"], "UsageError", "--dominant"),
        (["evict", "dumps", "--job", "OTHER", "--placement", "PLACEMENT"], "InvalidInput", "differ"),
        (["evict", "dumps", "--job", "OTHER"], "InvalidInput", "not one of the job's 16 ranks"),
        (["isolate"], "InvalidInput", "no job"),
        (["isolate", "--job", "JOB", "--replicas", "4"], "InvalidInput", "do not cut"),
        (["isolate", "--job", "JOB", "--failed-vertical", "6"], "InvalidInput", "run 2 has no group 6"),
        (["isolate", "--job", "SINGLE"], "Infeasible", "single replica"),
        (
            ["backups", "--cluster", "CLUSTER", "--placement", "PLACEMENT", "--failure-level", "rakc"],
            "UnknownName",
            "rakc",
        ),
        (["backups", "--cluster", "-", "--placement", "-"], "InvalidInput", "standard input"),
        (["backups", "--cluster", "CLUSTER", "--placement", "TWICE"], "InvalidPlacement", "more than one cell"),
        (["evict", "dumps", "--placement", "TWICE"], "InvalidPlacement", "more than one cell"),
        (["evict", "dumps", "--placement", "JOB"], "InvalidInput", "missing"),
        (["evcit"], "UnknownName", "did you mean 'evict'"),
    ],
)
def test_bad_input(arnold: Arnold, paths: dict[str, Path], args: list[str], kind: str, words: str) -> None:
    """Exit 2 (3 where the job cannot be helped), one error that says what is wrong and what to do."""
    ran = arnold("health", *(paths.get(arg, arg) for arg in args), "--json")
    error = ran.json["error"]
    assert (ran.code, error["kind"]) == (3 if kind == "Infeasible" else 2, kind)
    assert words in error["message"] + error["fix"]
    assert error["fix"]
    assert "Traceback" not in ran.err


@pytest.fixture
def paths(dumps: Path, job: Path, placement: Path, cluster: Path, tmp_path: Path) -> dict[str, Path]:
    """Files by the names they have in the table of bad input."""
    other, single, twice = tmp_path / "other.yaml", tmp_path / "single.yaml", tmp_path / "twice.json"
    other.write_text("name: other\nparallelism: {tp: 8, dp: 2}\nalpha: 0.5\n")
    single.write_text("name: single\nparallelism: {tp: 8, pp: 4}\nalpha: 0.5\n")
    twice.write_text(placement.read_text().replace("n001", "n000"))
    jobs = {"JOB": job, "OTHER": other, "SINGLE": single}
    return {**jobs, "PLACEMENT": placement, "TWICE": twice, "CLUSTER": cluster, "dumps": dumps}


@pytest.mark.parametrize("name", ["evict", "isolate", "backups"])
def test_schemas_describe_every_field(arnold: Arnold, name: str) -> None:
    """Each schema refuses unknown keys and describes every field of every object."""
    schema = arnold("schema", "health", name).json
    objects = [shape for shape in [schema, *schema["$defs"].values()] if shape.get("type") == "object"]
    assert all(shape["additionalProperties"] is False for shape in objects)
    fields = [(shape["title"], key, field) for shape in objects for key, field in shape["properties"].items()]
    assert [(title, key) for title, key, field in fields if "description" not in field] == []


def test_help(arnold: Arnold) -> None:
    """The group lists its commands, and each explains itself with examples."""
    out = arnold("health", "--help").out
    for name in ("evict", "isolate", "backups"):
        assert name in out
        assert "Examples:" in arnold("health", name, "--help").out
