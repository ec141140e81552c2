"""Outputs of `sinfo` and `scontrol` as sites have them: reasons of several words, empty partitions, errors."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from ground.files import Source
from tests.facts import says
from topology.build import build_cluster
from topology.cluster import Cluster, Node, State, node_states
from topology.load import NodeList, read_node_lists, with_gpus, with_node_list
from topology.slurm_snapshot import NO_REQUEST

NAMES = ("n001", "n002", "n003", "n004")
CLUSTER = build_cluster(["rack"], [Node(name, ("r",), 8, 8) for name in NAMES])


def read(text: str, cluster: Cluster) -> NodeList:
    """The one list of a text; nodes that it does not have are taken as free."""
    now = datetime(2026, 11, 28, 12, tzinfo=UTC)
    (found,) = read_node_lists([Source("list", text)], cluster, NO_REQUEST, now=now, unlisted="free")
    return found


def states(text: str, cluster: Cluster = CLUSTER) -> str:
    """The states of the nodes under a list, a word a node."""
    laid_over, _ = with_node_list(cluster, read(text, cluster))
    return " ".join(State(state).name.lower() for state in node_states(laid_over).tolist())


TABLES = {
    "bars and header": """\
REASON|NODELIST|STATE
none|n001|idle
Not responding|n002|down*
GPU fell off the bus|n003|drained
none|n004|idle
""",
    "bars": "none|n001|idle\nNot responding|n002|down*\nGPU fell off the bus|n003|drained\nnone|n004|idle\n",
    "spaced bars": "none | n001 | idle\nNot responding | n002 | down*\nsee #7 | n003 | drain\nnone | n004 | idle\n",
    "a bar in a reason": "REASON|NODELIST|STATE\nnone|n[001,004]|idle\nbad|nic|n002|down\na|b|c|n003|drain\n",
    "bars and no reason": "REASON|NODELIST|STATE\n|n001|idle\n|n002|down*\n|n003|drained\n|n004|idle\n",
    "blanks and header": """\
REASON NODELIST STATE
none n001 idle
Not responding n002 down*
GPU fell off the bus n003 drained
none n004 idle
""",
    "blanks": "none n001 idle\nNot responding n002 down*\nGPU fell off the bus n003 drain\nnone n004 idle\n",
    "reason between": "n001 none idle\nn002 Not responding down*\nn003 GPU fell off drain\nn004 none idle\n",
    "reason last": "n001 idle none\nn002 down* Not responding\nn003 drain GPU fell off\nn004 idle none\n",
    "resources last": """\
none n001 idle gpu:8
Not responding n002 down* gpu:8
a b c n003 drain gpu:8
none n004 idle gpu:8
""",
    "sinfo -R -l": """\
Sat Nov 22 10:00:00 2025
REASON               USER         TIMESTAMP           STATE  NODELIST
Not responding       root(0)      2026-01-01T00:00:00 down*  n002
bad_nic              root(0)      2026-01-01T00:00:00 drain  n003
""",
    "sinfo": """\
PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
gpu*         up   infinite      2   idle n[001,004]
gpu*         up   infinite      2  down* n[002-003]
empty        up   infinite      0    n/a
""",
    "sinfo -h": "gpu* up infinite 2 idle n[001,004]\ngpu* up infinite 2 down* n[002-003]\nempty up infinite 0 n/a\n",
    "sinfo with bars": "empty|0|n/a|\ngpu|2|idle|n[001,004]\ngpu|2|down*|n[002-003]\n",
    "sinfo -l": """\
Sat Nov 22 10:00:00 2025
PARTITION AVAIL  TIMELIMIT   JOB_SIZE ROOT OVERSUBS     GROUPS  NODES       STATE RESERVATION NODELIST
gpu*         up   infinite 1-infinite   no       NO        all      2        idle             n[001,004]
gpu*         up   infinite 1-infinite   no       NO        all      1       down* maint       n002
gpu*         up   infinite 1-infinite   no       NO        all      1     drained             n003
empty        up   infinite 1-infinite   no       NO        all      0         n/a
""",
    "sinfo -M a,b": """\
CLUSTER: alpha
PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
gpu*         up   infinite      1   idle n001
gpu*         up   infinite      1  down* n002

