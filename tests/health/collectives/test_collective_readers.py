"""Readers of traces: what each format says, and what happens to rows that cannot be used."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.simulated_collectives import BenchJob, simulate
from ground.errors import InvalidInput, UnknownName
from ground.files import Source
from ground.formats import recognise
from health.collectives import reading as reading_module
from health.collectives.diagnosis import diagnose_snapshot
from health.collectives.flight_recorder import read_flight_recorder
from health.collectives.inspector import latecomers, read_inspector, read_prometheus
from health.collectives.progress import read_progress
from health.collectives.ras import read_ras
from health.collectives.reading import CONVERTER, diagnose_files, read_trace, read_traces
from tests.facts import saying, says
from tests.health.collectives.progress_lines import write_progress

Rows = list[dict[str, Any]]


def lines(rows: Rows, name: str = "trace.jsonl") -> Source:
    """Objects as JSON lines."""
    return Source(name, "".join(json.dumps(row) + "\n" for row in rows))


# --- our own progress lines -------------------------------------------------------------------------------------------


def progress() -> Rows:
    """Two ranks, one flow that stands still, one completion."""
    state = {"type": "state", "rank": 0, "comm": "dp", "seq": 2, "op": "AllReduce", "channel": 0, "peer": 1}
    state |= {"total": 8, "GPU_ready": 4, "RDMA_transmitted": 2, "RDMA_done": 2, "time": 1000.1}
    done = {"type": "done", "time": 1000.0, "start": 999.5, "rank": 0, "comm": "dp", "seq": 1, "op": "AllReduce"}
    return [
        {"type": "format", "name": "arnold-progress", "version": 1},
        {"type": "rank", "rank": 0, "host": "n0"},
        {"type": "rank", "rank": 1, "host": "n1"},
        {"type": "group", "comm": "dp", "kind": "dp", "ranks": [0, 1]},
        done | {"bytes": 4096},
        state,
    ]


def test_progress_round_trip() -> None:
    """What the bench recorded, written and read again, is the same recording."""
    recording = simulate(BenchJob(dp=2, tp=1, pp=2, gpus_per_node=1), 4.0, seed=1)
    again = read_progress([Source("p", "\n".join(write_progress(recording)) + "\n")])
    assert again.members == recording.members
    assert again.groups == recording.groups
    for name in ("time", "member", "seq", "peer", "way", "ready", "transmitted", "done"):
        assert np.array_equal(getattr(again.states, name), getattr(recording.states, name)), name
    assert np.array_equal(again.completions.end, recording.completions.end)
    assert [again.ops[i] for i in again.completions.op] == [recording.ops[i] for i in recording.completions.op]


def put(**fields: object) -> Callable[[Rows], None]:
    """Change the last row."""
    return lambda rows: rows[-1].update(fields)


DAMAGE: list[tuple[Callable[[Rows], Any], str]] = [
    (put(RDMA_done=3), "counters contradict"),
    (put(GPU_ready=9), "counters contradict"),
    (put(GPU_ready=-1), "'GPU_ready' is -1"),
    (put(time=float("nan")), "'time' is nan"),
    (put(time=-5), "'time' is -5"),
    (put(rank=7), "no rank line for rank 7"),
    (put(peer=0), "not another rank"),
    (put(comm="tp"), "no group line"),
    (put(way="sideways"), "'way' is 'sideways'"),
    (put(type="stat"), "'type' is 'stat'"),
    (put(op=None), "'op' is None"),
    (put(seq=2**70), "'seq' is"),
    (put(channel=2**40), "too large"),
    (lambda rows: rows[-1].pop("total"), "'total' is missing"),
    (lambda rows: rows.append(rows[4]), "twice"),
    (lambda rows: rows.append(rows[4] | {"seq": 3, "start": 1001}), "duration is negative"),
    (lambda rows: rows.append(rows[-1] | {"time": 1000.3, "GPU_ready": 3}), "run backwards"),
    (lambda rows: rows.append(rows[-1] | {"time": 1000.3, "total": 9}), "changes its"),
    (lambda rows: rows.append({"type": "rank", "rank": 0, "host": "n9"}), "rank 0 is on 'n9'"),
    (lambda rows: rows.append({"type": "group", "comm": "dp", "kind": "dp", "ranks": [0]}), "other members"),
    (lambda rows: rows.append({"type": "format", "name": "arnold-progress", "version": 2}), "version 2"),
]


@pytest.mark.parametrize(("change", "words"), DAMAGE)
def test_damaged_progress(change: Callable[[Rows], Any], words: str) -> None:
    """Strict: file, line, what is wrong and what to do.  Lenient: dropped, counted, and the rank is under suspicion."""
    rows = progress()
    change(rows)
    source = lines(rows)
    with pytest.raises(InvalidInput, match=words) as caught:
        read_progress([source])
    assert caught.value.where == f"trace.jsonl:{len(rows)}"
    assert "--lenient" in caught.value.fix
    recording = read_progress([source], lenient=True)
    assert len(recording.notes) == 1
    assert recording.notes[0].startswith("dropped 1 rows")
    assert recording.tainted


def test_a_truncated_last_line() -> None:
    """A file that ends in the middle of a line says so."""
    text = lines(progress()).text
    with pytest.raises(InvalidInput, match="truncated") as caught:
        read_progress([Source("p", text[:-20])])
    assert caught.value.where == "p:6"


def test_nothing_is_certain_of_a_rank_whose_rows_were_dropped() -> None:
    """The rank that never launched may have: one of its rows could not be read."""
    head: Rows = progress()[:3]
    head += [
        {"type": "rank", "rank": 2, "host": "n2"},
        {"type": "group", "comm": "dp", "kind": "dp", "ranks": [0, 1, 2]},
    ]
    stuck = progress()[-1]
    body = [stuck | {"rank": r, "peer": (r + 1) % 3, "time": 1000 + i / 10} for i in range(350) for r in (0, 1)]
    sure = diagnose_files([lines(head + body)])[1]
    assert (sure.cause, [(c.member, c.certainty) for c in sure.culprits]) == ("not-launched", [(2, "certain")])
    bad = stuck | {"rank": 2, "peer": 0, "GPU_ready": None}
    unsure = diagnose_files([lines([*head, *body, bad])], lenient=True)[1]
    assert [(c.member, c.certainty) for c in unsure.culprits] == [(2, "likely")]


# --- NCCL Inspector ---------------------------------------------------------------------------------------------------


def inspector(
    rank: int, seq: int, *, start: float, end: float, comm: str = "0xa", version: str = "v4.2"
) -> dict[str, Any]:
    """One verbose line of rank ``rank``, which runs alone on host ``h<rank>``; times in seconds."""
    kernel = {"channel_id": 0, "kernel_start_ts": int(start * 1e6), "kernel_stop_ts": int(end * 1e6)}
    perf = {"coll": "AllReduce", "coll_sn": seq, "coll_msg_size_bytes": 1 << 20, "coll_exec_time_us": 1000}
    perf |= {"coll_algobw_gbs": 1.0, "coll_busbw_gbs": 2.0, "event_trace_ts": {"kernel_events": [kernel]}}
    return {
        "header": {"id": comm, "rank": rank, "n_ranks": 4, "nnodes": 4},
        "metadata": {
            "inspector_output_format_version": version,
            "git_rev": "",
            "rec_mechanism": "nccl_profiler_interface",
            "dump_timestamp_us": int(end * 1e6),
            "hostname": f"h{rank}",
            "pid": 100 + rank,
        },
        "coll_perf": perf,
    }


def steps(*, slow: int | None, after: float, until: float = 130.0) -> Rows:
    """Four ranks that compute 0.4 s and reduce 0.1 s; from ``after`` on one computes four times as long."""
    rows, time, seq = [], 1000.0, 0
    while time < 1000.0 + until:
        seq += 1
        work = [0.4 * (4 if rank == slow and time - 1000 >= after else 1) for rank in range(4)]
        end = time + max(work) + 0.1
        rows += [inspector(rank, seq, start=time + work[rank], end=end) for rank in range(4)]
        time = end
    return rows


def test_inspector_finds_who_works_longer() -> None:
    """Completions alone tell who comes last because of its own work, once it has become slow."""
    format_, found = diagnose_files([lines(steps(slow=2, after=60.0))])
    assert (format_, found.status, found.cause) == ("inspector", "straggler", "slow-compute")
    assert [(found.members[c.member].label, c.certainty) for c in found.culprits] == [("rank 2", "certain")]
    assert found.members[found.culprits[0].member].host == "h2"
    assert found.culprits[0].factor == pytest.approx(4.0, rel=0.05)
    assert diagnose_files([lines(steps(slow=None, after=0))])[1].status == "healthy"


def test_inspector_v43_context() -> None:
    """From v4.3 on, header and metadata stand once, in the dump_stats line before the records."""
    full = inspector(1, 5, start=1.0, end=2.0, version="v4.3")
    stats = {"coll_records": 1, "coll_dropped_since_last_dump": 3, "proxy_records": 1}
    marker = {"header": full["header"], "metadata": full["metadata"], "dump_stats": stats}
    recording = read_inspector([lines([marker, {"coll_perf": full["coll_perf"]}, {"proxy_trace": {}}])])
    assert recording.completions.seq.tolist() == [5]
    assert any("lost 3 records" in note for note in recording.notes)
    with pytest.raises(InvalidInput, match="outside of its dump"):
        read_inspector([lines([marker, {"coll_perf": full["coll_perf"]}, {"coll_perf": full["coll_perf"]}])])
    with pytest.raises(InvalidInput, match="no dump_stats line"):
        read_inspector([lines([{"coll_perf": full["coll_perf"]}])])


def test_inspector_without_verbose_times() -> None:
    """Without traces an operation ends at its dump and begins its execution time before."""
    row = inspector(0, 1, start=1.0, end=2.0)
    del row["coll_perf"]["event_trace_ts"]
    recording = read_inspector([lines([row])])
    assert recording.completions.end.tolist() == pytest.approx([2.0])
    assert recording.completions.start.tolist() == pytest.approx([1.999])
    assert says(recording.notes, "the dump")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda row: row["metadata"].update(inspector_output_format_version="v9"), "version 'v9'"),
        (lambda row: row["header"].update(rank=4), "rank 4 of a communicator of 4"),
        (lambda row: row["header"].pop("id"), "'id' is missing"),
        (lambda row: row["coll_perf"].update(coll_exec_time_us=float("nan")), "'coll_exec_time_us' is nan"),
        (lambda row: row["coll_perf"].update(coll_sn="1"), "'coll_sn' is '1'"),
        (lambda row: row.pop("coll_perf"), "has none of coll_perf"),
        (lambda row: row["metadata"].update(hostname=""), "'hostname' is ''"),
        (lambda row: row["coll_perf"]["event_trace_ts"]["kernel_events"][0].update(kernel_stop_ts=1), "negative"),
    ],
)
def test_damaged_inspector(change: Callable[[dict[str, Any]], Any], words: str) -> None:
    """Each fault is said with its line."""
    rows = [inspector(0, 1, start=1.0, end=2.0), inspector(1, 1, start=1.0, end=2.0)]
    change(rows[1])
    with pytest.raises(InvalidInput, match=words) as caught:
        read_inspector([lines(rows)])
    assert caught.value.where == "trace.jsonl:2"
    assert len(read_inspector([lines(rows)], lenient=True).completions) == 1


def prom(node: str, gpu: str, seconds: float) -> str:
    """The two lines of one collective, labels of v5.1."""
    labels = f'version="v5.1",slurm_job_id="1",node="{node}",gpu="{gpu}",comm_name="DP Group 0",n_nodes="4",nranks="4",'
    labels += 'collective="AllReduce",message_size="4-5GB",algo_proto="Ring_ll"'
    micro = seconds * 1e6
    return f"nccl_bus_bandwidth_gbs{{{labels}}} 678.2\nnccl_collective_exec_time_microseconds{{{labels}}} {micro}\n"


def test_prometheus_names_who_comes_last_as_a_possibility() -> None:
    """The GPU that spends a third of the others' time inside comes last; averages are never more than a hint."""
    text = "# TYPE nccl_bus_bandwidth_gbs gauge\n" + "".join(
        prom(f"n{i}", "GPU0", 0.1 if i == 2 else 0.3) for i in range(4)
    )
    source = Source("x.prom", text)
    averages = read_prometheus([source])
    assert {averages.members[m].label: ratio for m, ratio in latecomers(averages).items()} == {
        "n2 GPU0": pytest.approx(3.0)
    }
    found = diagnose_files([source])[1]
    assert (found.status, found.cause, found.certainty) == ("straggler", "late", "possible")
    even = Source("x.prom", "".join(prom(f"n{i}", "GPU0", 0.3) for i in range(4)))
    assert diagnose_files([even])[1].status == "healthy"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nccl_bus_bandwidth_gbs{node=}", "not a line of Prometheus"),
        ("nccl_bus_bandwidth_gbs{node=x} 1", "labels are not a list"),
        ('nccl_bus_bandwidth_gbs{node="x"} NaN', "not a number of at least 0"),
        ('nccl_bus_bandwidth_gbs{node="x"} 1', "a label is missing"),
    ],
)
def test_damaged_prometheus(line: str, words: str) -> None:
    """Each fault is said with its line."""
    with pytest.raises(InvalidInput, match=words) as caught:
        read_prometheus([Source("x.prom", prom("n0", "GPU0", 1.0) + line + "\n")])
    assert caught.value.where == "x.prom:3"


