"""Lists of nodes laid over a cluster: hostlists, and what Slurm says of its nodes in every form that it prints."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import ArnoldError, InvalidInput, InvalidTopology, TooLarge
from ground.files import Source
from tests.facts import saying, says
from topology.build import build_cluster
from topology.cluster import Cluster, Node, State, node_states
from topology.load import NodeList, read_node_lists, with_gpus, with_node_list, with_types
from topology.slurm_snapshot import NO_REQUEST, Unlisted

CLUSTER = build_cluster(["rack"], [Node(f"n{i}", ("r",), 8, 8) for i in range(1, 10)])


NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)


def read(text: str, cluster: Cluster = CLUSTER, *, unlisted: Unlisted | None = None) -> NodeList:
    """The one list of a text."""
    (found,) = read_node_lists([Source("list", text)], cluster, NO_REQUEST, now=NOW, unlisted=unlisted)
    return found


def laid(text: str, cluster: Cluster = CLUSTER, *, unlisted: Unlisted | None = None) -> tuple[Cluster, str]:
    """The cluster under a list, and the notes in one text."""
    laid_over, notes = with_node_list(cluster, read(text, cluster, unlisted=unlisted))
    return laid_over, "\n".join(notes)


def names(cluster: Cluster, *states: State) -> list[str]:
    """Names of the nodes in certain states."""
    return [name for name, state in zip(cluster.names, node_states(cluster).tolist(), strict=True) if state in states]


def busy(text: str) -> list[str]:
    """Nodes in use under a list."""
    return names(laid(text)[0], State.BUSY)


def test_a_plain_list_has_nodes_and_hostlists() -> None:
    """Comments and empty lines are skipped; a node may be listed twice, as two jobs may share it."""
    assert busy("# squeue -h -o %N\nn1\n\n  n[3-4,6]  # job 17\nn4,n9#x\n") == ["n1", "n3", "n4", "n6", "n9"]


@pytest.mark.parametrize("text", ["", "\n \n", "# nothing runs\n"])
def test_an_empty_list_is_an_empty_list(text: str) -> None:
    """On an idle cluster nothing is in use; as a list may be empty by a slip, it is said."""
    assert busy(text) == []
    assert says(laid(text)[1], "list", "no node")


def test_an_answer_without_nodes_is_said() -> None:
    """A job that was not placed has an empty assignment: nothing is in use by it, which may be the wrong file."""
    cluster, notes = laid('{"status": "infeasible", "assignment": []}')
    assert names(cluster, State.BUSY) == []
    assert says(notes, "list", "no node", "not placed")


def test_a_name_that_looks_like_a_hostlist_is_a_name() -> None:
    """Names of the cluster come first."""
    cluster = build_cluster(["rack"], [Node("gpu node 1", ("r",), 8, 8), Node("n1", ("r",), 8, 8)])
    assert laid("gpu node 1", cluster)[0].free_gpus.tolist() == [0, 8]


def test_nodes_that_the_cluster_does_not_have_are_counted() -> None:
    """CPU nodes run jobs too: they are left out, with their number and the first names."""
    cluster, notes = laid("n1\ncpu[001-007]\n")
    assert names(cluster, State.BUSY) == ["n1"]
    assert "7 (cpu001, cpu002, cpu003, cpu004, cpu005, ...)" in notes


def test_nodes_of_a_saved_placement_are_in_use() -> None:
    """The job placed before keeps its nodes when the next one is placed."""
    cluster, notes = laid('{"status": "optimal", "assignment": [{"node": "n2", "dp": 0}, {"node": "x9", "dp": 1}]}')
    assert names(cluster, State.BUSY) == ["n2"]
    assert "1 (x9)" in notes


def test_nodes_of_several_jobs_placed_at_once_are_in_use() -> None:
    """Those of each of them; where they did not all fit nothing is placed, and that is said."""
    cells = {name: {"assignment": [{"node": node, "dp": 0}]} for name, node in (("a", "n2"), ("b", "n5"))}
    together = {"status": "optimal", "jobs": cells, "one_after_the_other": []}
    assert busy(json.dumps(together)) == ["n2", "n5"]
    nothing = {"status": "infeasible", "jobs": {}, "one_after_the_other": []}
    cluster, notes = laid(json.dumps(nothing))
    assert names(cluster, State.BUSY) == []
    assert says(notes, "list", "no node", "not placed")


def test_states_of_strangers_alone_are_an_error() -> None:
    """They are the states of another cluster, and under them every node would be free."""
    with pytest.raises(InvalidTopology, match=r"none of the nodes listed: 2 \(n22, n23\)") as caught:
        laid("n22 idle\nn23 alloc\n")
    assert "did you mean 'n2'?" in caught.value.fix


@pytest.mark.parametrize(
    ("text", "complaint", "where"),
    [
        ("n1 n2\n", "broken at character 3", "list:1"),
        ("n1\nn[1-\n", "broken", "list:2"),
        ("@all\n", "broken", "list:1"),
        ("n1 idle\nn2 alloc\nn3\n", "no state", "list:3"),
        ("NodeName=n1 Arch=x86_64\n", "no state", "list:1"),
        ('{"status": "optimal"}', "without a list of nodes", "list"),
        ('{"nodes": [{"name": "n1"}]}', "'state' is missing", "list:1"),
    ],
)
def test_bad_lists_are_refused(text: str, complaint: str, where: str) -> None:
    """With the line."""
    with pytest.raises(InvalidInput, match=complaint) as caught:
        laid(text)
    assert caught.value.where == where
    assert caught.value.fix


def test_a_list_of_absurd_size_ends_at_once() -> None:
    """One range too large."""
    with pytest.raises(TooLarge):
        busy("n[0-400000000]")


SINFO = """\
n1 idle gpu:h100:8(S:0-1)
n2 alloc gpu:h100:8(S:0-1)
n3 mix gpu:h100:8(S:0-1)
n4 drng gpu:h100:8(S:0-1)
n5 down* gpu:h100:8(S:0-1)
n6 resv gpu:h100:8(S:0-1)
n7 idle~ gpu:h100:8(S:0-1)
n8 idle# gpu:h100:8(S:0-1)
n9 plnd gpu:h100:8(S:0-1)
login1 idle (null)
n4 drng gpu:h100:8(S:0-1)
"""
"""What the documented recipe prints; n4 lies in two partitions."""


def long_form(text: str) -> str:
    """The same nodes as `sinfo --Node --long` prints them: date, header, more columns, reasons of several words."""
    words = {"alloc": "allocated", "mix": "mixed", "drng": "draining", "resv": "reserved", "plnd": "planned"}
    rows = [
        "Sat Nov 22 10:00:00 2025",
        "NODELIST NODES PARTITION STATE CPUS S:C:T MEMORY TMP_DISK WEIGHT FEATURES REASON",
    ]
    for line in text.splitlines():
        name, state, _ = line.split()
        rows.append(f"{name} 1 gpu* {words.get(state, state)} 96 2:24:2 2000000 0 1 h100,ib bad link down")
    return "\n".join(rows)


def records(text: str) -> str:
    """The same nodes as `scontrol show nodes` prints them."""
    words = {
        "idle": "IDLE+CLOUD", "alloc": "ALLOCATED", "mix": "MIXED", "drng": "ALLOCATED+DRAIN", "down*": "DOWN*+DRAIN",
        "resv": "IDLE+RESERVED", "idle~": "IDLE+CLOUD+POWERED_DOWN", "idle#": "IDLE+POWERING_UP",
        "plnd": "MIXED+PLANNED",
    }  # fmt: skip
    found = []
    for line in text.splitlines():
        name, state, gres = line.split()
        found.append(
            f"NodeName={name} Arch=x86_64 CoresPerSocket=24 \n   CPUAlloc=0 CPUTot=96\n   Gres={gres}\n"
            f"   NodeAddr={name} NodeHostName={name} Version=25.05.1\n   State={words[state]} ThreadsPerCore=2\n"
            f"   CfgTRES=cpu=96,mem=2000G,gres/gpu=8,gres/gpu:h100=8\n   AllocTRES=\n   Reason=State=IDLE was wrong\n"
        )
    return "\n".join(found)


def scontrol_json(text: str) -> str:
    """The same nodes as `scontrol show nodes --json` prints them."""
    words = {
        "idle": ["IDLE"], "alloc": ["ALLOCATED"], "mix": ["MIXED"], "drng": ["ALLOCATED", "DRAIN"],
        "down*": ["DOWN", "NOT_RESPONDING"], "resv": ["IDLE", "RESERVED"], "idle~": ["IDLE", "CLOUD", "POWERED_DOWN"],
        "idle#": ["IDLE", "POWERING_UP"], "plnd": ["IDLE", "PLANNED"],
    }  # fmt: skip
    rows = [line.split() for line in text.splitlines()]
    return json.dumps(
        {"nodes": [{"name": n, "state": words[s], "gres": g, "cpus": 96} for n, s, g in rows], "meta": {}}
    )


def sinfo_json(text: str) -> str:
    """The same nodes as `sinfo -N --json` prints them."""
    nodes = json.loads(scontrol_json(text))["nodes"]
    rows = [
        {"node": {"state": n["state"]}, "nodes": {"nodes": [n["name"]]}, "gres": {"total": n["gres"], "used": ""}}
        for n in nodes
    ]
    return json.dumps({"sinfo": rows, "meta": {}, "errors": []})


FORMS = {
    "as documented": lambda text: text,
    "with a header": lambda text: f"NODELIST STATE GRES\n{text}",
    "more columns": lambda text: "".join(f"gpu* {line.replace(' ', ' 1 ', 1)} x,y\n" for line in text.splitlines()),
    "state first": lambda text: "".join("{1} {0} {2}\n".format(*line.split()) for line in text.splitlines()),
    "bars": lambda text: text.replace(" ", "|"),
    "capitals": str.upper,
    "long": long_form,
    "scontrol": records,
    "scontrol, a node a line": lambda text: records(text).replace("\n   ", " "),
    "scontrol json": scontrol_json,
    "sinfo json": sinfo_json,
}


@pytest.mark.parametrize("form", FORMS)
def test_states_of_slurm_in_every_form(form: str) -> None:
    """Idle is free, also powered off, for Slurm starts such a node for a job; down and draining are faulty, as emptying
    the cluster would not free them; all else is in use, mixed too, for a gang takes whole nodes.
    """
    text = FORMS[form](SINFO)
    upper = build_cluster(["rack"], [Node(f"N{i}", ("r",), 8, 8) for i in range(1, 10)])
    cluster, notes = laid(text, upper if form == "capitals" else CLUSTER)
    found = {state: [name.lower() for name in names(cluster, state)] for state in State}
    assert found[State.FREE] == ["n1", "n7"]
    assert found[State.BUSY] == ["n2", "n3", "n6", "n8", "n9"]
    assert found[State.FAULTY] == ["n4", "n5"]
    assert "left out: 1 (login1)" in notes.lower()
    assert says(notes.lower(), "powered off", "free", "1 (n7)")
    if "-" in form:
        assert cluster.emptied().idle.sum() == 7


def test_rows_may_hold_hostlists() -> None:
    """Without --Node, sinfo puts nodes alike in one row."""
    cluster, notes = laid("gpu* up infinite 3 alloc n[1-3]\ngpu* up infinite 6 idle n[4-9]\n")
    assert names(cluster, State.BUSY) == ["n1", "n2", "n3"]
    assert says(notes, "6 (idle 6) free", "3 (alloc 3) in use", "0 not usable")


def test_nodes_that_slurm_does_not_list_are_told() -> None:
    """Slurm lists all its nodes: one that it does not list may not be there any more."""
    text = "n1 idle\nn2 alloc\n"
    cluster, notes = laid(text)
    assert names(cluster, State.KEPT_OUT) == [f"n{i}" for i in range(3, 10)]
    assert says(notes, "not listed in list", "not usable", "7 (n3, n4, n5, n6, n7, ...)", "--unlisted free")
    cluster, notes = laid(text, unlisted="free")
    assert len(names(cluster, State.FREE)) == 8
    assert says(notes, "not listed in list", "free", "7 (n3, n4, n5, n6, n7, ...)")


def test_a_state_that_is_not_known_is_not_free() -> None:
    """A later Slurm may have more words; only idle is free."""
    cluster, _ = laid("NODELIST STATE\nn1 idle\nn2 quarantined\nn3 idle+\n")
    assert names(cluster, State.FAULTY) == ["n2"]


def bare() -> Cluster:
    """A cluster as a reader makes it whose format says nothing of GPUs."""
    return build_cluster(["rack"], [Node(f"n{i}", ("r",), 8, 8) for i in range(1, 5)])


def filled(text: str | None, gpus_per_node: int | None = None) -> tuple[Cluster, str]:
    """That cluster with GPUs, and the notes in one text."""
    lists = [] if text is None else [read(text, bare())]
    cluster, notes = with_gpus(bare(), lists, gpus_per_node, source="topology.conf")
    return cluster, "\n".join(notes)


def test_eight_gpus_are_assumed_aloud() -> None:
    """Where neither the user nor a list says it; a hostlist says nothing of GPUs."""
    for text in (None, "n1\n", "n1 idle\nn2 alloc\nn3 idle\nn4 idle\n", "n1 idle (null)\nn2 idle (null)\n"):
        cluster, notes = filled(text)
        assert cluster.gpus.tolist() == [8, 8, 8, 8]
        assert says(notes, "8 GPUs a node assumed", "4 nodes", "topology.conf")


def test_what_the_user_says_counts() -> None:
    """No assumption, and no note."""
    cluster, notes = filled(None, 4)
    assert (cluster.gpus.tolist(), cluster.free_gpus.tolist(), notes) == ([4] * 4, [4] * 4, "")


def test_gpus_of_the_list_fill_the_cluster() -> None:
    """A node that the list does not have is like most others; one without GPUs is no node for gangs of GPUs."""
    cluster, notes = filled("n1 idle gpu:gb200:4\nn2 alloc gpu:gb200:4\nn3 idle (null)\n")
    assert dict(zip(cluster.names, cluster.gpus.tolist(), strict=True)) == {"n1": 4, "n2": 4, "n4": 4}
    assert "4 on 2 nodes" in notes
    assert "4 GPUs a node assumed (1 node)" in notes
    assert "nodes without GPUs, left out: 1 (n3)" in notes


EXPORTED = """\
n1 113440 187000 34/22/0/56 mixed gpu:tesla:4 gpu:tesla:3(IDX:0,2-3)
n2 0 187000 0/56/0/56 idle gpu:tesla:4 gpu:tesla:0(IDX:N/A)
n3 0 502000 0/56/0/56 idle (null) gpu:0
n4 0 502000 0/56/0/56 idle (null) gpu:0
"""
"""`sinfo -h -N -O "NodeList: ,AllocMem: ,Memory: ,CPUsState: ,StateLong: ,Gres: ,GresUsed:"` with two CPU nodes."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # GresUsed has a GPU in four rows, Gres in two; n1 has four GPUs, of which three are in use
        (EXPORTED, {"n1": 4, "n2": 4}),
        # the order of columns is the user's
        ("n1 gpu:1(IDX:0) idle gpu:4\nn2 gpu:0(IDX:N/A) idle gpu:4\n", {"n1": 4, "n2": 4, "n3": 4, "n4": 4}),
        # of what is in use alone nobody knows how many there are: eight are assumed, and that is said
        ("n1 idle gpu:1(IDX:0)\nn2 idle gpu:0(IDX:N/A)\n", dict.fromkeys(("n1", "n2", "n3", "n4"), 8)),
        # a partition that is called gpu is no resource, beside one and alone
        ("n1 gpu idle gpu:h100:4\nn2 gpu idle gpu:h100:4\n", {"n1": 4, "n2": 4, "n3": 4, "n4": 4}),
        ("n1 gpu idle\nn2 gpu idle\n", dict.fromkeys(("n1", "n2", "n3", "n4"), 8)),
        # two columns that say the same
        ("n1 idle gpu:4(S:0-1) gpu:4\nn2 idle gpu:2 gpu:2\n", {"n1": 4, "n2": 2, "n3": 4, "n4": 4}),
        # words of a reason are no column
        ("n1 drain gpu:4 gpu:1 fell off\nn2 idle gpu:4 none\nn3 idle gpu:4 none\n", {f"n{i}": 4 for i in range(1, 5)}),
    ],
)
def test_gpus_in_use_are_not_those_that_a_node_has(text: str, expected: dict[str, int]) -> None:
    """Without a header a column of GPUs is told by what stands in it: `(IDX:` says which are in use."""
    cluster, notes = filled(text)
    assert dict(zip(cluster.names, cluster.gpus.tolist(), strict=True)) == expected
    assert ("8 GPUs a node assumed (4 nodes)" in notes) == (8 in expected.values())


