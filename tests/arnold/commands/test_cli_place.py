"""`arnold place`: the JSON contract, the text, the exit codes."""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arnold.documents.place_answer import PlaceDocument
from ground.records import json_data, read_json
from tests.facts import says

Arnold = Callable[..., Any]


@pytest.fixture
def place(arnold: Arnold, fakes: None, cluster_file: Path, job_file: Path) -> Arnold:
    """Run `arnold place` on the small instance with a fake algorithm."""
    return lambda algorithm, *args: arnold(
        "place", "--cluster", cluster_file, "--job", job_file, "--algorithm", algorithm, *args
    )


def test_tensor_parallelism_over_several_nodes(arnold: Arnold, tmp_path: Path) -> None:
    """GB200 NVL72: domains of 18 trays of 4 GPUs, TP 16, expert groups of 32 GPUs held in a domain.

    `assignment` has a row a tray, in Megatron's order of ranks: 4 trays of a TP group, 8 groups of a stage, 2 stages.
    16 trays of each domain are used; `explain` says why two are left; a rank file has the trays in that order; a repair
    keeps the TP group in its domain.
    """
    trays = [f"{domain}-{i:02},{domain},4,4" for domain in ("a", "b", "c", "d", "e") for i in range(18)]
    (tmp_path / "nvl72.csv").write_text("node,nvlink,gpus,free_gpus\n" + "\n".join(trays))
    job = "{gpus_per_node: 4, parallelism: {tp: 16, dp: 8, pp: 2, ep: 32, etp: 1}, alpha: 0.5, constraints: "
    (tmp_path / "job.yaml").write_text(job + "[{family: ep, within: nvlink}]}")
    files = ("--cluster", tmp_path / "nvl72.csv", "--job", tmp_path / "job.yaml")
    outputs = ("--output", tmp_path / "ranks.mpi", "--output", tmp_path / "placement.json")
    said = arnold("place", *files, *outputs, "--json").json
    places = [(cell["pp"], cell["dp"], cell["part"]) for cell in said["assignment"]]
    assert places == [(pp, dp, part) for pp in range(2) for dp in range(8) for part in range(4)]
    assert [cell["node_rank"] for cell in said["assignment"]] == list(range(64))
    domain = [cell["node"][0] for cell in said["assignment"]]
    assert all(len(set(domain[first : first + 8])) == 1 for first in range(0, 64, 8))
    assert said["status"] == "optimal"
    assert sorted(said["domains"].values()) == [16] * 4
    ranks = [line.split()[1].split("=") for line in (tmp_path / "ranks.mpi").read_text().splitlines()]
    assert ranks == [[str(rank), said["assignment"][rank // 4]["node"]] for rank in range(256)]
    explained = " ".join(arnold("explain", *files).out.split())
    assert says(explained, "TP and EP groups", "8 nodes", "one nvlink")
    assert says(explained, "10 usable nodes", "2 of 18 in each of 5")
    lost = said["assignment"][9]["node"]
    cluster = ("--cluster", tmp_path / "nvl72.csv", "--placement", tmp_path / "placement.json")
    (move,) = arnold("repair", *cluster, "--lost", lost, "--json").json["moves"]
    assert (move["dp"], move["pp"], move["part"], move["node_rank"]) == (2, 0, 1, 9)
    assert move["target"][0] == lost[0]


@pytest.mark.parametrize("algorithm", ["first", "exact", "gpu-packing"])
def test_anyone_can_recompute_what_is_claimed(place: Arnold, cluster_file: Path, algorithm: str) -> None:
    """Spread and objective follow from `assignment` and the cluster file alone; every cell has its own free node."""
    said = place(algorithm, "--json").json
    with cluster_file.open() as file:
        rows = {row["node"]: row for row in csv.DictReader(file)}
    cells = said["assignment"]
    nodes = [cell["node"] for cell in cells]
    assert sorted((cell["dp"], cell["pp"]) for cell in cells) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [cell["node_rank"] for cell in cells] == [0, 1, 2, 3]
    assert all(cell["node_rank"] == cell["pp"] * 2 + cell["dp"] for cell in cells)
    assert len(set(nodes)) == 4
    assert all(rows[node]["free_gpus"] == rows[node]["gpus"] for node in nodes)
    touched: dict[tuple[str, int], set[str]] = defaultdict(set)
    for cell in cells:
        for family in ("dp", "pp"):
            group = cell["pp"] if family == "dp" else cell["dp"]
            touched[family, group].add(rows[cell["node"]]["minipod"])
    spread = {family: max(len(touched[family, group]) for group in (0, 1)) for family in ("dp", "pp")}
    assert said["spread"] == spread
    assert said["objective"] == pytest.approx(0.25 * spread["dp"] + 0.75 * spread["pp"])
    assert said["spread_by_level"]["minipod"]["dp"] == spread["dp"]
    assert sum(said["domains"].values()) == 4


def test_the_document_has_the_keys_of_the_contract(place: Arnold) -> None:
    """Keys that others rely on are there, and the document survives a round trip through its own model."""
    ran = place("first", "--json")
    assert {
        "status", "algorithm", "spread", "objective", "bound", "gap", "alpha", "beta", "solve_seconds", "pareto",
        "spread_by_level", "avoided", "used_flagged", "domains", "assignment", "job", "cluster", "notes", "prices",
        "closer", "run_seconds",
    } <= set(ran.json)  # fmt: skip
    assert json_data(PlaceDocument, read_json(PlaceDocument, ran.json)) == ran.json


def test_flagged_nodes_are_listed(place: Arnold) -> None:
    """First fit takes n0, n1, n2, n4: n4 is slow and in use; n7 is faulty, idle and left out."""
    said = place("first", "--json").json
    assert (said["used_flagged"], said["avoided"]) == (["n4"], ["n7"])
    strict = place("first", "--json", "--avoid", "strict").json
    assert (strict["used_flagged"], strict["avoided"]) == ([], ["n4", "n7"])


@pytest.mark.parametrize(
    ("algorithm", "status", "code"),
    [
        ("first", "feasible", 0),
        ("late", "timeout", 4),
        ("helpless", "gave-up", 4),
        ("sure", "infeasible", 3),
    ],
)
def test_exit_codes(place: Arnold, algorithm: str, status: str, code: int) -> None:
    """0 with a placement, 3 infeasible, 4 nothing valid; the same with and without --json."""
    ran = place(algorithm, "--json")
    assert (ran.code, ran.json["status"]) == (code, status)
    assert place(algorithm).code == code
    if code:
        assert ran.json["assignment"] == []
        assert ran.json["spread"] is ran.json["objective"] is ran.json["bound"] is None
        assert ran.json["reason"]


def test_too_few_nodes_is_infeasible_with_the_reason(arnold: Arnold, cluster_file: Path, tmp_path: Path) -> None:
    """Seven whole nodes are idle or become so when jobs end; a job of 7 fits the empty cluster, a job of 8 never."""
    for dp, fits in ((7, True), (8, False)):
        job = tmp_path / "job.yaml"
        job.write_text(f"parallelism: {{tp: 8, dp: {dp}}}\n")
        ran = arnold("place", "--cluster", cluster_file, "--job", job, "--json", "--algorithm", "gpu-packing")
        assert ran.code == 3
        assert ran.json["would_fit_if_empty"] is fits
        assert f"needs {dp} free nodes" in ran.json["reason"]


def test_a_job_of_4e8_nodes_is_too_big(arnold: Arnold, fakes: None, cluster_file: Path, tmp_path: Path) -> None:
    """Exit 3 at once, with the file and line and the limit."""
    job = tmp_path / "job.yaml"
    job.write_text("name: slip\nparallelism: {tp: 8, dp: 400000000}\n")
    ran = arnold("place", "--cluster", cluster_file, "--job", job, "--algorithm", "first", "--json")
    assert (ran.code, ran.json["error"]["kind"]) == (3, "TooLarge")
    assert ran.json["error"]["where"] == f"{job}:2"
    assert "1,000,000" in ran.json["error"]["message"]


def test_an_invalid_proposal_is_never_shown(place: Arnold) -> None:
    """What the evaluator refuses is an error that names the algorithm, not a placement."""
    ran = place("twice", "--json")
    assert ran.code == 1
    assert ran.json["error"]["kind"] == "RefusedPlacement"
    assert "'twice'" in ran.json["error"]["message"]
    assert "used twice" in ran.json["error"]["message"]


def test_options_win_over_the_job_file(place: Arnold) -> None:
    """--alpha and --level change what is minimised, and the document says what was used."""
    said = place("first", "--json", "--alpha", "0.75", "--level", "rack").json
    assert (said["alpha"], said["beta"], said["level"]) == (0.75, 0.25, "rack")
    # first fit: n0 n1 / n2 n4, racks r0 r0 / r1 r2: a column touches 2 racks, a row up to 2: 0.75 * 2 + 0.25 * 2
    assert said["objective"] == 2.0
    assert said["job"]["alpha"] == 0.75


def test_the_document_can_be_placed_again(place: Arnold, arnold: Arnold, cluster_file: Path, tmp_path: Path) -> None:
    """The job in the document is a job file: placing it gives the same answer."""
    said = place("first", "--json", "--alpha", "0.75").json
    again = tmp_path / "again.json"
    again.write_text(json.dumps(said["job"]))
    ran = arnold("place", "--cluster", cluster_file, "--job", again, "--algorithm", "first", "--json")
    assert ran.json["assignment"] == said["assignment"]
    assert ran.json["job"] == said["job"]


def test_output_file_and_stdout_agree(place: Arnold, tmp_path: Path) -> None:
    """--output saves the same document that --json prints."""
    saved = tmp_path / "placement.json"
    said = place("first", "--json", "--output", saved).json
    assert json.loads(saved.read_text()) == said


def test_text_says_the_verdict_first(place: Arnold) -> None:
    """The verdict with both spreads, then job and cluster in a line each, then the domains."""
    out = place("bounded").out
    assert says(out, "2 x 2 cells", "4 nodes of 8 GPUs", "alpha 0.25", "beta 0.75")
    # first fit spreads the second row and the second column over both minipods: 0.25 * 2 + 0.75 * 2 = 2; bound 1.2
    assert says(out, "feasible", "gap 40.0%", "DP spread 2", "PP spread 2", "objective 2.0", "proved bound 1.2")
    assert "n[0-2]" in out
    assert "mp0" in out


def test_text_of_a_job_that_does_not_fit(place: Arnold) -> None:
    """The reason, whether it would fit on the empty cluster, and the next command."""
    out = place("sure").out
    assert says(out, "infeasible", "this algorithm", "no placement")
    assert says(out, "if the cluster were empty")
    assert "arnold explain" in out


def test_names_are_not_markup(arnold: Arnold, fakes: None, cluster_file: Path, tmp_path: Path) -> None:
    """A job called like a colour is printed as it is called."""
    job = tmp_path / "job.yaml"
    job.write_text("name: '[red]x[/red] :smile:'\nparallelism: {tp: 8, dp: 2}\n")
    ran = arnold("place", "--cluster", cluster_file, "--job", job, "--algorithm", "first")
    assert "[red]x[/red] :smile:" in ran.out


def test_notes_say_what_was_assumed(arnold: Arnold, fakes: None, cluster_file: Path, tmp_path: Path) -> None:
    """A job without alpha gets 0.3, and the output says so."""
    job = tmp_path / "job.yaml"
    job.write_text("parallelism: {tp: 8, dp: 2}\n")
    args = ["place", "--cluster", cluster_file, "--job", job, "--algorithm", "first"]
    assert "alpha 0.3 by default" in arnold(*args).out
    assert "alpha 0.3 by default" in arnold(*args, "--json").json["notes"][0]


def test_busy_and_flags_overlay_the_cluster(place: Arnold, tmp_path: Path) -> None:
    """--busy takes nodes away from first fit, which then goes on to the next ones."""
    busy = tmp_path / "busy.txt"
    busy.write_text("n[0-1]\n")
    said = place("first", "--json", "--busy", busy).json
    assert {cell["node"] for cell in said["assignment"]} == {"n2", "n4", "n5", "n6"}
    assert said["cluster"]["free"] == 4


MIXED = "node,minipod,gpu_type\n" + "".join(f"n{i},{'ab'[i // 4]},{('A100', 'H100')[i % 2]}\n" for i in range(8))


def test_a_gang_is_not_laid_over_two_types_of_gpu(arnold: Arnold, tmp_path: Path) -> None:
    """Four nodes on two minipods in which A100 and H100 alternate: what each type gives is told, one is chosen."""
    cluster, job = tmp_path / "cluster.csv", tmp_path / "job.yaml"
    cluster.write_text(MIXED)
    job.write_text("parallelism: {tp: 8, pp: 2, dp: 2}\nalpha: 0.5\nspeed: {H100: 2}\n")
    found = arnold("place", "--cluster", cluster, "--job", job, "--json").json
    assert (found["status"], found["objective"], found["bound"]) == ("optimal", 1.5, 1.5)
    assert {row["node"] for row in found["assignment"]} == {"n1", "n3", "n5", "n7"}
    assert [(one["gpu_types"], one["cost"], one["chosen"]) for one in found["types"]] == [
        (["A100"], 1.5, False),
        (["H100"], 0.75, True),
    ]
    short = " ".join(arnold("place", "--cluster", cluster, "--job", job).out.split())
    assert says(short, "one of 2", "H100", "speed 2", "0.75 at speed 1; chosen")
    text = " ".join(arnold("place", "--cluster", cluster, "--job", job, "-v").out.split())
    assert "Types of GPU - A100: proved optimal" in text
    assert "why it cannot be on H100" in " ".join(arnold("explain", "--cluster", cluster, "--job", job).out.split())


def test_a_type_that_is_nowhere_free(arnold: Arnold, tmp_path: Path) -> None:
    """The cluster has it, and none of it is free: exit 3, with what holds the others."""
    cluster, job = tmp_path / "cluster.csv", tmp_path / "job.yaml"
    cluster.write_text("node,minipod,gpus,free_gpus,gpu_type\nn0,a,8,0,H100\nn1,a,8,8,A100\n")
    job.write_text("parallelism: {tp: 8}\ngpu_types: [H100]\n")
    ran = arnold("place", "--cluster", cluster, "--job", job)
    assert ran.code == 3
    text = " ".join(ran.out.split())
    assert says(text, "1 free nodes of 8 GPUs of the type H100", "0 of 2", "1 with another type of GPU", "1 in use")


def test_closer_levels_are_said_and_proved(arnold: Arnold, tmp_path: Path) -> None:
    """Three nodes of a minipod with three in a rack: the least there is, in JSON and in text."""
    rows = ["node,minipod,rack,gpus,free_gpus"]
    places = ["m0,a", "m0,a", "m0,b", "m1,c", "m1,c", "m1,c", "m1,d"]
    rows += [f"n{i},{place},8,8" for i, place in enumerate(places)]
    cluster, job = tmp_path / "cluster.csv", tmp_path / "job.yaml"
    cluster.write_text("\n".join(rows) + "\n")
    job.write_text("parallelism: {tp: 8, dp: 3}\nalpha: 0.5\n")
    arguments = ("place", "--cluster", cluster, "--job", job)
    assert arnold(*arguments, "--json").json["closer"] == {"rack": {"dp": 1, "pp": 1, "proved": True}}
    assert says(arnold(*arguments).out, "rack: DP spread 1, PP spread 1", "the least", "proved")


def test_the_time_that_is_told_is_all_of_it(arnold: Arnold, cluster_file: Path, job_file: Path) -> None:
    """What comes after the proof counts too: the whole stands beside the search, in text and JSON."""
    found = arnold("place", "--cluster", cluster_file, "--job", job_file, "--json").json
    assert found["run_seconds"] >= found["solve_seconds"] >= 0.0
    text = arnold("place", "--cluster", cluster_file, "--job", job_file).out
    assert re.search(r"\(exact, \d+\.\d\d s; \d+\.\d\d s in all\)", text)
