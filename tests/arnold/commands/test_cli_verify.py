"""`arnold place --certificate` and `arnold verify`: files, lines, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.facts import says

Arnold = Callable[..., Any]


@pytest.fixture
def proof(arnold: Arnold, cluster_file: Path, job_file: Path, tmp_path: Path) -> Path:
    """The certificate of the small instance."""
    file = tmp_path / "proof.json"
    ran = arnold("place", "--cluster", cluster_file, "--job", job_file, "--certificate", file)
    assert ran.code == 0
    return file


@pytest.fixture
def verify(arnold: Arnold, proof: Path, cluster_file: Path, job_file: Path) -> Arnold:
    """Run `arnold verify` on the certificate."""
    return lambda *args: arnold("verify", proof, "--cluster", cluster_file, "--job", job_file, *args)


def test_a_proof_is_verified(verify: Arnold, proof: Path) -> None:
    """Exit 0, a line for each refuted pair, and the verdict last; --json has the same."""
    claimed = json.loads(proof.read_text())
    assert (claimed["version"], claimed["status"], claimed["alpha"], claimed["level"]) == (
        1,
        "optimal",
        0.25,
        "minipod",
    )
    ran, told = verify(), verify("--json").json
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == "verified: no placement is better"
    assert (told["verdict"], told["sentence"]) == ("verified", "verified: no placement is better")
    assert told["objective"] == told["bound"] == claimed["objective"]
    assert len(told["checked"]) == sum(len(part["refuted"]) for part in claimed["parts"]) > 0
    assert all(one["told"] == "holds" for one in told["checked"])
    assert sum("refuted by edges" in line for line in ran.out.splitlines()) == sum(
        one["by"] == "edges" for one in told["checked"]
    )


def test_a_forged_proof_is_not(verify: Arnold, proof: Path) -> None:
    """Exit 5, the fault in words: a pair that can be had, said to be refuted."""
    claimed = json.loads(proof.read_text())
    claimed["parts"][0]["refuted"][0] |= {"dp": 2, "pp": 2, "by": "product"}
    proof.write_text(json.dumps(claimed))
    ran = verify()
    assert ran.code == 5
    assert "(2, 2)" in ran.out
    assert says(ran.out, "NOT refuted by product")
    assert "What is wrong" in ran.out
    told = verify("--json").json
    assert told["verdict"] == "not verified"
    assert says(told["sentence"], "not verified", "(2, 2)", "not refuted by product")


def test_what_cannot_be_told(verify: Arnold, proof: Path) -> None:
    """Exit 4 where only a solver can tell, and 0 with one."""
    claimed = json.loads(proof.read_text())
    for part in claimed["parts"]:
        part["refuted"] = [one | {"by": "skeleton", "witness": None} for one in part["refuted"]]
    proof.write_text(json.dumps(claimed))
    assert verify().code == 4
    assert verify("--json").json["verdict"] == "cannot be told"
    assert "not checked without a solver" in " ".join(verify().out.split())
    assert verify("--solver", "--workers", "1").code == 0


def test_options_of_the_placement_are_given_again(
    arnold: Arnold, cluster_file: Path, job_file: Path, tmp_path: Path
) -> None:
    """A certificate made with --alpha is about that alpha, and the job file alone says another."""
    proof = tmp_path / "other.json"
    files = ("--cluster", cluster_file, "--job", job_file)
    assert arnold("place", *files, "--alpha", "0.5", "--certificate", proof).code == 0
    wrong = arnold("verify", proof, *files, "--json")
    (fault,) = wrong.json["faults"]
    assert wrong.code == 5
    assert says(fault, "alpha 0.5", "0.25")
    assert arnold("verify", proof, *files, "--alpha", "0.5").code == 0


def test_that_nothing_fits_is_certified(arnold: Arnold, cluster_file: Path, tmp_path: Path) -> None:
    """`arnold place` exits 3 and writes why; the certificate is verified with exit 0."""
    job, proof = tmp_path / "large.yaml", tmp_path / "none.json"
    job.write_text("name: large\nparallelism: {tp: 8, dp: 7, pp: 1}\n")
    assert arnold("place", "--cluster", cluster_file, "--job", job, "--certificate", proof).code == 3
    ran = arnold("verify", proof, "--cluster", cluster_file, "--job", job)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "verified: there is no placement")


@pytest.mark.usefixtures("fakes")
def test_without_a_claim_there_is_no_certificate(
    arnold: Arnold, cluster_file: Path, job_file: Path, tmp_path: Path
) -> None:
    """An algorithm that ran out of time with nothing valid leaves no file; exit 4 as without the option."""
    proof = tmp_path / "late.json"
    files = ("--cluster", cluster_file, "--job", job_file)
    assert arnold("place", *files, "--algorithm", "late", "--certificate", proof).code == 4
    assert not proof.exists()


@pytest.mark.usefixtures("fakes")
def test_another_algorithm_proves_no_more_than_its_bound(
    arnold: Arnold, cluster_file: Path, job_file: Path, tmp_path: Path
) -> None:
    """First fit claims nothing, and every group touches a domain at least: that much is verified."""
    proof = tmp_path / "first.json"
    files = ("--cluster", cluster_file, "--job", job_file)
    assert arnold("place", *files, "--algorithm", "first", "--certificate", proof).code == 0
    ran = arnold("verify", proof, *files)
    assert ran.code == 0
    assert says(ran.out.splitlines()[-1], "verified", "objective below 1.0")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("[1, 2", "not YAML"),
        ("{}", "the key 'version' is missing"),
        ('{"version": 2}', "input should be 1, not 2"),
        ('{"version": 1, "version": 1}', "has the key 'version' twice"),
        ('{"version": 1, "job": "j"', "is truncated"),
        ('{"version": ' + "9" * 5000 + "}", "a number of thousands of digits"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_what_is_no_certificate_is_bad_input(verify: Arnold, proof: Path, text: str, words: str) -> None:
    """Exit 2 with the file and what is wrong, before anything is checked."""
    proof.write_text(text)
    ran = verify()
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("Error: ")
    assert "proof.json" in ran.err
    assert words in ran.err
    assert "To fix: " in ran.err


def test_of_another_cluster_or_job(
    arnold: Arnold, proof: Path, cluster_file: Path, job_file: Path, tmp_path: Path
) -> None:
    """Exit 5, and what differs: a node that is not there, or a grid of another shape."""
    other = tmp_path / "other.csv"
    lines = cluster_file.read_text().splitlines()
    node = json.loads(proof.read_text())["nodes"][0][0]
    other.write_text("\n".join(line for line in lines if not line.startswith(f"{node},")) + "\n")
    ran = arnold("verify", proof, "--cluster", other, "--job", job_file, "--json")
    (fault,) = ran.json["faults"]
    assert ran.code == 5
    assert says(fault, f"no node {node!r}")
    job = tmp_path / "other.yaml"
    job.write_text("name: other\nparallelism: {tp: 8, dp: 1, pp: 1}\nalpha: 0.25\nlevel: minipod\n")
    ran = arnold("verify", proof, "--cluster", cluster_file, "--job", job, "--json")
    assert ran.code == 5
    assert says(ran.json["faults"], "placement", "shape")


def test_names_of_others_do_not_move_the_cursor(verify: Arnold, proof: Path) -> None:
    """A job or a node named by an escape sequence is printed without it."""
    claimed = json.loads(proof.read_text())
    claimed["job"] = "\x1b[2Jj"
    proof.write_text(json.dumps(claimed))
    assert verify().code == 0
    assert "\x1b" not in verify().out
    claimed["nodes"][0][0] = "\x1b[2J"
    proof.write_text(json.dumps(claimed))
    assert verify().code == 5
    assert "\x1b" not in verify().out


def test_one_file_for_two_results(arnold: Arnold, cluster_file: Path, job_file: Path, tmp_path: Path) -> None:
    """--certificate and --html to one file are refused; and so is standard input for two files."""
    files = ("--cluster", cluster_file, "--job", job_file)
    ran = arnold("place", *files, "--certificate", tmp_path / "x", "--html", tmp_path / "x", "--json")
    assert says(ran.json["error"]["message"], "one file")
    assert arnold("verify", "-", "--cluster", "-", "--job", job_file).code == 2


def test_a_certificate_is_of_one_job(arnold: Arnold, cluster_file: Path, job_file: Path, tmp_path: Path) -> None:
    """Several jobs at once have no certificate."""
    other = tmp_path / "other.yaml"
    other.write_text("name: other\nparallelism: {tp: 8, dp: 1, pp: 1}\n")
    ran = arnold(
        *("place", "--cluster", cluster_file, "--job", job_file, "--job", other),
        *("--certificate", tmp_path / "x", "--json"),
    )
    assert says(ran.json["error"]["message"], "certificate", "one job")


@pytest.mark.parametrize("name", ["verify", "certificate"])
def test_schemas_describe_every_field(arnold: Arnold, name: str) -> None:
    """`arnold schema` says of each key what it is."""
    schema = json.loads(arnold("schema", name).out)
    shapes = [schema, *(one for one in schema["$defs"].values() if one.get("type") == "object")]
    assert [key for one in shapes for key, field in one["properties"].items() if "description" not in field] == []
