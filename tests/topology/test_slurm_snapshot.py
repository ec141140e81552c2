"""What nodes are to one job of Slurm: by partition, features, reservation and time, and by how complete a list is."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput, InvalidTopology, UnknownName
from ground.files import Source
from tests.facts import saying, says
from topology.load import LoadedTopology, load_topology
from topology.slurm_snapshot import NO_REQUEST, Constraint, SlurmRequest, Unlisted, in_words, time_limit

NOON = datetime(2026, 11, 28, 12)
TREE = "SwitchName=s1 Nodes=n[01-04]\nSwitchName=s2 Nodes=n[05-08]\nSwitchName=top Switches=s[1-2]\n"
NODES = "".join(
    f"NodeName=n{i:02} CPUAlloc=0 ActiveFeatures={'ib,h100' if i < 7 else 'ib'} Gres=gpu:8 State=IDLE "
    f"Partitions={'batch' if i < 7 else 'debug'} BootTime=2026-11-28T11:59:00\n"
    for i in range(1, 9)
)
PARTITIONS = """\
PartitionName=batch AllowAccounts=ALL Default=YES DefaultTime=NONE Hidden=NO MaxNodes=4 MaxTime=1-00:00:00
   Nodes=n[01-06] ReqResv=NO State=UP
PartitionName=debug AllowAccounts=physics Default=NO DefaultTime=00:30:00 Hidden=YES MaxNodes=UNLIMITED
   MaxTime=01:00:00 Nodes=n[07-08] ReqResv=NO State=UP