CLUSTER: beta
PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
gpu*         up   infinite      1  drain n003
gpu*         up   infinite      1   idle n004
""",
}


@pytest.mark.parametrize("form", TABLES)
def test_no_node_that_is_down_gets_lost(form: str) -> None:
    """In every form n001 and n004 are idle, n002 is down and n003 drained."""
    assert states(TABLES[form]) == "free faulty faulty free"


@given(
    reasons=st.lists(
        st.lists(
            st.sampled_from(["down", "by", "gpu:8", "idle", "#3", "n004", "|", "n/a", "bus"]), min_size=1, max_size=5
        ),
        min_size=2,
        max_size=2,
    ),
    between=st.sampled_from([" ", "|"]),
    order=st.permutations(["reason", "node", "state"]),
    header=st.booleans(),
)
def test_whatever_the_reason_the_node_is_down_or_the_list_refused(
    reasons: list[list[str]], between: str, order: list[str], *, header: bool
) -> None:
    """Reasons may hold names of nodes, states, bars and comment signs: n002 and n003 are never free."""
    rows = [
        ("none", "n001", "idle"),
        *zip([" ".join(r) for r in reasons], ["n002", "n003"], ["down*", "drain"], strict=True),
    ]
    rows.append(("none", "n004", "idle"))
    if header:
        rows.insert(0, ("REASON", "NODELIST", "STATE"))
    at = [["reason", "node", "state"].index(column) for column in order]
    text = "\n".join(between.join(row[i] for i in at) for row in rows)
    with suppress(InvalidInput):
        assert states(text).split()[1:3] == ["faulty", "faulty"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        # two columns of free text, and the node between them
        ("REASON NODELIST STATE COMMENT\nnone n001 idle x\nNot responding n002 down* x\n", 3),
        # a column that nothing says to be of free text
        ("NOTE NODELIST STATE\nnone n001 idle\nNot responding n002 down*\n", 3),
        # read from the left it is n004, from the right n002
        ("none n001 idle\nby n004 down n002 down*\nnone n003 idle\n", 2),
        ("none n001 idle\nnone n003 idle\nswap down #3 n002 drain\n", 3),
        ("n001 idle none\nn002 down* moved to n004\nn003 idle none\n", 2),
        ("n002 down*\nNODELIST STATE\nn001 idle\n", 1),
    ],
)
def test_a_row_that_may_be_read_in_two_ways_is_refused(text: str, line: int) -> None:
    """With its line and the command whose output has no free text."""
    with pytest.raises(InvalidInput, match="not clear") as caught:
        states(text)
    assert caught.value.where == f"list:{line}"
    assert caught.value.fix == 'give `sinfo -N -h -o "%N %t %G"`'


def test_a_line_that_is_not_clear_is_shown_whole() -> None:
    """With what stands behind the comment sign, as a person searches the file for it."""
    with pytest.raises(InvalidInput, match="not clear: 'n001 idle # hello'"):
        states("n001 idle # hello\nNODELIST STATE\nn002 idle\n")


def test_a_node_name_with_blanks_stands_between_bars() -> None:
    """Names of the cluster come first."""
    cluster = build_cluster(["rack"], [Node("gpu node 1", ("r",), 8, 8), Node("n1", ("r",), 8, 8)])
    assert states("NODELIST|STATE\ngpu node 1|down\nn1|idle\n", cluster) == "faulty free"


HUGE = "9" * 5000


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (f"n001 idle gpu:8\nn002 idle gpu:{HUGE}\n", "list:2"),
        ("n001 idle gpu:99999999999999999999999\n", "list:1"),
        # 4,096 is the most
        ("n001 idle gpu:a:4000,gpu:b:4000\n", "list:1"),
        (f"NodeName=n001 State=IDLE Gres=gpu:{HUGE}\n", "list:1"),
        (f"NodeName=n001 State=IDLE Gres=(null) CfgTRES=cpu=1,gres/gpu={HUGE}\n", "list:1"),
        (json.dumps({"nodes": [{"name": "n001", "state": "IDLE", "gres": f"gpu:{HUGE}"}]}), "list:1"),
        (
            json.dumps(
                {
                    "sinfo": [
                        {"node": {"state": ["IDLE"]}, "nodes": {"nodes": ["n001"]}, "gres": {"total": f"gpu:{HUGE}"}}
                    ]
                }
            ),
            "list:1",
        ),
    ],
)
def test_an_absurd_number_of_gpus_is_refused_where_it_stands(text: str, where: str) -> None:
    """Of any number of digits, in every form."""
    with pytest.raises(InvalidInput, match="GPUs a node") as caught:
        states(text)
    assert caught.value.where == where
    assert len(caught.value.message) < 120
    assert says(caught.value.fix, "4096 GPUs")


def test_trackable_resources_give_gpus_in_json_as_in_text() -> None:
    """A node of which Gres says nothing: CfgTRES in text, tres in JSON."""
    tres = "cpu=192,mem=2000G,billing=192,gres/gpu=4,gres/gpu:h100=4"
    document = {"nodes": [{"name": name, "state": ["IDLE"], "gres": "", "tres": tres} for name in NAMES]}
    record = "\n".join(f"NodeName={name} State=IDLE Gres=(null) CfgTRES={tres}" for name in NAMES)
    for text in (json.dumps(document), record):
        cluster, _ = with_gpus(CLUSTER, [read(text, CLUSTER)], None, source="topology.conf")
        assert cluster.gpus.tolist() == [4, 4, 4, 4]


@pytest.mark.parametrize(
    "error", [{"description": "Unable to contact slurm controller", "error_number": 1800}, "Unable to contact"]
)
def test_an_answer_with_errors_is_no_empty_list(error: object) -> None:
    """Under an empty list every node would be free."""
    with pytest.raises(InvalidInput, match="Unable to contact") as caught:
        states(json.dumps({"nodes": [], "errors": [error]}))
    assert caught.value.fix


def test_no_flags_may_be_null() -> None:
    """As `scontrol` of some versions writes it; no errors may be null too."""
    node = {"name": "n001", "state": "IDLE", "state_flags": None}
    assert states(json.dumps({"nodes": [node], "errors": None})).startswith("free")