# --- PyTorch Flight Recorder ------------------------------------------------------------------------------------------


def entry(group: str, seq: int, state: str, *, op: str = "nccl:all_reduce", retired: bool = False) -> dict[str, Any]:
    """An entry as `dump_json` writes it (fields that are not read are left out)."""
    made = {"record_id": seq, "pg_id": 0, "process_group": [group, "desc"], "collective_seq_id": seq, "p2p_seq_id": 0}
    made |= {"profiling_name": op, "state": state, "time_created_ns": 10**18 + seq, "retired": retired}
    return made | {"is_p2p": "send" in op or "recv" in op}


def dump(rank: int, entries: Rows, groups: dict[str, list[int]]) -> Source:
    """The dump of a rank; ranks of groups as text, as the recorder writes them."""
    config = {name: {"name": name, "desc": "desc", "ranks": str(ranks)} for name, ranks in groups.items()}
    document = {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries}
    return Source(f"nccl_trace_rank_{rank}.json", json.dumps(document))


GROUPS = {"a": [0, 1, 2, 3], "b": [0, 1], "c": [2, 3]}


def test_flight_recorder_follows_the_waiting_groups() -> None:
    """Group a waits for 2, which waits in c for 3, which enqueued nothing: 3 is to blame; a timeout makes it sure."""
    late = entry("a", 5, "started", retired=True)
    dumps = [dump(r, [entry("a", 4, "completed"), late], GROUPS) for r in (0, 1)]
    dumps += [dump(2, [entry("a", 4, "completed"), entry("c", 9, "scheduled")], GROUPS)]
    dumps += [dump(3, [entry("a", 4, "completed"), entry("c", 8, "completed")], GROUPS)]
    snapshot, notes = read_flight_recorder(dumps)
    found = diagnose_snapshot(snapshot, notes)
    assert found.cause == "not-launched"
    assert [(found.members[c.member].rank, c.certainty) for c in found.culprits] == [(3, "certain")]
    assert [found.all_groups[g].name for g in found.victims] == ["a desc"]