"""
RESERVATIONS = """\
ReservationName=maint StartTime=2026-11-28T14:00:00 EndTime=2026-11-28T15:00:00 Duration=01:00:00 Nodes=n[01-02] NodeCnt=2 Users=root State=INACTIVE
ReservationName=ours StartTime=2026-11-28T11:00:00 EndTime=2026-11-28T13:00:00 Duration=02:00:00 Nodes=n03 NodeCnt=1 Users=ann,ben State=ACTIVE
"""  # noqa: E501 - a reservation a line, as --oneliner prints them


def loaded(
    *texts: str,
    request: SlurmRequest = NO_REQUEST,
    cluster: str = TREE,
    exclude: str = "",
    unlisted: Unlisted | None = None,
    now: datetime = NOON,
) -> LoadedTopology:
    """The cluster with what is said of it laid over it, at noon."""
    busy = [Source(f"f{i}", text) for i, text in enumerate(texts)]
    topology, at = Source("topology.conf", cluster), now.astimezone(UTC)
    return load_topology(topology, busy=busy, request=request, exclude=exclude, unlisted=unlisted, now=at)


def free(topology: LoadedTopology) -> str:
    """Names of the free nodes, without what they have in common."""
    return " ".join(node.name.removeprefix("n0") for node in topology.cluster if node.free)


def test_a_job_goes_to_the_default_partition() -> None:
    """n07 and n08 are idle in a hidden partition, of which sbatch gives a job of the default one nothing."""
    topology = loaded(NODES, PARTITIONS)
    assert free(topology) == "1 2 3 4 5 6"
    assert topology.cluster.node("n07").kept_out == "not in the partition batch"
    assert says(topology.notes, "partition batch", "default", "--partition", "debug")


def test_a_partition_is_chosen_with_its_limits() -> None:
    """MaxNodes of batch limits a job to four nodes; whose jobs debug takes is said, as no option says whose this is."""
    assert loaded(NODES, PARTITIONS).cluster.node_limit == (4, "MaxNodes of the partition batch")
    topology = loaded(NODES, PARTITIONS, request=SlurmRequest(partition="debug"))
    assert (free(topology), topology.cluster.node_limit) == ("7 8", None)
    assert says(topology.notes, "partition debug", "AllowAccounts=physics alone")


def test_a_job_that_is_too_long_for_its_partition_gets_nothing() -> None:
    """MaxTime of debug is an hour: 60 minutes are not too long, 61 are."""
    assert free(loaded(NODES, PARTITIONS, request=SlurmRequest(partition="debug", time="60"))) == "7 8"
    topology = loaded(NODES, PARTITIONS, request=SlurmRequest(partition="debug", time="61"))
    assert free(topology) == ""
    assert topology.cluster.node("n07").kept_out.endswith("(MaxTime=01:00:00)")


def test_a_partition_that_is_not_up_starts_nothing() -> None:
    """DOWN, DRAIN and INACTIVE alike."""
    for state in ("DOWN", "DRAIN", "INACTIVE"):
        assert free(loaded(NODES, PARTITIONS.replace("State=UP", f"State={state}"))) == ""


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("PARTITION AVAIL NODES STATE NODELIST\nbatch* up 6 idle n[01-06]\ndebug up 2 idle n[07-08]\n", "1 2 3 4 5 6"),
        ("batch* idle n[01-06]\ndebug idle n[07-08]\n", "1 2 3 4 5 6"),
        ("debug idle n[07-08]\nbatch* idle n[01-06]\nbatch* alloc n02\n", "1 3 4 5 6"),
        ("n[01-06]|idle|gpu:8\nn[07-08]|alloc|gpu:8\n", "1 2 3 4 5 6"),
    ],
)  # fmt: skip
def test_sinfo_says_partitions_too(table: str, expected: str) -> None:
    """A star marks the default one, with a header and without; a table without partitions says nothing of them."""
    assert free(loaded(table)) == expected


def test_partitions_of_which_the_default_is_not_said() -> None:
    """Nodes name their partitions, and not which is the default: all count, and that is said; -p chooses."""
    topology = loaded(NODES)
    assert free(topology) == "1 2 3 4 5 6 7 8"
    assert says(topology.notes, "partitions", "default", "not said")
    assert free(loaded(NODES, request=SlurmRequest(partition="debug"))) == "7 8"


@pytest.mark.parametrize(
    ("request_", "error", "fix"),
    [
        (SlurmRequest(partition="bach"), UnknownName, "did you mean 'batch'?"),
        (SlurmRequest(partition="batch,debug"), InvalidInput, "give one"),
        (SlurmRequest(reservation="mine"), InvalidInput, "scontrol show reservations --oneliner > reservations.txt"),
        (SlurmRequest(constraint="h200"), UnknownName, "did you mean 'h100'?"),
        (SlurmRequest(time="1:2:3:4"), InvalidInput, "as sbatch does"),
        (SlurmRequest(time="60"), InvalidInput, "scontrol show reservations --oneliner > reservations.txt"),
    ],
)
def test_what_cannot_be_asked(request_: SlurmRequest, error: type[InvalidInput], fix: str) -> None:
    """Each error names the option, and the command that prints a record which is not there."""
    with pytest.raises(error) as caught:
        loaded(NODES, request=request_)
    assert caught.value.where.startswith("--")
    assert fix in caught.value.fix


def test_options_of_slurm_need_a_slurm() -> None:
    """Without any record of Slurm nothing says what a partition or the states of nodes are."""
    for request_ in (SlurmRequest(partition="batch"), SlurmRequest(time="60")):
        with pytest.raises(InvalidInput, match=saying("Slurm's nodes")):
            loaded("n01\n", request=request_)
    with pytest.raises(InvalidInput, match=saying("no list of states")):
        loaded("n01\n", unlisted="unusable")
    assert free(loaded("n01\n", unlisted="free")) == "2 3 4 5 6 7 8"
    with pytest.raises(InvalidInput, match="nothing says which features"):
        loaded("n[01-08] idle\n", request=SlurmRequest(constraint="ib"))
    with pytest.raises(InvalidInput, match=saying("nothing says which nodes", "partition")):
        loaded("n[01-08] idle\n", request=SlurmRequest(partition="batch"))


@pytest.mark.parametrize(("time", "expected"), [("2:00:00", "1 2 4 5 6"), ("2:01:00", "4 5 6"), ("", "4 5 6")])
def test_reservations_of_others_keep_nodes_out_of_longer_jobs(time: str, expected: str) -> None:
    """At noon maint begins in two hours: a job of two hours ends before, one of a minute more does not, nor need one
    that runs as long as its partition allows.  n03 is reserved now.
    """
    assert free(loaded(NODES, PARTITIONS, RESERVATIONS, request=SlurmRequest(time=time))) == expected


@pytest.mark.parametrize("end", ["2027-11-28T14:00:00", "9999-12-31T23:59:59", "999999999999", "1e30"])
@pytest.mark.parametrize(
    "start", ["2026-11-28T14:00:00 Flags=MAINT,TIME_FLOAT", "999999999999 Flags=TIME_FLOAT", "N/A"]
)
def test_a_reservation_that_has_no_beginning(start: str, end: str) -> None:
    """One that moves on with the clock never begins, one of no time that anybody plans for is of none: kept out."""
    floats = f"ReservationName=float StartTime={start} EndTime={end} Nodes=n[01-02] State=INACTIVE\n"
    topology = loaded(NODES, PARTITIONS, floats, request=SlurmRequest(time="60"))
    assert free(topology) == "3 4 5 6"
    assert topology.cluster.node("n01").kept_out == "reserved: float"


def test_nodes_of_a_reservation_are_for_its_jobs() -> None:
    """n03 is idle but for the reservation, and a job of it gets nothing else; whose it is, is said."""
    reserved = NODES.replace("NodeName=n03", "NodeName=n03 ReservationName=ours").replace(
        "State=IDLE", "State=IDLE+RESERVED", 3
    )
    topology = loaded(reserved, PARTITIONS, RESERVATIONS, request=SlurmRequest(reservation="ours"))
    assert free(topology) == "3"
    assert says(topology.notes, "reservation ours", "Users=ann,ben alone")


def test_a_partition_may_need_a_reservation() -> None:
    """ReqResv: nothing of it is free without one; of a reservation that ends before the job may, a note says so."""
    partitions = PARTITIONS.replace("ReqResv=NO", "ReqResv=YES")
    assert free(loaded(NODES, partitions, RESERVATIONS)) == ""
    topology = loaded(NODES, partitions, RESERVATIONS, request=SlurmRequest(reservation="ours", time="90"))
    assert free(topology) == "3"
    note = "the reservation ours ends at 2026-11-28T13:00:00, and the job need not end before (--time)"
    assert note in topology.notes


def test_old_records_count_as_of_their_own_time() -> None:
    """A day later a reservation that is INACTIVE in the records must have begun: a job of an hour is one of an hour
    from when they were made, 11:59 by the newest time in them, or 13:30 where `scontrol show config` says so.
    """
    later, hour = datetime(2026, 11, 29, 12), SlurmRequest(time="60")
    topology = loaded(NODES, PARTITIONS, RESERVATIONS, request=hour, now=later)
    assert free(topology) == "1 2 4 5 6"
    assert any(note.startswith("as of 2026-11-28T11:59:00") for note in topology.notes)
    config = "Configuration data as of 2026-11-28T13:30:00\nAccountingStorageHost = x\n"
    assert free(loaded(NODES, PARTITIONS, RESERVATIONS, config, request=hour, now=later)) == "4 5 6"
    undated = NODES.replace("BootTime=2026-11-28T11:59:00", "")
    assert free(loaded(undated, PARTITIONS, RESERVATIONS, request=hour, now=later)) == "4 5 6"


STARTS = """\
             JOBID PARTITION     NAME     USER ST          START_TIME  NODES SCHEDNODES           NODELIST(REASON)
                90     batch      big     root PD 2026-11-28T22:00:00      6 {nodes}               (Resources)
                91     batch    waits     root PD 2026-11-28T12:10:00      8 (null)               (BeginTime)
                92     batch     held     root PD                 N/A      4 (null)               (JobHeldUser)
                93     batch   failed     root PD 2026-11-28T12:02:00      8 (null)   (launch failed requeued held)
