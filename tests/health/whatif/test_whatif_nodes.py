"""Which node a worker ran on: our CSV, and placements of `arnold place`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ground.errors import ArnoldError, InvalidInput
from ground.files import Source
from health.whatif import read_nodes


def csv(text: str) -> dict[tuple[int, int], str]:
    """Nodes of a job of 2 ranks x 2 stages."""
    return dict(read_nodes(Source("nodes.csv", text), dp=2, pp=2))


def document(rows: int, columns: int, *, tp: int = 8, dp: int, pp: int) -> dict[str, Any]:
    """A placement of rows x columns cells, on nodes of 8 GPUs."""
    job = {"name": "job", "gpus_per_node": 8, "parallelism": {"tp": tp, "dp": dp, "pp": pp}}
    cells = [{"node": f"n{r}-{c}", "dp": r, "pp": c, "node_rank": 0} for r in range(rows) for c in range(columns)]
    return {"status": "optimal", "job": job, "assignment": cells}


def placed(rows: int, columns: int, *, tp: int = 8, dp: int, pp: int) -> dict[tuple[int, int], str]:
    """Nodes by a placement of rows x columns cells."""
    saved = json.dumps(document(rows, columns, tp=tp, dp=dp, pp=pp))
    return dict(read_nodes(Source("placement.json", saved), dp=dp, pp=pp))


def test_csv_of_workers() -> None:
    """Columns in any order, blank lines and comments; two workers may share a node; not all need be named."""
    assert csv("node,stage,dp\n# first rank\nn0,0,0\n\nn0,1,0\nn1,0,1\n") == {(0, 0): "n0", (0, 1): "n0", (1, 0): "n1"}


@pytest.mark.parametrize(
    ("parallelism", "parts", "message"),
    [
        ({"tp": 16}, 2, "places TP groups on several nodes each"),
        ({"tp": 4, "dp": 3}, 1, "does not fill its nodes evenly"),
    ],
)
def test_placements_in_which_no_one_node_is_a_workers(parallelism: dict[str, int], parts: int, message: str) -> None:
    """Workers on several nodes, and nodes that are filled in part: a CSV says which node answers for which worker."""
    nodes = -(-parallelism["tp"] * parallelism.get("dp", 1) // 8)
    cells = [{"node": f"n{i}", "dp": i // parts, "pp": 0, "part": i % parts} for i in range(nodes)]
    job = {"name": "job", "gpus_per_node": 8, "parallelism": parallelism}
    with pytest.raises(InvalidInput, match=message) as caught:
        read_nodes(Source("placement.json", json.dumps({"job": job, "assignment": cells})), dp=1, pp=1)
    assert "give a CSV" in caught.value.fix


@pytest.mark.parametrize("header", ["dp_rank,stage,node", "DP,PP,Node", "dp_rank,pp_rank,node"])
def test_columns_called_as_in_a_trace_or_a_placement(header: str) -> None:
    """The names that a trace and a placement have for rank and stage are understood too."""
    assert csv(f"{header}\n1,0,a\n") == {(1, 0): "a"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dp,stage\n0,0\n", "the column 'node' is missing"),
        ("dp,stage,node\n0,0,a\n0,0,b\n", "is there twice"),
        ("dp,stage,node\n2,0,a\n", "dp is '2'"),
        ("dp,stage,node\n0,x,a\n", "stage is 'x'"),
        ("dp,stage,node\n0,-1,a\n", "stage is '-1'"),
        ("dp,stage,node\n0,0,\n", "the node is missing"),
        ("dp,stage,node\n", "names no worker"),
        ('dp,stage,node\n0,0,"a\n', "is not CSV"),
    ],
)
def test_bad_csv(text: str, message: str) -> None:
    """Every mistake is named with its line."""
    with pytest.raises(InvalidInput, match=message) as caught:
        csv(text)
    assert caught.value.where.startswith("nodes.csv")
    assert caught.value.fix


def test_placement_with_a_node_for_each_worker() -> None:
    """TP fills the node: the cell of a worker is (dp, stage)."""
    assert placed(4, 2, dp=4, pp=2)[3, 1] == "n3-1"


def test_placement_with_several_ranks_on_a_node() -> None:
    """TP of half a node: 8 ranks on 4 rows, two on each, in rank order; one rank for two stages on one node."""
    nodes = placed(4, 2, tp=4, dp=8, pp=2)
    assert [nodes[rank, 0] for rank in range(8)] == ["n0-0", "n0-0", "n1-0", "n1-0", "n2-0", "n2-0", "n3-0", "n3-0"]
    assert placed(1, 2, tp=4, dp=1, pp=4)[0, 3] == "n0-1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": "infeasible", "assignment": []}, "holds no placement"),
        ({"assignment": [{"node": "a", "dp": 0}]}, "pp"),
        ({"assignment": [{"node": "a", "dp": True, "pp": 0}]}, "dp"),
        ({"assignment": [{"node": "a", "dp": 0, "pp": 0}] * 2}, "is there twice"),
        ({"assignment": [{"node": "a", "dp": 2, "pp": 0}]}, "lies outside"),
    ],
)
def test_bad_placement(change: dict[str, Any], message: str) -> None:
    """No placement, or broken cells."""
    broken = Source("placement.json", json.dumps(document(2, 1, dp=2, pp=1) | change))
    with pytest.raises(ArnoldError, match=message):
        read_nodes(broken, dp=2, pp=1)


def test_a_placement_of_another_job() -> None:
    """3 rows of cells are not those of 4 ranks."""
    with pytest.raises(InvalidInput, match="and the trace is of"):
        read_nodes(Source("placement.json", json.dumps(document(3, 1, dp=3, pp=1))), dp=4, pp=1)
