"""Pages that commands on a placement write beside their text."""

import re
from html import unescape
from pathlib import Path

import pytest

from tests.conftest import Arnold
from tests.facts import says


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three minipods of four nodes and a job of 4 x 2 nodes on the first two, S = 1 and R = 2."""
    rows = [f"n{i:02},mp{i // 4}" for i in range(12)]
    (tmp_path / "cluster.csv").write_text("\n".join(["node,minipod", *rows]) + "\n")
    (tmp_path / "job.yaml").write_text("name: llm\nparallelism: {tp: 8, dp: 4, pp: 2}\nalpha: 0.8\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words_of(page: Path) -> str:
    """Text of a page as one line."""
    body = page.read_text(encoding="utf-8").partition("<main>")[2].partition("<script")[0]
    return re.sub(r"\s+", " ", unescape(re.sub("<[^>]+>", " ", body)))


INSTANCE = ("--cluster", "cluster.csv", "--job", "job.yaml")


def test_a_repaired_placement(arnold: Arnold, folder: Path) -> None:
    """The lost node is drawn as faulty and the move is listed; with moves first the objective is proved best of as few
    moves, as more may lead to a better one; with the objective first of all.
    """
    assert arnold("place", *INSTANCE, "--output", "placement.json").code == 0
    lost = ("--cluster", "cluster.csv", "--placement", "placement.json", "--lost", "n00")
    for prefer, of_few in (("moves", True), ("objective", False)):
        assert arnold("repair", *lost, "--prefer", prefer, "--html", "repair.html").code == 0
        words = words_of(folder / "repair.html")
        assert "llm repaired: 1 node lost" in words
        assert "1 faulty" in words
        assert "proved best" in words
        assert says(words, "proved best", "few moves") == of_few
        assert re.search(r"Rank 0 \(row 0, stage 0\): n00 to n\d\d", words)


def test_what_would_help_a_job_that_does_not_fit(arnold: Arnold, folder: Path) -> None:
    """The page has the reason and the suggestions of the text."""
    job = folder / "job.yaml"
    job.write_text(job.read_text().replace("dp: 4", "dp: 7"))
    printed = " ".join(arnold("explain", *INSTANCE, "--html", "why.html").out.split())
    words = words_of(folder / "why.html")
    for said in ("There are too few nodes", "Lower dp from 7 to 6"):
        assert said in printed
        assert said in words


def test_the_best_proof_comes_first(arnold: Arnold, folder: Path) -> None:
    """The page of a comparison is about the placement that is proved, whatever the order of the algorithms."""
    algorithms = ("--algorithm", "random-fit,exact")
    assert arnold("compare", *INSTANCE, *algorithms, "--html", "compare.html").code == 0
    words = words_of(folder / "compare.html")
    assert says(words, "Proved optimal")
    assert re.search(r'<option value="0">exact<', (folder / "compare.html").read_text())


def test_a_chart_shows_no_more_than_there_is(arnold: Arnold, folder: Path) -> None:
    """The legend names what is drawn: nothing was refuted below (1, 1), and one algorithm ran; a chart of one point,
    such as of a job that fits into one minipod, is left out.
    """
    assert arnold("place", *INSTANCE, "--alpha", "1", "--html", "place.html").code == 0
    words = words_of(folder / "place.html")
    assert "best trade, proved" in words
    assert "best trade, not proved" not in words
    assert "other algorithms" not in words
    (folder / "job.yaml").write_text("name: llm\nparallelism: {tp: 8, dp: 2, pp: 2}\nalpha: 0.8\n")
    assert arnold("place", *INSTANCE, "--html", "place.html").code == 0
    assert "DP spread against PP spread" not in words_of(folder / "place.html")
    assert says(words_of(folder / "place.html"), "No pair", "exact's 1.0")


def test_numbered_levels_are_switches(arnold: Arnold, folder: Path) -> None:
    """Levels of Slurm, which have no names, are those of switches in every table."""
    leaves = [f"SwitchName=s{i} Nodes=n[{4 * i:02}-{4 * i + 3:02}]" for i in range(3)]
    (folder / "topology.conf").write_text("\n".join([*leaves, "SwitchName=core Switches=s[0-2]"]) + "\n")
    assert arnold("place", "--cluster", "topology.conf", "--job", "job.yaml", "--html", "place.html").code == 0
    words = words_of(folder / "place.html")
    assert "switch of level 0 / switch of level 1" in words
    assert "level-" not in words