def test_two_columns_of_gpus_that_differ_are_refused() -> None:
    """One of them may be what is in use; the error names the first such row, and the columns to ask for."""
    with pytest.raises(InvalidInput, match="'gpu:4' and 'gpu:1'") as caught:
        filled("n1 idle gpu:4 gpu:4\nn2 mix gpu:4 gpu:1\n")
    assert caught.value.where == "list:2"
    assert "%N %t %G" in caught.value.fix


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "n1 idle gpu:h100:8(S:0-1)\nn2 alloc gpu:h100:8\nn3 idle gpu:a100:8\nn4 idle gpu:8\n",
            ["h100", "h100", "a100", ""],
        ),
        (
            "NodeName=n1 State=IDLE Gres=gpu:gb200:4(S:0)\nNodeName=n2 State=IDLE Gres=gpu:a:2,gpu:b:2\n",
            ["gb200", "a+b", "", ""],
        ),
        ("n1 idle gpu:4090:8\nn2 idle gpu:h100:no_consume:8\nn3 idle gpu:8\n", ["4090", "h100", "", ""]),
        ("NodeName=n1 State=IDLE Gres=(null) CfgTRES=cpu=9,gres/gpu=8,gres/gpu:h100=8\n", ["h100", "", "", ""]),
        ('{"nodes": [{"name": "n3", "state": ["IDLE"], "gres": "gpu:h200:8", "tres": "cpu=1"}]}', ["", "", "h200", ""]),
        (
            '{"sinfo": [{"node": {"state": ["IDLE"]}, "nodes": {"nodes": ["n[1-2]"]}, "gres": {"total": "gpu:l40s"}}]}',
            ["l40s", "l40s", "", ""],
        ),
    ],
)
def test_types_of_the_list_fill_the_cluster(text: str, expected: list[str]) -> None:
    """In every form that Slurm prints; a node with several types is of one of its own, others stay as they are."""
    cluster, notes = with_types(bare(), [read(text, bare())], None, source="topology.conf")
    assert [node.gpu_type for node in cluster] == expected
    assert says(notes[0], "types of GPU", "list of nodes")


