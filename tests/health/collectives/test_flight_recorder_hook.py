"""Flight Recorder dumps of backends without device events, of any name, and of TorchComms: nobody is accused unduly."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.files import Source
from health.collectives.diagnosis import Diagnosis, diagnose_snapshot, verdict
from health.collectives.flagging import flags_of, withheld
from health.collectives.flight_recorder import read_flight_recorder
from health.collectives.reading import read_trace
from tests.facts import says

GROUPS = {"0": [0, 1, 2, 3], "1": [0, 1], "2": [2, 3]}


class Recorder:
    """Writes the dump of one rank as `FlightRecorderHook` does: scheduled and retired, whatever has become of it.

    :param groups: name -> ranks; a rank knows those that it is in.
    """

    def __init__(self, rank: int, groups: dict[str, list[int]] = GROUPS, *, backend: str = "nccl2") -> None:
        self.rank, self.backend = rank, backend
        self.groups = {name: ranks for name, ranks in groups.items() if rank in ranks}
        self.entries: list[dict[str, Any]] = []
        self._seq = dict.fromkeys(self.groups, 0)
        self._ops = dict.fromkeys(self.groups, -1)

    def collective(self, group: str, op: str = "all_reduce", **fields: object) -> None:
        """One collective more."""
        self._seq[group] += 1
        self._add(group, op, is_p2p=False, **fields)

    def transfer(self, group: str, op: str, **fields: object) -> None:
        """One transfer more: ``send 0->3``."""
        self._add(group, op, is_p2p=True, **fields)

    def _add(self, group: str, op: str, **fields: object) -> None:
        self._ops[group] += 1
        made: dict[str, Any] = {
            "record_id": len(self.entries),
            "pg_id": list(self.groups).index(group),
            "process_group": [group, "desc"],
            "collective_seq_id": self._seq[group],
            "op_id": self._ops[group],
            "profiling_name": f"{self.backend}:{op}",
            "time_created_ns": 10**18 + len(self.entries),
            "time_discovered_started_ns": 0,
            "time_discovered_completed_ns": 0,
            "state": "scheduled",
            "retired": True,
        }
        self.entries.append(made | fields)

    def source(self, **document: object) -> Source:
        """The dump, as a file."""
        status = {
            str(i): {
                "last_completed_collective": "-1",
                "last_enqueued_collective": str(self._ops[name]),
                "last_started_collective": "-1",
            }
            for i, name in enumerate(self.groups)
        }
        config = {name: {"name": name, "desc": "desc", "ranks": str(ranks)} for name, ranks in self.groups.items()}
        made = {"version": "2.10", "pg_config": config, "pg_status": status, "entries": self.entries}
        return Source(f"comm_lib_trace_rank_{self.rank}.json", json.dumps(made | document))


def job(rounds: Sequence[int], *, backend: str = "nccl2") -> list[Recorder]:
    """Four ranks: all-reduce over all, all-reduce in pairs, a send from 0 to 3; as many rounds as each has done."""
    recorders = []
    for rank, count in enumerate(rounds):
        made = Recorder(rank, backend=backend)
        for _ in range(count):
            made.collective("0")
            made.collective("1" if rank < 2 else "2")
            if rank in (0, 3):
                made.transfer("0", "send 0->3" if rank == 0 else "recv 3<-0")
        recorders.append(made)
    return recorders


def judged(recorders: Sequence[Recorder]) -> Diagnosis:
    """The diagnosis of their dumps."""
    return diagnose_snapshot(*read_flight_recorder([one.source() for one in recorders]))


def named(found: Diagnosis) -> list[tuple[int | None, str]]:
    """Who is named, and how surely."""
    return [(found.members[culprit.member].rank, culprit.certainty) for culprit in found.culprits]


def test_a_healthy_job_is_healthy() -> None:
    """All ranks have come equally far: nobody is accused, and what the recorder cannot tell is said."""
    found = judged(job([4, 4, 4, 4]))
    assert (found.status, found.culprits, found.stalls) == ("healthy", (), ())
    assert says(verdict(found), "Nothing shows")
    assert says(found.notes, "no device events", "nccl2")


def test_a_recorder_that_was_off_is_said() -> None:
    """Dumps without entries are no proof of health; one entry on one rank is a recording."""
    off = [Recorder(rank) for rank in range(4)]
    said = "nothing is recorded in any dump: TORCH_FR_BUFFER_SIZE=2000 turns the recorder on"
    assert said in read_flight_recorder([recorder.source() for recorder in off])[1]
    off[0].collective("0")
    assert said not in read_flight_recorder([recorder.source() for recorder in off])[1]


def test_the_rank_that_did_not_come_is_named() -> None:
    """Last numbers 5, 5, 4, 5 in the group of all: rank 2 is behind, likely, as the dumps show one moment only."""
    recorders = job([4, 4, 4, 4])
    for rank in (0, 1, 3):
        recorders[rank].collective("0")
    found = judged(recorders)
    assert (found.cause, named(found)) == ("not-launched", [(2, "likely")])
    stall = found.stalls[0]
    assert (stall.seq, sorted(stall.standing), sorted(stall.absent)) == (5, [0, 1, 3], [2])
    assert says(verdict(found), "0 desc", "likely rank 2", "never launched")
    assert says(withheld(found, {2: "n2"}), "do not show", "stands still")


@given(st.lists(st.integers(1, 5), min_size=4, max_size=4))
def test_only_those_behind_are_named(rounds: list[int]) -> None:
    """Whatever the rounds that each rank has done: named are those with the fewest; nobody where all did the same."""
    found = judged(job(rounds))
    fewest = {rank for rank, count in enumerate(rounds) if count == min(rounds)}
    assert {rank for rank, _ in named(found)} <= fewest
    assert (found.status == "healthy") == (len(set(rounds)) == 1)
    assert all(certainty != "certain" for _, certainty in named(found))


def test_other_operations_at_the_end_are_a_crossed_order() -> None:
    """All stand in number 5; rank 3 called something else there."""
    recorders = job([4, 4, 4, 4])
    for recorder in recorders:
        recorder.collective("0", "all_gather" if recorder.rank == 3 else "all_reduce")
    found = judged(recorders)
    assert (found.cause, named(found)) == ("crossed-order", [(3, "likely")])


def test_device_events_are_believed_where_there_are_some() -> None:
    """All have enqueued number 5, and with events number 4 is known to hang: what is queued behind proves nothing."""
    recorders = job([4, 4, 4, 4])
    for recorder in recorders:
        for entry in recorder.entries:
            entry.update(state="completed", time_discovered_completed_ns=1)
        for entry in recorder.entries:
            if entry["process_group"][0] == "0" and entry["collective_seq_id"] >= 4:
                entry.update(state="started", retired=True)
        recorder.collective("0", retired=False)
    found = judged(recorders)
    assert (found.status, found.settled, found.stalls[0].seq) == ("failure", True, 4)
    assert not any("device events" in note for note in found.notes)


def test_an_event_that_was_lost_is_no_stall() -> None:
    """Operations of a group end in order: number 3 without an event, number 4 completed, so 3 is over."""
    recorders = job([4, 4, 4, 4])
    for recorder in recorders:
        for entry in recorder.entries:
            lost = entry["process_group"][0] == "0" and entry["collective_seq_id"] == 3
            entry.update(state="scheduled" if lost else "completed")
    assert judged(recorders).status == "healthy"


def test_a_status_that_all_is_done_is_believed() -> None:
    """States were lost, and pg_status says that the last operation enqueued was completed."""
    recorders = job([4, 4, 4, 4])
    sources = []
    for recorder in recorders:
        counts = {"last_completed_collective": "7", "last_enqueued_collective": 7, "last_started_collective": "7"}
        sources.append(recorder.source(pg_status={"0": counts, "1": counts}))
    found = diagnose_snapshot(*read_flight_recorder(sources))
    assert found.status == "healthy"


def test_a_transfer_that_hangs_is_not_hidden_by_the_count_of_collectives() -> None:
    """ProcessGroupNCCL counts transfers apart: all-reduce 1 is over, send 1 hangs, and the status says 1 of 1."""
    recorders = [Recorder(rank, {"0": [0, 1]}, backend="nccl") for rank in (0, 1)]
    # It counts operations from 1.
    recorders[0].collective("0", state="completed", op_id=1)
    recorders[0].transfer("0", "send 0->1", state="started", op_id=2)
    recorders[1].collective("0", state="completed", op_id=1)
    counts = {"last_completed_collective": 1, "last_enqueued_collective": 1, "last_started_collective": 1}
    dumps = [recorder.source(pg_status={"0": counts}) for recorder in recorders]
    found = diagnose_snapshot(*read_flight_recorder(dumps))
    assert [found.all_groups[stall.group].name for stall in found.stalls] == ["0 0->1"]
    # It was retired without completion, so it has timed out; rank 1 never came to receive.
    assert named(found) == [(1, "certain")]


# --- transfers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["nccl", "nccl2", "nccl-lazy", "ncclx", "mccl_v3", "gloo"])
def test_transfers_of_any_backend_are_read(backend: str) -> None:
    """Rank 0 has sent to 3 once more than 3 received: the pair is shown, whatever the backend is called."""
    recorders = job([4, 4, 4, 4], backend=backend)
    recorders[0].transfer("0", "send 0->3")
    found = judged(recorders)
    assert [found.all_groups[stall.group].name for stall in found.stalls] == ["0 0->3"]
    assert named(found) == [(3, "likely")]


def test_what_names_no_rank_is_counted() -> None:
    """Receives from anybody, and transfers without ranks: left out, and told how many of what."""
    recorders = job([4, 4, 4, 4])
    for _ in range(3):
        recorders[3].transfer("0", "recv 3<-?")
    recorders[0].transfer("0", "coalesced")
    found = judged(recorders)
    assert found.status == "healthy"
    (note,) = [note for note in found.notes if note.startswith("left out")]
    assert says(note, "4 transfers", "nccl2:recv 3<-? 3", "nccl2:coalesced 1")


def test_overwritten_entries_are_not_compared() -> None:
    """The buffer of rank 0 begins in the middle: how many sends it made is not known, and that is told."""
    recorders = job([4, 4, 4, 4])
    del recorders[0].entries[:6]
    found = judged(recorders)
    assert (found.status, found.culprits) == ("healthy", ())
    assert any(note.startswith("1 comparison of ranks left out") for note in found.notes)


def test_a_group_that_was_overwritten_accuses_nobody() -> None:
    """Rank 1 did much else since it last used the group of all: that nothing is left of it means nothing."""
    recorders = job([4, 4, 4, 4])
    recorders[1].entries = [entry for entry in recorders[1].entries[4:] if entry["process_group"][0] == "1"]
    found = judged(recorders)
    assert (found.status, found.culprits) == ("healthy", ())


# --- TorchComms, gloo -------------------------------------------------------------------------------------------------


def torchcomms(recorder: Recorder) -> Source:
    """The dump as TorchComms writes it: one series of numbers, groups described by the backend, transfers without
    ranks, ``is_p2p`` never.
    """
    for i, entry in enumerate(recorder.entries):
        op = str(entry["profiling_name"]).split(" ", 1)[0]
        group = [entry["process_group"][0], recorder.backend]
        entry.update(collective_seq_id=i, is_p2p=False, profiling_name=op, process_group=group)
    config = {
        name: {"name": name, "desc": "desc", "ranks": ",".join(map(str, ranks))}
        for name, ranks in recorder.groups.items()
    }
    return recorder.source(pg_config=config)


def test_torchcomms_numbers_all_groups_in_one_series() -> None:
    """Ranks 0 and 3 also send, so their numbers run ahead: a healthy job all the same; transfers are counted."""
    sources = [torchcomms(recorder) for recorder in job([4, 4, 4, 4], backend="ncclx")]
    found = diagnose_snapshot(*read_flight_recorder(sources))
    assert (found.status, found.culprits) == ("healthy", ())
    assert any("ncclx:send 4" in note and "ncclx:recv 4" in note for note in found.notes)


def test_torchcomms_names_who_is_behind() -> None:
    """Rank 2 lacks the fifth all-reduce over all."""
    recorders = job([4, 4, 4, 4], backend="ncclx")
    for rank in (0, 1, 3):
        recorders[rank].collective("0")
    found = diagnose_snapshot(*read_flight_recorder([torchcomms(recorder) for recorder in recorders]))
    assert named(found) == [(2, "likely")]


def test_gloo_names_no_groups() -> None:
    """Its recorder leaves pg_config empty: who used a group is taken for its members, and that is said."""
    recorders = job([4, 4, 4, 4], backend="gloo")
    for rank in (0, 1, 3):
        recorders[rank].collective("0")
    found = diagnose_snapshot(*read_flight_recorder([one.source(pg_config={}) for one in recorders]))
    assert named(found) == [(2, "likely")]
    assert says(found.notes, "the group '0'", "not recorded")


def test_a_transfer_that_is_not_of_its_own_rank_is_left_out() -> None:
    """A rank that says who else sends to whom: counted, and of no use."""
    recorders = job([4, 4, 4, 4])
    recorders[1].transfer("0", "send 0->3")
    found = judged(recorders)
    assert found.status == "healthy"
    assert says(found.notes, "left out", "1 transfer", "nccl2:send 0->3 1")


@pytest.mark.parametrize("lost", range(4))
def test_a_rank_that_left_no_dump_is_a_suspect(lost: int) -> None:
    """Three of four ranks wrote a dump: the fourth died or its file is missing; likely, and no node is flagged."""
    found = judged([recorder for recorder in job([4, 4, 4, 4]) if recorder.rank != lost])
    assert (found.cause, named(found)) == ("no-record", [(lost, "likely")])
    assert says(verdict(found), f"likely rank {lost}", "no record")
    assert flags_of(found, {i: f"n{i}" for i in range(4)}, now=datetime(2026, 11, 28, tzinfo=UTC)) == []


def test_dumps_of_half_a_job_accuse_nobody() -> None:
    """Two of four dumps are there: somebody gave a part of them."""
    found = judged(job([4, 4, 4, 4])[:2])
    assert (found.status, found.culprits) == ("healthy", ())


# --- what waits, and what is over, by ProcessGroupNCCL without events -------------------------------------------------


@pytest.mark.parametrize("rounds", [1, 2])
def test_the_last_rank_is_missed_by_the_group_that_was_made_last(rounds: int) -> None:
    """Rank 2's group {2, 3} had two members, and rank 3 has no dump: it died, once more than one
    collective shows that it was there; before that nobody knows whether it is a rank.
    """
    recorders = job([0, 0, 0], backend="gloo")
    for recorder in recorders:
        for _ in range(rounds):
            recorder.collective("2" if recorder.rank == 2 else "1")
        if recorder.rank != 2:
            recorder.collective("0")
    config = {"": {"name": "", "desc": "", "ranks": "[0, 1]"}}
    found = diagnose_snapshot(*read_flight_recorder([recorder.source(pg_config=config) for recorder in recorders]))
    assert (3 in {member.rank for member in found.members}) == (rounds > 1)
    if rounds > 1:
        assert (found.cause, named(found)) == ("no-record", [(3, "likely")])


@pytest.mark.skipif("ARNOLD_DATA" not in os.environ, reason="ARNOLD_DATA is not set: the public dumps are not here")
@pytest.mark.parametrize("folder", ["gpu_error_2nd", "lock_gil_1st"])
def test_the_faults_that_nvidia_injected(folder: str) -> None:
    """Ranks 9 and 14 of a Megatron job of 16 ranks had an error of their GPU, or held Python's lock: they alone."""
    dumps = Path(os.environ["ARNOLD_DATA"], "real", "nvrx_flight_recorder", folder).glob("*.json")
    found = diagnose_snapshot(*read_flight_recorder([read_trace(str(path)) for path in dumps]))
    assert named(found) == [(9, "likely"), (14, "likely")]
    assert found.cause == ("not-completed" if folder == "gpu_error_2nd" else "not-launched")


