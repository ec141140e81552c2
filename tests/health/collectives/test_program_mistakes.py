"""Healthy, a rank absent at collective 5, another order, another size: told apart in the dumps of every recorder."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ground.errors import InvalidInput
from ground.files import Source
from health.collectives.diagnosis import Diagnosis, diagnose_snapshot, verdict
from health.collectives.flagging import withheld
from health.collectives.flight_recorder import read_flight_recorder
from health.collectives.reading import read_trace
from tests.facts import saying, says
from tests.health.collectives import gloo_job
from tests.health.collectives.made_dumps import CASES, RANKS, SHAPES, dumps

EXPECTED = {"healthy": "none", "absent": "not-launched", "order": "crossed-order", "size": "other-size"}


def judged(sources: Sequence[Source]) -> Diagnosis:
    """The diagnosis of dumps."""
    return diagnose_snapshot(*read_flight_recorder(sources))


def check(found: Diagnosis, case: str) -> None:
    """Rank 2 is named, likely, in the fifth collective; nobody in the healthy job."""
    assert found.cause == EXPECTED[case]
    named = [(found.members[culprit.member].rank, culprit.certainty) for culprit in found.culprits]
    assert named == ([] if case == "healthy" else [(2, "likely")])
    if case != "healthy":
        assert {found.all_groups[stall.group].members for stall in found.stalls} == {(0, 1, 2, 3)}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_four_cases_in_the_dumps_of_every_recorder(shape: str, case: str) -> None:
    """By gloo, FlightRecorderHook with and without completions, ProcessGroupNCCL with events, TorchComms."""
    found = judged(dumps(case, SHAPES[shape]))
    check(found, case)
    # TorchComms' numbers are counted anew in each group, from 0.
    assert [stall.seq for stall in found.stalls] == ([] if case == "healthy" else [4 if shape == "torchcomms" else 5])


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed (pip install torch)")
@pytest.mark.parametrize("case", CASES)
def test_the_four_cases_as_pytorch_records_them(tmp_path: Path, case: str) -> None:
    """Four processes over gloo; of the size mismatch some are ended by gloo and leave no dump."""
    script = str(Path(gloo_job.__file__))
    ranks = [
        subprocess.Popen(
            [sys.executable, script, case, str(tmp_path), str(rank), str(RANKS)], stderr=subprocess.DEVNULL
        )
        for rank in range(RANKS)
    ]
    for rank in ranks:
        rank.wait(timeout=60)
    check(judged([read_trace(str(path)) for path in sorted(tmp_path.glob("dump_*.json"))]), case)


def test_what_was_called_instead_is_told() -> None:
    """In words and in a note; no node is flagged, as it is the program's mistake."""
    found = judged(dumps("size", SHAPES["events"]))
    assert says(verdict(found), "0 default_pg", "likely rank 2")
    odd = "in 0 default_pg, number 5: rank 2 called nccl:all_reduce of 16 Float, most nccl:all_reduce of 8 Float"
    assert odd in found.notes
    assert "the program's, not a node's" in withheld(found, {2: "n2"})


def changed(case: str, shape: str, change: Callable[[int, dict[str, Any]], object]) -> list[Source]:
    """Dumps of a case after a change to each document, given its rank."""
    made = []
    for rank, source in enumerate(dumps(case, SHAPES[shape])):
        document = json.loads(source.text)
        change(rank, document)
        made.append(Source(source.name, json.dumps(document)))
    return made


def test_two_of_four_leave_open_who_is_wrong() -> None:
    """Half the ranks call one thing, half another: all of them are possible."""

    def change(rank: int, document: dict[str, Any]) -> None:
        if rank >= 2:
            document["entries"][-1]["profiling_name"] = "nccl2:all_gather"

    found = judged(changed("healthy", "hook", change))
    assert found.cause == "crossed-order"
    assert [(culprit.member, culprit.certainty) for culprit in found.culprits] == [(r, "possible") for r in range(4)]


def test_a_mismatch_that_the_device_got_over_is_a_note() -> None:
    """Events show that number 2 is over on every rank: told, and the job is not called hung."""

    def change(rank: int, document: dict[str, Any]) -> None:
        document["entries"][1]["input_dtypes"] = ["Half" if rank == 2 else "Float"]

    found = judged(changed("healthy", "events", change))
    assert (found.status, found.culprits) == ("healthy", ())
    assert says(found.notes, "nccl:all_reduce of 8 Float", "is over")


def test_coalesced_operations_share_a_number() -> None:
    """Number 5 holds three operations; of rank 1 the first of them has been overwritten: they agree all the same."""

    def change(rank: int, document: dict[str, Any]) -> None:
        last = document["entries"].pop()
        inner = [
            last | {"profiling_name": f"nccl:{op}", "record_id": 9} for op in ("all_reduce", "all_reduce", "coalesced")
        ]
        document["entries"] = inner[1:] if rank == 1 else [*document["entries"], *inner]

    assert judged(changed("healthy", "events", change)).status == "healthy"


def test_members_may_give_unlike_sizes_where_the_operation_allows_it() -> None:
    """What each rank sends in all_to_all, and its own part of an all_gather, differ by rank."""

    def change(rank: int, document: dict[str, Any]) -> None:
        first, second = document["entries"][:2]
        first |= {"profiling_name": "nccl2:all_to_all", "input_sizes": [[rank]], "output_sizes": [[3 - rank]]}
        second |= {"profiling_name": "nccl2:all_gather", "input_sizes": [[rank]], "output_sizes": [[6]]}

    found = judged(changed("healthy", "hook", change))
    assert (found.status, [note for note in found.notes if "number" in note]) == ("healthy", [])


def test_groups_of_one_name_are_told_apart_by_their_ranks() -> None:
    """Groups split from one have its name: rank 2 does not come in the second, the first is well."""

    def change(rank: int, document: dict[str, Any]) -> None:
        document["pg_config"] = {"0": {"name": "0", "desc": "tp", "ranks": "[0, 1]" if rank < 2 else "[2, 3]"}}
        if rank < 2:
            document["entries"].pop()

    found = judged(changed("absent", "events", change))
    assert [found.all_groups[group].name for group in found.groups] == ["0 tp of rank 2"]
    assert [found.members[culprit.member].rank for culprit in found.culprits] == [2]


def test_a_count_of_operations_says_what_is_over() -> None:
    """States never move, and pg_status tells that operation 4 of 5 is over: the fifth stands still, no rank absent."""

    def change(rank: int, document: dict[str, Any]) -> None:
        counts = {"last_completed_collective": "4", "last_enqueued_collective": "5", "last_started_collective": "-1"}
        document["pg_status"] = {"0": counts}

    found = judged(changed("healthy", "hook", change))
    assert [(stall.seq, sorted(stall.standing), sorted(stall.absent)) for stall in found.stalls] == [
        (5, [0, 1, 2, 3], [])
    ]


def test_an_unknown_group_is_refused_where_all_are_named() -> None:
    """The group of an entry must be in pg_config, unless the recorder is one that leaves it out."""

    def change(rank: int, document: dict[str, Any]) -> None:
        document["entries"][0]["process_group"] = ["7", "dp"]

    with pytest.raises(InvalidInput, match=saying("entry 0", "the group '7'", "pg_config")):
        judged(changed("healthy", "hook", change))
    assert judged(changed("healthy", "gloo", change)).status == "healthy"