def test_flight_recorder_without_a_timeout_is_not_sure() -> None:
    """The same picture may be a healthy job at work: likely at most, and it says so."""
    dumps = [dump(0, [entry("b", 5, "started")], GROUPS), dump(1, [entry("b", 4, "completed")], GROUPS)]
    found = diagnose_snapshot(*read_flight_recorder(dumps))
    assert [(found.members[c.member].rank, c.certainty) for c in found.culprits] == [(1, "likely")]
    assert any("may show a healthy job" in note for note in found.notes)


def test_flight_recorder_sees_another_operation_under_the_same_number() -> None:
    """Rank 3 called all_gather where the others called all_reduce."""
    dumps = [dump(r, [entry("a", 5, "started", retired=True)], GROUPS) for r in range(3)]
    dumps += [dump(3, [entry("a", 5, "started", op="nccl:all_gather")], GROUPS)]
    found = diagnose_snapshot(*read_flight_recorder(dumps))
    assert (found.cause, [found.members[c.member].rank for c in found.culprits]) == ("crossed-order", [3])


def test_flight_recorder_pairs_sends_with_receives() -> None:
    """Rank 1 waits to receive from 0, who stands in another group: the pair is a victim of that group."""
    dumps = [
        dump(0, [entry("a", 5, "started", retired=True)], GROUPS),
        dump(1, [entry("b", 0, "started", op="nccl:recv 1<-0", retired=True), entry("a", 5, "scheduled")], GROUPS),
        dump(2, [entry("a", 5, "started")], GROUPS),
        dump(3, [entry("a", 4, "completed")], GROUPS),
    ]
    found = diagnose_snapshot(*read_flight_recorder(dumps))
    assert [found.members[c.member].rank for c in found.culprits] == [3]
    assert [found.all_groups[g].name for g in found.victims] == ["b 0->1"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("version"), "'version' is missing"),
        (lambda d: d.update(version="1.5"), "version '1.5'"),
        (lambda d: d["entries"][0].update(state="running"), "entry 0: 'state' is 'running'"),
        (lambda d: d["entries"][0].update(process_group=["z", ""]), "entry 0: the group 'z'"),
        (lambda d: d["entries"][0].update(profiling_name="nccl:send 0->9"), "does not have"),
        (lambda d: d["pg_config"]["a"].update(ranks="__import__('os')"), "not a list of numbers"),
        (lambda d: d.update(entries={}), "'entries' is {}, not a list"),
        (lambda d: d.update(rank=-1), "'rank' is -1"),
    ],
)
def test_damaged_flight_recorder(change: Callable[[dict[str, Any]], Any], words: str) -> None:
    """Each fault is said with the file, and how to get a good one."""
    document = json.loads(dump(0, [entry("a", 1, "started")], GROUPS).text)
    change(document)
    with pytest.raises(InvalidInput, match=words) as caught:
        read_flight_recorder([Source("rank_0.json", json.dumps(document))])
    assert caught.value.where == "rank_0.json"
    assert CONVERTER in caught.value.fix