def pending(rank: int, waits: Sequence[tuple[str, int]], status: Sequence[tuple[int, int]]) -> Source:
    """A dump that holds what is not over alone: (group, number) in order; last completed and enqueued of each group."""
    recorder = Recorder(rank, backend="nccl")
    for group, number in waits:
        recorder.collective(group, retired=False, collective_seq_id=number, record_id=99)
    counts = {
        str(i): {"last_completed_collective": done, "last_started_collective": -1, "last_enqueued_collective": last}
        for i, (done, last) in enumerate(status)
    }
    return recorder.source(pg_status=counts)


def test_a_rank_stands_in_the_first_that_it_has_not_completed() -> None:
    """Rank 1 has not completed pair 1's number 7, which rank 0 has; all others wait for it in the group of all."""
    dumps = [
        pending(0, [("0", 5)], [(4, 5), (7, 7)]),
        pending(1, [("1", 7), ("0", 5)], [(4, 5), (6, 7)]),
        pending(2, [("0", 5)], [(4, 5), (9, 9)]),
        pending(3, [("0", 5)], [(4, 5), (9, 9)]),
    ]
    found = diagnose_snapshot(*read_flight_recorder(dumps))
    # an all-reduce is over nowhere before all have taken part
    assert (found.cause, named(found)) == ("not-completed", [(1, "likely")])
    assert [(s.standing, s.passed, s.behind) for s in found.stalls] == [({0, 2, 3}, set(), {1}), ({1}, {0}, set())]