@pytest.mark.parametrize(
    ("gres", "words"),
    [
        ("gpu:h100:-4", "'-4' is no number of GPUs"),
        ("gpu:h100:many", "'many' is no"),
        ("gpu:\x1bh:4", "control characters"),
    ],
)
def test_generic_resources_that_slurm_never_prints(gres: str, words: str) -> None:
    """Refused with their line: a number of GPUs would be guessed, or a terminal told what to do."""
    for text in (f"n2 idle gpu:8\nn1 idle {gres}\n", f"NodeName=n2 State=IDLE\nNodeName=n1 State=IDLE Gres={gres}\n"):
        with pytest.raises(InvalidInput, match=words) as caught:
            read(text, bare())
        assert caught.value.where == "list:2"
        assert caught.value.fix


def test_the_type_that_the_user_says_counts() -> None:
    """Before a list; not before the file, and it fills what the file leaves open."""
    lists = [read("n1 idle gpu:h100:8\n", bare())]
    cluster, notes = with_types(bare().with_gpu_types({3: "A100"}), lists, "H200", source="c.csv")
    assert ([node.gpu_type for node in cluster], notes) == (["H200", "H200", "H200", "A100"], ())
    with pytest.raises(InvalidInput, match=saying("itself", "type")) as caught:
        with_types(cluster, [], "H100", source="c.csv")
    assert caught.value.where == "--gpu-type"
    assert says(caught.value.fix, "--gpu-type", "file")
    for wrong in (" ", "a\nb"):
        with pytest.raises(InvalidInput, match="is no type"):
            with_types(bare(), [], wrong, source="c.csv")


def test_other_gpus_than_those_that_count_are_told() -> None:
    """The cluster file or the user wins; a note says which nodes are contradicted."""
    assert says(laid("n1 idle gpu:4\nn2 mix gpu:4\n")[1], "another number of GPUs", "2 (n1, n2)")
    assert "another number" not in laid("n1 idle gpu:8\nn2 idle (null)\n".replace("(null)", "gpu:8"))[1]


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(["n1", " idle", "\n", "NodeName=", "State=", "[", "{", "#", "|", ","])).map("".join)
)
def test_any_text_is_a_list_or_an_error(text: str) -> None:
    """Nothing but the errors that say what to do."""
    with suppress(ArnoldError):
        read(text)