"""


@pytest.mark.parametrize("planned", ["n[01-05]", "(null)"])
@pytest.mark.parametrize(
    ("time", "expected"), [("10:00:00", "1 2 3 4 5 6"), ("10:01:00", "6"), ("", "6")]
)  # fmt: skip
def test_planned_nodes_are_free_for_jobs_that_end_before(planned: str, time: str, expected: str) -> None:
    """A job of six nodes is planned on n01 to n05 for 22:00; the one that waits for its begin time has no nodes."""
    nodes = NODES.replace("State=IDLE", "State=IDLE+PLANNED", 5)
    asked = SlurmRequest(time=time)
    assert free(loaded(nodes, PARTITIONS, STARTS.format(nodes=planned), request=asked)) == expected


def test_planned_nodes_of_other_partitions_are_not_told_of() -> None:
    """A job of debug has none of the five of batch, whenever these are wanted."""
    nodes = NODES.replace("State=IDLE", "State=IDLE+PLANNED", 5)
    notes = loaded(nodes, PARTITIONS, STARTS.format(nodes="n[01-05]"), request=SlurmRequest(partition="debug")).notes
    assert not any("planned for jobs" in note for note in notes)


def test_planned_nodes_of_which_no_start_is_known_are_in_use() -> None:
    """And what prints it is said; so for every way that Slurm calls such a node."""
    for state in ("plnd", "planned", "idle-", "IDLE+PLANNED"):
        topology = loaded(f"n[01-04] {state}\nn[05-08] idle\n", PARTITIONS, request=SlurmRequest(time="60"))
        assert free(topology) == "5 6"
        assert says(topology.notes, "`squeue --all --start` does")


def test_jobs_alone_say_nothing_of_states() -> None:
    """A node that is down runs no job."""
    with pytest.raises(InvalidInput, match="no states of nodes"):
        loaded("JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n1 batch a root R 0:10 2 n[01-02]\n")
    with pytest.raises(InvalidInput, match="nothing the states of nodes"):
        loaded(STARTS.format(nodes="n01"))


def test_features() -> None:
    """Six nodes are ib and h100, two of another partition are ib alone."""
    assert free(loaded(NODES, request=SlurmRequest(constraint="ib&h100"))) == "1 2 3 4 5 6"
    assert free(loaded(NODES, request=SlurmRequest(constraint="ib"))) == "1 2 3 4 5 6 7 8"
    assert free(loaded(NODES, request=SlurmRequest(constraint="(ib|h100)&h100", partition="debug"))) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a", True), ("a&b", True), ("a,b", True), ("a&c", False), ("c|a", True), ("a&(b|c)", True), ("a&(c|d)", False),
     ("(a|c)&(b|d)", True), ("c|(a&b)", True)],
)  # fmt: skip
def test_constraints_of_a_node_with_the_features_a_and_b(text: str, expected: bool) -> None:
    """As sbatch reads them."""
    assert Constraint(text).holds({"a", "b"}) is expected


@pytest.mark.parametrize("text", ["a|b&c", "[a|b]", "a*4", "a&", "&a", "(a", "a)", "a b", "()", "a&&b"])
def test_constraints_that_are_refused(text: str) -> None:
    """What is no expression, what Slurm reads otherwise than people do, and what concerns a set of nodes."""
    with pytest.raises(InvalidInput) as caught:
        Constraint(text)
    assert (caught.value.where, bool(caught.value.fix)) == ("--constraint", True)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 5400.0), ("1:30", 120.0), ("0:59:59", 3600.0), ("1:30:00", 5400.0), ("1-0", 86400.0), ("1-2:30", 95400.0),
     ("1-02:30:00", 95400.0), ("0", inf), ("UNLIMITED", inf), ("infinite", inf), ("-5", None), ("1h", None)],
)  # fmt: skip
def test_time_limits_as_sbatch_takes_them(text: str, seconds: float | None) -> None:
    """Minutes alone; seconds are rounded up to minutes; 0 is no limit."""
    assert time_limit(text) == seconds


@given(st.integers(1, 10**6))
def test_a_time_limit_in_words_is_the_time_limit(minutes: int) -> None:
    """What Slurm would print is read as the same."""
    assert time_limit(in_words(60.0 * minutes)) == 60.0 * minutes


def test_excluded_nodes(tmp_path: Path) -> None:
    """A hostlist, or a file of names where there is a slash, of whatever cluster."""
    assert free(loaded(exclude="n[01-06]")) == "7 8"
    (tmp_path / "bad.txt").write_text("n01,n02\nn03\n")
    assert free(loaded(NODES, exclude=f"{tmp_path}/bad.txt")) == "4 5 6 7 8"
    (tmp_path / "none.txt").write_text("")
    assert says(loaded(exclude=f"{tmp_path}/none.txt").notes, "none.txt", "no node", "excluded")
    with pytest.raises(InvalidInput, match="no node 'n09'") as caught:
        loaded(exclude="n09")
    assert caught.value.where == "--exclude"


PADDED = """\
BlockName=b1 Nodes=n[01-16],fake[100-101]
BlockName=b2 Nodes=n[17-32],fake[102-103]
BlockSizes=18
"""


def test_a_list_with_states_is_complete() -> None:
    """Padding nodes of Topograph (State=FUTURE) are in no list of sinfo: not usable, unless the user says so."""
    listed = "".join(f"n{i:02} idle gpu:8\n" for i in range(1, 33))
    topology = loaded(listed, cluster=PADDED)
    assert sum(node.free for node in topology.cluster) == 32
    assert topology.cluster.node("fake100").kept_out == "not listed by Slurm"
    note = "not listed in f0, and so not usable: 4 (fake100, fake101, fake102, fake103) (--unlisted free takes them)"
    assert note in topology.notes
    assert sum(node.free for node in loaded(listed, cluster=PADDED, unlisted="free").cluster) == 36


def test_nodes_without_a_record_are_in_no_partition_that_is_known_from_records_alone() -> None:
    """Of n05 to n08 nobody says in which partition they are, so they are unlisted, and free for who says so; where the
    partition itself says its nodes, they are in none of it, whoever says what.
    """
    records = "".join(f"NodeName=n{i:02} Gres=gpu:8 State=IDLE Partitions=batch\n" for i in range(1, 5))
    assert loaded(records).cluster.node("n05").kept_out == "not listed by Slurm"
    assert free(loaded(records, unlisted="free")) == "1 2 3 4 5 6 7 8"
    assert free(loaded(records, request=SlurmRequest(partition="batch"), unlisted="free")) == "1 2 3 4 5 6 7 8"
    partition = "PartitionName=batch Default=YES MaxTime=UNLIMITED Nodes=n[01-04] State=UP\n"
    both: tuple[Unlisted, ...] = ("unusable", "free")
    for unlisted in both:
        topology = loaded(records, partition, unlisted=unlisted)
        assert topology.cluster.node("n05").kept_out == "not in the partition batch"


@pytest.mark.parametrize("nodes", ["", ', "nodes": {"configured": "n[01-02]"}', ', "nodes": {"configured": "ALL"}'])
def test_a_row_of_sinfo_says_the_partition_of_its_nodes(nodes: str) -> None:
    """Also where it does not say which nodes the partition has in all."""
    row = '{"node": {"state": ["IDLE"]}, "nodes": {"nodes": ["n[01-02]"]}, "partition": {"name": "batch"%s}}'
    assert free(loaded(f'{{"sinfo": [{row % nodes}]}}')) == "1 2"


def test_lists_of_several_partitions_are_one() -> None:
    """A node is unlisted if it is in none of them."""
    assert free(loaded("n[01-03] idle\n", "n[05-07] idle\n")) == "1 2 3 5 6 7"


@pytest.mark.parametrize(
    "text", ['{"sinfo": []}', '{"nodes": []}', "NODELIST STATE\n", "x1 idle\n", "x1\n", "x[1-2],y\n"]
)
def test_a_list_without_a_node_of_the_cluster_is_refused(text: str) -> None:
    """In whatever form: under it every node would be free, or none."""
    with pytest.raises(InvalidTopology) as caught:
        loaded(text)
    assert caught.value.fix


DOMAINS = "SwitchName=s1 Nodes=n01.example.com,n02.example.com\n"


@pytest.mark.parametrize(
    "text",
    [
        "n01\n", "n01.example.com\n", "N01\n", "N01.Example.COM\n", "n01 alloc\nn02 idle\n",
        "n01.example.com alloc gpu:8\nn02.example.com idle gpu:8\n", "N01|alloc|gpu:8\nn02.example.com|idle|gpu:8\n",
        "NODELIST STATE\nn01.example.com alloc\nn02.example.com idle\n",
    ],
)  # fmt: skip
def test_names_in_another_spelling(text: str) -> None:
    """Short names are full ones, and the other way round; capitals make no difference."""
    full = loaded(text, cluster=DOMAINS)
    assert [node.free for node in full.cluster] == [False, True]
    short = loaded(text, cluster="SwitchName=s1 Nodes=n01,n02\n")
    assert [node.free for node in short.cluster] == [False, True]


def test_names_that_may_be_several_nodes_are_refused() -> None:
    """A short name of two full ones, and two full ones of one short name."""
    with pytest.raises(InvalidTopology, match="may be any of 2"):
        loaded("n01\n", cluster="SwitchName=s1 Nodes=n01.a.com,n01.b.com\n")
    with pytest.raises(InvalidTopology, match=saying("both", "'n01'")):
        loaded("n01.a.com\nn01.b.com\n")
    with pytest.raises(InvalidTopology, match="none of the nodes listed"):
        loaded("n01.b.com\n", cluster="SwitchName=s1 Nodes=n01.a.com\n")
    with pytest.raises(InvalidTopology, match="none of the nodes listed"):
        loaded("10.0.0.1\n", cluster="SwitchName=s1 Nodes=10,11\n")


def test_why_a_node_is_drained() -> None:
    """The reason and who gave it are the evidence of the flag; what looks like a key in it is none."""
    text = NODES.replace(
        "State=IDLE", "State=IDLE+DRAIN Reason=NHC: GPU 3 ECC State=IDLE [root@2026-11-28T11:00:00]", 1
    )
    (flag,) = loaded(text).cluster.flags.values()
    assert (flag.evidence, flag.source) == ("NHC: GPU 3 ECC State=IDLE", "slurm:root")
    assert (flag.since, flag.needs_repair) == (datetime(2026, 11, 28, 11).astimezone(), True)


YAML = """\
- topology: fabric
  cluster_default: true
  tree: {switches: [{switch: s1, nodes: "n[01-08]"}]}