def test_a_broken_dump_is_left_out_leniently() -> None:
    """Of eight hundred ranks one was killed while it wrote: the others are judged, and of that one nothing is said."""
    late = entry("a", 5, "started", retired=True)
    dumps = [dump(r, [late], GROUPS) for r in (0, 1)]
    cut = Source("nccl_trace_rank_2.json", dump(2, [late], GROUPS).text[:15])
    wrong = Source("nccl_trace_rank_3.json", dump(3, [late], GROUPS).text.replace("started", "running"))
    with pytest.raises(InvalidInput, match="truncated"):
        diagnose_files([*dumps, cut])
    with pytest.raises(InvalidInput, match="'state' is 'running'"):
        diagnose_files([*dumps, wrong])
    format_, found = diagnose_files([cut, *dumps, wrong], lenient=True)
    assert (format_, found.status, found.culprits) == ("flight-recorder", "failure", ())
    left_out = [note for note in found.notes if note.startswith("left out")]
    assert says(left_out[0], "nccl_trace_rank_2.json", "JSON")
    (wrong_state,) = left_out[1:]
    assert says(
        wrong_state, "nccl_trace_rank_3.json", "entry 0", "'state'", "'running'", "scheduled", "started", "completed"
    )
    with pytest.raises(InvalidInput, match="truncated"):
        diagnose_files([cut], lenient=True)
    with pytest.raises(InvalidInput, match="'state' is 'running'"):
        diagnose_files([wrong], lenient=True)
    # Other formats are no dumps of single ranks: a file that is none of them is an error.
    with pytest.raises(InvalidInput, match="truncated"):
        diagnose_files([lines(progress()), cut], lenient=True)


