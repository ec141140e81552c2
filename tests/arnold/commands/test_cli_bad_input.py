"""Bad input through the front door: one message with file, line and remedy, exit 2 or 3, never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.facts import says

Arnold = Callable[..., Any]

GOOD_CLUSTER = "node,minipod,rack,gpus,free_gpus,slowdown\nn1,a,r1,8,8,\nn2,a,r1,8,8,\nn3,b,r2,8,8,\n"
GOOD_JOB = "name: j\nparallelism: {tp: 8, dp: 2}\nalpha: 0.5\n"
HEADER = GOOD_CLUSTER.splitlines()[0] + "\n"


@pytest.fixture
def place(arnold: Arnold, tmp_path: Path) -> Callable[..., Any]:
    """Run `arnold place` on a cluster and a job given as text or bytes; a file stands only where something is given."""

    def call(cluster: str | bytes | None = GOOD_CLUSTER, job: str | bytes | None = GOOD_JOB, *options: object) -> Any:
        paths = []
        for name, content in (("cluster.csv", cluster), ("job.yaml", job)):
            paths.append(tmp_path / name)
            if content is not None:
                paths[-1].write_bytes(content if isinstance(content, bytes) else content.encode())
        saved = tmp_path / "placement.json"
        ran = arnold("place", "--cluster", paths[0], "--job", paths[1], "--output", saved, "--json", *options)
        assert saved.exists() == (ran.code == 0), "a file is left behind exactly when there is a placement"
        return ran

    return call


def test_the_good_instance_is_good(place: Callable[..., Any]) -> None:
    """Without a fault the same call succeeds: the other tests fail for the fault alone."""
    assert place().code == 0


@pytest.mark.parametrize(
    ("cluster", "line", "words"),
    [
        (None, None, "no such file"),
        ("", None, "empty"),
        (b"\x7fELF\0\0\1", 1, "binary"),
        (b"\xff\xfe\x00n", 1, ""),
        ("hello world\n", None, "no format"),
        (HEADER + "n1,a,r1,8,8,\nn1,a,r1,8,8,\n", 3, "twice"),
        (HEADER + "n1,a,r1,8,8,\nn2,b,r1,8,8,\n", 3, "two domains"),
        (HEADER + "n1,a,r1,8,9,\n", 2, "9"),
        (HEADER + "n1,a,r1,-8,0,\n", 2, "-8"),
        (HEADER + "n1,a,r1,eight,8,\n", 2, "eight"),
        (HEADER + "n1,a,r1,8,8,nan\n", 2, "nan"),
        (HEADER + "n1,a,r1,8,8,0.5\n", 2, "0.5"),
        (HEADER + "n1,a\n", 2, ""),
        (HEADER, None, ""),
        ('{"clusters": [', None, ""),
    ],
)
def test_bad_clusters(place: Callable[..., Any], cluster: str | bytes | None, line: int | None, words: str) -> None:
    """Exit 2; the message names the file, the line where there is one, and what is wrong."""
    ran = place(cluster)
    error = ran.json["error"]
    assert ran.code == 2
    assert "cluster.csv" in error["where"]
    assert line is None or error["where"].endswith(f":{line}")
    assert words in error["message"]
    assert error["fix"]


@pytest.mark.parametrize(
    ("job", "code", "words"),
    [
        (None, 2, "no such file"),
        ("", 2, "empty"),
        (b"\0\1\2", 2, "binary"),
        ("parallelism: {tp: 8", 2, "not YAML"),
        ("a: &a [1]\nb: [*a, *a]\n", 2, "anchor"),
        ("parallelism: !!python/object/apply:os.system ['true']\n", 2, "tag"),
        ("parallelism: {tp: 8, dp: 2}\nalpha: .nan\n", 2, "finite"),
        ("parallelism: {tp: 8, dp: 2}\nlevel: pod\n", 2, "no level 'pod'"),
        ("parallelism: {tp: 8, dp: 400000000}\n", 3, "400,000,000"),
        ("- a\n- b\n", 2, "a list"),
        ("[" * 100_000, 2, ""),
    ],
)
def test_bad_jobs(place: Callable[..., Any], job: str | bytes | None, code: int, words: str) -> None:
    """Exit 2, or 3 when it is merely too big, with the file and what is wrong."""
    ran = place(GOOD_CLUSTER, job)
    error = ran.json["error"]
    assert ran.code == code
    assert "job.yaml" in error["where"]
    assert words in error["message"]
    assert error["fix"]


def test_a_cluster_without_levels(place: Callable[..., Any]) -> None:
    """There is nothing to count."""
    error = place("node,gpus\nn1,8\nn2,8\n").json["error"]
    assert (error["message"], error["where"]) == ("the cluster has no levels", "--cluster")
    assert "at least one level" in error["fix"]


@pytest.mark.parametrize("option", ["--cluster", "--job", "--busy", "--flags", "--records", "--output"])
def test_a_name_of_a_file_that_no_system_takes(arnold: Arnold, tmp_path: Path, option: str) -> None:
    """Names have 255 letters at most: of a longer one the error says where it is, and nothing of the disk."""
    (tmp_path / "c.csv").write_text(GOOD_CLUSTER)
    (tmp_path / "j.yaml").write_text(GOOD_JOB)
    files = {"--cluster": tmp_path / "c.csv", "--job": tmp_path / "j.yaml", option: tmp_path / ("x" * 300)}
    ran = arnold("place", *(word for pair in files.items() for word in pair), "--json")
    assert (ran.code, ran.json["error"]["where"]) == (2, str(files[option]))
    assert says(ran.json["error"]["message"], "File name too long")


@pytest.mark.parametrize("option", ["--cluster", "--job", "--busy", "--flags", "--records"])
def test_an_empty_name_of_a_file(arnold: Arnold, tmp_path: Path, option: str) -> None:
    """A variable of the shell that is not set."""
    (tmp_path / "c.csv").write_text(GOOD_CLUSTER)
    (tmp_path / "j.yaml").write_text(GOOD_JOB)
    files = {"--cluster": tmp_path / "c.csv", "--job": tmp_path / "j.yaml", option: ""}
    ran = arnold("place", *(word for pair in files.items() for word in pair), "--json")
    assert ran.code == 2
    error = ran.json["error"]
    assert says(error["message"], "name of a file", "empty")
    assert error["where"] == "''"


@pytest.mark.parametrize(
    ("option", "content", "words"),
    [
        ("--busy", "n8 idle\nn9 down\n", "n9"),
        ("--busy", "n[1-\n", ""),
        ("--flags", "- {node: n9, kind: faulty}\n", "n9"),
        ("--flags", "- {node: n1, kind: slwo}\n", "kind"),
        ("--records", "records: []\n", "records"),
    ],
)
def test_bad_overlays(place: Callable[..., Any], tmp_path: Path, option: str, content: str, words: str) -> None:
    """Files that lie over the cluster or the job are checked as strictly."""
    path = tmp_path / "overlay"
    path.write_text(content)
    ran = place(GOOD_CLUSTER, GOOD_JOB, option, path)
    assert ran.code == 2
    assert "overlay:1" in ran.json["error"]["where"]
    assert words in ran.json["error"]["message"]


@pytest.mark.parametrize("command", ["simulate", "capacity fragmentation", "capacity grow"])
@pytest.mark.parametrize(("level", "words"), [("rak", "no level 'rak'"), ("@power", "is a second hierarchy")])
def test_a_level_that_is_none_of_the_tree(arnold: Arnold, tmp_path: Path, command: str, level: str, words: str) -> None:
    """Spread counts at levels of the tree alone; the error names the option."""
    cluster, trace = tmp_path / "c.csv", tmp_path / "t.csv"
    cluster.write_text("node,minipod,rack,gpus,@power\n" + "".join(f"n{i},m{i // 2},r{i},8,p0\n" for i in range(4)))
    trace.write_text("job_id,submit_time,duration,gpus\na,0,60,16\n")
    more = ["--trace", trace] if command == "simulate" else []
    ran = arnold(*command.split(), "--cluster", cluster, "--level", level, *more, "--json")
    assert ran.code == 2
    assert ran.json["error"]["where"] == "--level"
    assert words in ran.json["error"]["message"]