- topology: nvl
  block: {block_sizes: [4], blocks: [{block: b1, nodes: "n[01-04]"}, {block: b2, nodes: "n[05-08]"}]}
"""


def test_the_topology_of_the_partition_is_read() -> None:
    """Of several in topology.yaml; where the file does not say which it is, a note does."""
    partitions = PARTITIONS.replace("State=UP", "Topology=fabric State=UP", 1).replace(
        "State=UP\n", "Topology=nvl State=UP\n"
    )
    partitions = partitions.replace("Topology=fabric Topology=nvl", "Topology=fabric")
    for partition, levels in (("batch", ["level-0"]), ("debug", ["block"])):
        topology = loaded(NODES, partitions, cluster=YAML, request=SlurmRequest(partition=partition))
        assert [level.name for level in topology.cluster.levels] == levels
    notes = loaded(NODES, partitions, request=SlurmRequest(partition="debug")).notes
    assert says(notes, "partition debug", "`scontrol show topology nvl`")
    with pytest.raises(InvalidTopology, match="no topology 'nvl'"):
        loaded(NODES, partitions, cluster=YAML.replace("nvl", "x"), request=SlurmRequest(partition="debug"))


@pytest.mark.parametrize(
    ("version", "minutes", "expected"), [("26.05", 60, 43), ("26.05", 150, 40), ("24.11", 60, 49), ("24.11", 150, 46)]
)
@pytest.mark.parametrize("form", ["txt", "json"])
def test_recorded_states_of_real_slurms(version: str, minutes: int, expected: int, form: str) -> None:
    """A reservation begins two hours after the recording; counted by the rule in the README of the recordings."""
    data = os.environ.get("ARNOLD_DATA")
    if not data:
        pytest.skip("ARNOLD_DATA is not set: the recordings are not part of the project")
    folder = Path(data) / "real" / "slurm_live" / version

    def ask(request: SlurmRequest) -> LoadedTopology:
        named = [folder / f"{name}.{form}" for name in ("nodes", "partitions", "reservations")]
        busy = [path if path.exists() else path.with_name(f"{path.name}.gz") for path in named]
        return load_topology(folder / "topology.txt", busy=busy, request=request)

    assert int(ask(SlurmRequest(partition="main", time=str(minutes))).cluster.idle.sum()) == expected
    held = ask(SlurmRequest(partition="main", time=str(minutes), reservation="held_for_a"))
    assert [node.name for node in held.cluster if node.free] == ["n0085", "n0086", "n0087", "n0088"]