def test_an_empty_dump_is_a_broken_one(tmp_path: Path) -> None:
    """A rank was killed before it wrote its dump: leniently the others are judged, format said or not."""
    files = [tmp_path / f"nccl_trace_rank_{rank}.json" for rank in range(3)]
    for rank, file in enumerate(files[:2]):
        file.write_text(dump(rank, [entry("a", 5, "started", retired=True)], GROUPS).text)
    files[2].write_text("\n")
    sources = [read_trace(str(file)) for file in files]
    for said in (None, "flight-recorder"):
        _, found = diagnose_files(sources, format=said, lenient=True)
        assert [note for note in found.notes if says(note, "left out", str(files[2]))]
        with pytest.raises(InvalidInput, match="is empty"):
            diagnose_files(sources, format=said)
    with pytest.raises(InvalidInput, match="is empty"):
        diagnose_files([lines(progress()), sources[2]], format="progress", lenient=True)


BROKEN: dict[str, tuple[bytes, str]] = {
    "never written": (b"", "empty"),
    "zero bytes": (bytes(4096), "zero byte"),  # what a crash of the machine leaves of a file that was not flushed
    "no text": (b"\xff{}", "UTF-8"),
    "pickle": (pickle.dumps({}), "pickle"),
    "cut gzip": (b"\x1f\x8bcut", "gzip"),
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_a_dump_that_holds_no_text_is_a_broken_one(tmp_path: Path, name: str) -> None:
    """Leniently the others are judged and it is said what was passed over; strictly, and where it is all, an error."""
    content, problem = BROKEN[name]
    files = [str(tmp_path / f"nccl_trace_rank_{rank}.json") for rank in range(3)]
    for rank, file in enumerate(files[:2]):
        Path(file).write_text(dump(rank, [entry("a", 5, "started", retired=True)], GROUPS).text)
    Path(files[2]).write_bytes(content)
    for said in (None, "flight-recorder"):
        sources, unread = read_traces(files, lenient=True)
        _, found = diagnose_files(sources, unread=unread, format=said, lenient=True)
        (note,) = [note for note in found.notes if "left out" in note]
        assert says(note, files[2], problem)
        with pytest.raises(InvalidInput, match=problem):
            diagnose_files(*read_traces(files, lenient=False)[:1], format=said)
        sources, unread = read_traces(files[2:], lenient=True)
        with pytest.raises(InvalidInput, match=problem):
            diagnose_files(sources, unread=unread, format=said, lenient=True)
    with pytest.raises(InvalidInput, match="no such file"):  # a word mistyped is no broken dump
        read_traces([*files, str(tmp_path / "rank_3.json")], lenient=True)


def test_dumps_must_be_of_one_job() -> None:
    """Two dumps of a rank, or groups that disagree, are refused."""
    with pytest.raises(InvalidInput, match="second dump of rank 0"):
        read_flight_recorder([dump(0, [], GROUPS), dump(0, [], GROUPS)])
    with pytest.raises(InvalidInput, match="other ranks"):
        read_flight_recorder([dump(0, [], GROUPS), dump(1, [], {"a": [0, 1]})])


# --- NCCL RAS ---------------------------------------------------------------------------------------------------------


def ras(counts: list[int], *, second: int = 0, dead: tuple[int, ...] = ()) -> Source:
    """An answer about one communicator: AllReduce counts of its ranks, each on a host of its own."""
    ok = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    gone = {"unresponsive": True, "considered_dead": True}
    seats = [{"rank": r, "host": f"10.0.0.{r}", "pid": 7, "cuda_dev": 0, "nvml_dev": 0} for r in range(len(counts))]
    ranks = [
        seat | {"status": ok, "collective_counts": {"AllReduce": counts[r], "Send": r, "Recv": 0}}
        for r, seat in enumerate(seats)
        if r not in dead
    ]
    comm = {"hash": "0x1", "secondary_hash": "0x2:0x3", "size": len(counts), "ranks_count": len(ranks)}
    comm |= {
        "missing_ranks_count": len(dead),
        "ranks": ranks,
        "missing_ranks": [seats[r] | {"status": gone} for r in dead],
    }
    document = {"nccl_version": "2.28.7", "cuda_runtime_version": 1, "cuda_driver_version": 1}
    document |= {"timestamp": f"2026-01-31 12:00:{second:02}", "communicators_count": 1, "communicators": [comm]}
    return Source(f"ras-{second}.json", json.dumps(document))


def test_ras_needs_two_answers_to_be_sure() -> None:
    """Rank 2 is behind in both answers and nothing moved between: certain; one answer alone is not."""
    one = diagnose_snapshot(*read_ras([ras([8, 8, 7, 8])]))
    assert [(c.member, c.certainty) for c in one.culprits] == [(2, "likely")]
    two = diagnose_snapshot(*read_ras([ras([8, 8, 7, 8]), ras([8, 8, 7, 8], second=10)]))
    assert [(two.members[c.member].host, c.certainty) for c in two.culprits] == [("10.0.0.2", "certain")]
    assert two.cause == "not-launched"


def test_ras_leaves_a_moving_job_alone() -> None:
    """Counts differ in both answers, and all have grown: the job runs."""
    found = diagnose_snapshot(*read_ras([ras([8, 8, 7, 8]), ras([18, 18, 17, 18], second=10)]))
    assert found.status == "healthy"


def test_ras_names_the_dead() -> None:
    """A rank that RAS considers dead is the culprit, whatever the counts."""
    found = diagnose_snapshot(*read_ras([ras([8, 8, 8, 8], dead=(1,))]))
    assert (found.cause, [(found.members[c.member].host, c.certainty) for c in found.culprits]) == (
        "unreachable",
        [("10.0.0.1", "certain")],
    )


def communicator(document: dict[str, Any]) -> dict[str, Any]:
    """The one communicator of an answer."""
    found: dict[str, Any] = document["communicators"][0]
    return found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: communicator(d)["ranks"][1].pop("collective_counts"), "'collective_counts' is missing"),
        (lambda d: communicator(d)["ranks"][1]["collective_counts"].update(AllReduce=-1), "'AllReduce' is -1"),
        (lambda d: communicator(d)["ranks"][1]["collective_counts"].update(Gather=1), "count different operations"),
        (lambda d: communicator(d)["ranks"][1].update(rank=0), "stands twice"),
        (lambda d: communicator(d)["ranks"][1].update(rank=2), "rank 2 of 2 is impossible"),
        (lambda d: communicator(d)["ranks"][1].update(host=None), "'host' is None"),
        (lambda d: communicator(d).update(ranks=[1, 2]), "not an object"),
        (lambda d: communicator(d).update(size=0), "'size' is 0"),
        (lambda d: d["communicators"].append(communicator(d)), "communicator 1: stands twice"),
        (lambda d: d.update(communicators=None), "'communicators' is None"),
        (lambda d: d.update(timestamp="yesterday"), "'timestamp' is 'yesterday'"),
    ],
)
def test_damaged_ras(change: Callable[[dict[str, Any]], Any], words: str) -> None:
    """Each fault is said with the file, and how to get a good answer."""
    document = json.loads(ras([1, 1]).text)
    change(document)
    with pytest.raises(InvalidInput, match=words) as caught:
        read_ras([Source("r.json", json.dumps(document))])
    assert caught.value.where == "r.json"
    assert "ncclras -f json" in caught.value.fix