def test_what_others_have_completed_is_over_here_whatever_stands_before_it() -> None:
    """Rank 1 waits in a transfer first, by its host; 0, 2 and 3 have completed number 5, in which it took part."""
    late = Recorder(1, backend="nccl")
    late.transfer("1", "recv 1<-0", retired=False, record_id=99)
    late.collective("0", retired=False, collective_seq_id=5)
    dumps = [pending(rank, [("0", 6)], [(5, 6), (9, 9)]) for rank in (0, 2, 3)]
    counts = {"last_completed_collective": 4, "last_started_collective": -1, "last_enqueued_collective": 5}
    found = diagnose_snapshot(*read_flight_recorder([*dumps, late.source(pg_status={"0": counts, "1": counts})]))
    assert (found.cause, named(found)) == ("not-completed", [(1, "likely")])


def test_a_rank_without_entries_has_passed_what_its_status_says() -> None:
    """Rank 1 stands in number 5; the others have nothing under way, and by pg_status they have completed it."""
    idle = [pending(rank, [], [(5, 5), (9, 9)]) for rank in (0, 2, 3)]
    found = diagnose_snapshot(*read_flight_recorder([*idle, pending(1, [("0", 5)], [(4, 5), (9, 9)])]))
    assert (found.cause, named(found)) == ("not-completed", [(1, "likely")])


def test_a_recorder_that_was_off_on_some_ranks_accuses_them_of_nothing() -> None:
    """Rank 0 alone has entries, all over: the others have not even counts."""
    recorders = job([4, 0, 0, 0], backend="gloo")
    found = diagnose_snapshot(
        *read_flight_recorder([recorders[0].source(), *(one.source(pg_status={}) for one in recorders[1:])])
    )
    assert (found.status, named(found)) == ("healthy", [])


def test_ranks_are_counted_from_0_where_gloo_does_not_say_how_many_there_are() -> None:
    """Dumps of ranks 0, 1 and 3: rank 2 left none.  Rank 0 has given up, as it lost its peer, and is not blamed."""
    recorders = job([4, 5, 5, 5], backend="gloo")
    config = {"": {"name": "", "desc": "", "ranks": "[0, 1]"}}
    found = diagnose_snapshot(*read_flight_recorder([recorders[rank].source(pg_config=config) for rank in (0, 1, 3)]))
    assert (found.cause, named(found)) == ("no-record", [(2, "likely")])
