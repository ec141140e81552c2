"""Lines of PyTorch's watchdog in a job's log: who is behind, and who merely says that time ran out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from health.look.folder import FolderLook, look_at_folder

Looking = Callable[..., FolderLook]


@pytest.fixture
def look(tmp_path: Path) -> Looking:
    """Look at files by their names and texts."""

    def at(**texts: str) -> FolderLook:
        for name, text in texts.items():
            (tmp_path / f"{name}.log").write_text(text)
        return look_at_folder(str(tmp_path))

    return at


def timeout(
    rank: int, number: int, *, op: str = "ALLREDUCE", size: int = 512, group: str = "PG ID 0 PG GUID 0(default_pg)"
) -> str:
    """Two lines of PyTorch 2.6 and later: the timeout, and what was last enqueued and completed."""
    who = f"[rank{rank}]:[E101 10:00:00.1 ProcessGroupNCCL.cpp:1] [{group} Rank {rank}]"
    return (
        f"{who} Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number}, OpType={op}, NumelIn={size}, "
        f"NumelOut={size}, Timeout(ms)=600000) ran for 600034 milliseconds before timing out.\n"
        f"{who}  failure detected by watchdog at work sequence id: {number} PG status: last enqueued work: "
        f"{number + 1}, last completed work: {number - 1}\n"
    )


def signal(rank: int, enqueued: int) -> str:
    """The line of a rank that waits in nothing, and dumps as another asks it to."""
    return (
        f"[rank{rank}]:[E101 10:00:00.1 ProcessGroupNCCL.cpp:2] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a "
        f"dump signal due to a collective timeout from rank 0 and we will try our best to dump the debug info. Last "
        f"enqueued NCCL work: {enqueued}, last completed NCCL work: {enqueued}.\n"
    )


def test_who_never_enqueued_what_the_others_wait_in_is_behind(look: Looking) -> None:
    """Rank 2 enqueued 41 at last, and three others wait in 42."""
    found = look(job="".join([timeout(0, 42), timeout(1, 42), timeout(3, 42), signal(2, 41)]))
    (suspect,) = found.suspects
    assert (suspect.rank, suspect.kind, suspect.sure) == (2, "not-launched", "likely")
    assert suspect.why[0].lines == (7,)


def test_who_waits_in_what_the_others_completed_is_stuck(look: Looking) -> None:
    """Rank 1 waits in 41; the others have completed it, and wait in 42 for rank 1."""
    found = look(job="".join([timeout(0, 42), timeout(1, 41), timeout(2, 42), timeout(3, 42)]))
    assert [(suspect.rank, suspect.kind) for suspect in found.suspects] == [(1, "gpu-not-ready")]


@pytest.mark.parametrize("ranks", [(0,), (0, 3, 4), (11, 12, 14, 15)])
def test_who_says_that_time_ran_out_is_not_blamed(look: Looking, ranks: tuple[int, ...]) -> None:
    """Ranks that speak are witnesses; those that are not in the excerpt may have spoken elsewhere."""
    found = look(job="".join(timeout(rank, 42) for rank in ranks))
    assert found.suspects == ()
    assert found.next


def test_numbers_of_two_groups_are_not_compared(look: Looking) -> None:
    """Two tensor-parallel groups count on their own: 7 in one is not behind 42 in the other."""
    groups = {0: "PG ID 1 PG GUID 3(tp)", 1: "PG ID 1 PG GUID 4(tp)"}
    lines = [timeout(rank, 7 if rank < 2 else 42, group=groups[rank // 2]) for rank in range(4)]
    assert look(job="".join(lines)).suspects == ()
    # nor are numbers of groups that have no name, and whose ranks are not those of the job
    bare = [
        timeout(rank, 7 if rank < 2 else 42, group="PG 1").replace(f"Rank {rank}]", f"Rank {rank % 2}]")
        for rank in range(4)
    ]
    assert look(job="".join(bare)).suspects == ()


def test_attempts_of_a_job_are_not_compared(look: Looking) -> None:
    """Four ranks waited in 42 before the job began again with sixteen, of which rank 6 never called 100."""
    again = [timeout(rank, 100) for rank in range(16) if rank != 6]
    found = look(job="".join([*map(timeout, range(4), [42] * 4), *again, signal(6, 99)]))
    assert [(suspect.rank, suspect.kind) for suspect in found.suspects] == [(6, "not-launched")]


def test_who_spoke_in_another_attempt_is_not_silent(look: Looking) -> None:
    """The end of the first attempt alone has rank 0, that of the second the seven others."""
    assert not look(job="".join([timeout(0, 42), *(timeout(rank, 100) for rank in range(1, 8))])).suspects


def seats(*nodes: int) -> str:
    """What NCCL says of two ranks on each of some nodes."""
    ranks = 2 * len(nodes)
    return "".join(
        f"n{node}:9:9 [{k}] NCCL INFO comm 0x1 rank {2 * node + k} nranks {ranks} cudaDev {k} - Init COMPLETE\n"
        for node in nodes
        for k in range(2)
    )


def test_who_is_idle_in_all_groups_is_behind(look: Looking) -> None:
    """Rank 2 waits nowhere, though it stands in a tensor-parallel group, too; rank 3, behind as well, waits there."""
    tp, world = "PG ID 1 PG GUID 7(tp)", "PG ID 0 PG GUID 0(default_pg)"
    idle = signal(2, 9).replace(f"{world} Rank 2", f"{tp} Rank 0")
    waits = timeout(3, 10, group=tp).replace(f"[{tp} Rank 3]", f"[{tp} Rank 1]")
    text = "".join([*map(timeout, (0, 1, 4, 5), [42] * 4), signal(2, 41), idle, signal(3, 41), waits])
    assert [(suspect.rank, suspect.kind) for suspect in look(job=text).suspects] == [(2, "not-launched")]


def test_who_waits_for_what_is_sent_is_a_victim(look: Looking) -> None:
    """Rank 3 is behind in the group of all, as the stage before it sent it nothing."""
    waits = timeout(3, 7, op="RECV", group="PG ID 1 PG GUID 7(pp)")
    assert not look(job="".join([*map(timeout, (0, 1, 4, 5), [42] * 4), signal(3, 41), waits])).suspects


@pytest.mark.parametrize(
    ("missing", "named"), [((6, 7), [6, 7]), ((5, 6), []), ((7,), [7])], ids=["a node", "of two nodes", "a rank"]
)
def test_lines_that_are_lost_are_no_silence(look: Looking, missing: tuple[int, ...], named: list[int]) -> None:
    """All other ranks wait in 42: silent are one rank, or both of one node; of two nodes a log was cut."""
    waiting = "".join(timeout(rank, 42) for rank in range(16) if rank not in missing)
    found = look(job=waiting, nccl=seats(*range(8)))
    assert sorted(suspect.rank or 0 for suspect in found.suspects) == named


def test_whose_watchdog_is_stuck_is_silent(look: Looking) -> None:
    """Another thread says that of rank 2, and its watchdog says nothing; three others wait in 42."""
    stuck = "[rank2]:[F] [PG ID 0 PG GUID 0(default_pg) Rank 2] ProcessGroupNCCL's watchdog got stuck for 480 seconds\n"
    found = look(job="".join([*map(timeout, (0, 1, 3), [42] * 3), stuck]))
    assert [(suspect.rank, suspect.kind) for suspect in found.suspects] == [(2, "silent")]


def test_a_line_that_is_cut_off_is_no_other_call(look: Looking) -> None:
    """OpType=ALLRE is no operation, 51 no size; and the rank is not silent, for its watchdog speaks."""
    for cut in ("ALLRE", "51"):
        lines = timeout(2, 42).partition("\n")
        broken = f"{lines[0].partition(cut)[0]}{cut}\n[rank2]:[F] [PG ID 0 PG GUID 0(default_pg) Rank 2] Terminating\n"
        assert not look(job=broken + "".join(map(timeout, (0, 1, 3), [42] * 3))).suspects


def test_who_calls_another_operation_is_the_programs(look: Looking) -> None:
    """One of four gathers where the others reduce: the program is wrong, and no node."""
    found = look(job="".join(timeout(rank, 42, op="ALLGATHER" if rank == 3 else "ALLREDUCE") for rank in range(4)))
    assert [(suspect.rank, suspect.kind) for suspect in found.suspects] == [(3, "program-other-operation")]


@pytest.mark.parametrize(("others", "named"), [((0,), []), ((0, 1, 3), [2])])
def test_few_ranks_without_a_group_may_be_of_several(look: Looking, others: tuple[int, ...], named: list[int]) -> None:
    """PyTorch 2.1 names no group: one that waits in 7 says nothing of one that waits in 4, three do."""
    line = "[E ProcessGroupNCCL.cpp:475] [Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, "
    text = "".join(line.format(rank, 4 if rank == 2 else 7) + "OpType=ALLREDUCE)\n" for rank in (*others, 2))
    assert [suspect.rank for suspect in look(job=text).suspects] == named


def test_sends_are_not_compared(look: Looking) -> None:
    """A rank of a pipeline waits in its send 7, others in receives 42 of theirs: each pair counts on its own."""
    found = look(
        job="".join(timeout(rank, 7 if rank == 2 else 42, op="SEND" if rank == 2 else "RECV") for rank in range(4))
    )
    assert found.suspects == ()