def test_ras_answers_come_in_order() -> None:
    """A later answer before an earlier one."""
    with pytest.raises(InvalidInput, match="later answer"):
        read_ras([ras([1, 1], second=5), ras([1, 1], second=1)])


# --- which format, and pickles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "format_"),
    [
        (lines(progress()), "progress"),
        (lines([inspector(0, 1, start=1.0, end=2.0)]), "inspector"),
        (Source("x.prom", prom("n0", "GPU0", 1.0)), "prometheus"),
        (dump(0, [], GROUPS), "flight-recorder"),
        (ras([1, 1]), "ras"),
    ],
)
def test_formats_are_recognised_by_content(source: Source, format_: str) -> None:
    """Whatever the file is called."""
    reader = recognise(reading_module.COLLECTIVES_READERS, Source("file", source.text))
    assert reader.format.name == format_


def test_unknown_and_mixed_formats() -> None:
    """A file of no format, files of two, a format that does not exist."""
    with pytest.raises(InvalidInput, match=saying("format")):
        diagnose_files([Source("f", "hello\n")])
    with pytest.raises(InvalidInput, match="truncated"):
        diagnose_files([Source("f", '{"version": "2.10", ')])
    with pytest.raises(InvalidInput, match="is ras, while"):
        diagnose_files([lines(progress()), ras([1, 1])])
    with pytest.raises(UnknownName, match="no format"):
        diagnose_files([lines(progress())], format="rass")


class Hostile:
    """A pickle of it creates a file when it is loaded."""

    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return (Path.touch, (self.victim,))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_hostile_pickle_is_refused_unread(tmp_path: Path, protocol: int) -> None:
    """Neither the reader nor the converter runs what a pickle asks for; the oldest ones are text of no known format."""
    victim, path = tmp_path / "victim", tmp_path / "nccl_trace_rank_0"
    path.write_bytes(pickle.dumps(Hostile(victim), protocol))
    with pytest.raises(InvalidInput) as caught:
        diagnose_files([read_trace(str(path))], lenient=True)
    if protocol >= 2:
        assert "is a pickle" in caught.value.message
        assert CONVERTER in caught.value.fix
    script = Path(reading_module.__file__).with_name(CONVERTER)
    ran = subprocess.run([sys.executable, script, path], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "not a Flight Recorder dump" in ran.stderr
    assert not victim.exists()


def test_the_converter_makes_what_the_reader_reads(tmp_path: Path) -> None:
    """A pickled dump, converted where it lies: its rank is added, and the host that is said, never this machine's."""
    document = json.loads(dump(3, [entry("a", 1, "started")], GROUPS).text)
    path = tmp_path / "nccl_trace_rank_3"
    path.write_bytes(pickle.dumps(document, 2))
    script = Path(reading_module.__file__).with_name(CONVERTER)
    for options, host in (([], None), (["--host", "n0003"], "n0003")):
        subprocess.run([sys.executable, script, *options, path], capture_output=True, check=True)
        snapshot, _ = read_flight_recorder([read_trace(f"{path}.json")])
        assert [member.host for member in snapshot.members if member.rank == 3] == [host]
    nothing = subprocess.run([sys.executable, script, "--host"], capture_output=True, check=False)
    assert nothing.returncode == 2


@pytest.mark.parametrize(
    ("names", "hosts"),
    [
        (["container-node01_0", "container-node02_1.json"], ["container-node01", "container-node02"]),
        (["nccl_trace_rank_0", "nccl_trace_rank_1"], [None, None]),
        (["hang_0.json", "hang_1.json"], [None, None]),
        (["n01_rank_0.json", "rank-1.json"], [None, None]),
    ],
)
def test_names_of_dumps_tell_hosts_where_they_differ(names: list[str], hosts: list[str | None]) -> None:
    """A dump that is called after its host says it; what all dumps are called says nothing, nor do names of some."""
    dumps = [dump(rank, [entry("a", 1, "started")], {"a": [0, 1]}) for rank in range(2)]
    files = [Source(f"/dumps/{name}", one.text) for name, one in zip(names, dumps, strict=True)]
    snapshot, notes = read_flight_recorder(files)
    assert [member.host for member in snapshot.members] == hosts
    assert any("names of the files" in note for note in notes) == (hosts[0] is not None)
