"""Taints and tolerations: which taints a toleration covers, and which nodes of a cluster a job may have."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.fleet.hosts import Demand, Host
from extender.fleet.table import NOWHERE, make_table, make_view
from ground.errors import InvalidInput
from ground.files import Source
from scheduler.job import Job, Parallelism
from scheduler.occupancy import Occupancy
from scheduler.placement.admission import admissible
from tests.case_counts import examples
from tests.extender.things import NOW
from tests.facts import says
from topology.build import build_cluster
from topology.cluster import Cluster, Node, State, node_states
from topology.flags import NodeFlag
from topology.readers.cluster_csv import ClusterCsv
from topology.taints import EFFECTS, Taint, Toleration, parse_toleration, parse_tolerations
from topology.writers import ClusterCsvWriter

VISION = Taint("dedicated", "vision", "NoSchedule")
SPEECH = Taint("dedicated", "speech", "NoSchedule")
OLD = Taint("old", None, "PreferNoSchedule")
JOB = Job("j", Parallelism(tp=8), gpus_per_node=8)


def cluster_of(*taints: tuple[Taint, ...]) -> Cluster:
    """Nodes n0, n1, ... of 8 GPUs in one rack, with these taints."""
    rows = [Node(f"n{i}", ("r",), 8, 8) for i in range(len(taints))]
    return build_cluster(["rack"], rows).with_taints({i: some for i, some in enumerate(taints) if some})


@pytest.mark.parametrize(
    ("text", "covered"),
    [
        ("dedicated", {VISION, SPEECH}),
        ("dedicated=vision", {VISION}),
        ("dedicated=vision:NoSchedule", {VISION}),
        ("dedicated:NoExecute", set()),
        ("dedicated=", set()),  # of an empty value alone
        ("old", {OLD}),
        ("vision", set()),
    ],
)
def test_short_forms(text: str, covered: set[Taint]) -> None:
    """KEY is of any value, KEY=VALUE of that one, an effect after a colon of that one."""
    assert {taint for taint in (VISION, SPEECH, OLD) if parse_toleration(text).covers(taint)} == covered


@pytest.mark.parametrize("text", ["", "=vision", "a b", "a=b=c", "a:Never", "a:b:c"])
def test_what_is_no_toleration_is_refused(text: str) -> None:
    """With the place, and what to write."""
    with pytest.raises(InvalidInput, match="is not KEY") as caught:
        parse_tolerations([text], where="--tolerate")
    assert (caught.value.where, "dedicated=vision" in caught.value.fix) == ("--tolerate", True)


def test_a_job_gets_exactly_the_pools_that_it_tolerates() -> None:
    """Of a vision node, a speech node, one with both taints and a free one."""
    cluster = cluster_of((VISION,), (SPEECH,), (VISION, SPEECH), ())
    may = {
        (): [False, False, False, True],
        ("dedicated=vision",): [True, False, False, True],
        ("dedicated=vision", "dedicated=speech"): [True, True, True, True],
        ("other",): [False, False, False, True],
    }
    for texts, nodes in may.items():
        job = JOB.replace(tolerations=parse_tolerations(texts, where=""))
        assert admissible(cluster, job).tolist() == nodes
        assert cluster.tolerating(job.tolerations).idle.tolist() == nodes
    assert set(cluster.kept_out) == {0, 1, 2}
    assert all(
        says(cluster.kept_out[i], f"dedicated={user}")
        for i, user in ((0, "vision"), (1, "speech"), (2, "vision"), (2, "speech"))
    )
    assert node_states(cluster).tolist() == [State.KEPT_OUT] * 3 + [State.FREE]


def test_other_reasons_stay() -> None:
    """A faulty node, one that is excluded and one in use stay so whatever is tolerated."""
    cluster = cluster_of((VISION,), (VISION,), (VISION,), (VISION,)).with_busy([2])
    cluster = cluster.with_flags([NodeFlag("n0", "faulty")]).with_kept_out({1: "excluded"})
    assert cluster.tolerating((Toleration("dedicated", "Exists"),)).idle.tolist() == [False, False, False, True]


def test_a_price_is_not_paid_by_who_tolerates_it() -> None:
    """PreferNoSchedule is 1.05 times the step time for others; a slowdown that somebody measured stays."""
    cluster = cluster_of((OLD,), (OLD,), ()).with_flags([NodeFlag("n1", slowdown=1.3)])
    assert cluster.slowdown.tolist() == [1.05, 1.3, 1.0]
    assert cluster.idle.all()
    assert cluster.tolerating((Toleration("old", "Exists"),)).slowdown.tolist() == [1.0, 1.3, 1.0]


def test_the_csv_carries_taints() -> None:
    """Written and read again, a job sees the same; what has no effect is refused with its line."""
    cluster = cluster_of((VISION, OLD), (SPEECH,), ())
    written = ClusterCsvWriter().write(cluster)
    assert written.notes == ()
    again = ClusterCsv().read(Source("f", written.text), levels=None, now=NOW).cluster
    assert (dict(again.taints), dict(again.kept_out)) == (dict(cluster.taints), dict(cluster.kept_out))
    assert again.tolerating((Toleration(operator="Exists"),)).slowdown.tolist() == [1.0, 1.0, 1.0]
    text = "node,rack,taints\nn0,r,dedicated=vision\n"
    with pytest.raises(InvalidInput, match="has no effect") as caught:
        ClusterCsv().read(Source("f", text), levels=None, now=NOW)
    assert (caught.value.where, caught.value.fix) == ("f:2", "write dedicated=vision:NoSchedule")


TAINTS = st.builds(Taint, st.sampled_from("ab"), st.sampled_from(["", "x", "y"]), st.sampled_from(EFFECTS))
TOLERATIONS = st.builds(
    Toleration,
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["Equal", "Exists"]),
    st.sampled_from(["", "x"]),
    st.sampled_from(["", *EFFECTS]),
)


@given(st.lists(st.lists(TAINTS, max_size=3), min_size=1, max_size=5), st.lists(TOLERATIONS, max_size=3))
@examples(300)
def test_a_file_and_the_live_cluster_admit_the_same(taints: list[list[Taint]], tolerations: list[Toleration]) -> None:
    """The nodes without a repelling taint that no toleration covers, by Kubernetes' rules, counted here once more."""

    def covers(toleration: Toleration, taint: Taint) -> bool:
        key = toleration.key == taint.key or (not toleration.key and toleration.operator == "Exists")
        value = toleration.operator == "Exists" or toleration.value == taint.value
        return key and value and toleration.effect in ("", taint.effect)

    right = [
        all(taint.discourages or any(covers(one, taint) for one in tolerations) for taint in of_node)
        for of_node in taints
    ]
    job = JOB.replace(tolerations=tuple(tolerations))
    assert admissible(cluster_of(*map(tuple, taints)), job).tolist() == right
    hosts = [
        Host(f"n{i}", {"rack": "r"}, 8, 8, repelling=tuple(one for one in of_node if one.repels))
        for i, of_node in enumerate(taints)
    ]
    table = make_table(hosts, ["rack"])
    assert table.tree is not None
    demands = frozenset({Demand(tolerations=tuple(tolerations))})
    occupancy = Occupancy(table.tree.gpus, table.tree.gpus.copy(), table.tree.levels)
    view = make_view(table, hosts, occupancy, demands=demands, counted=frozenset(), own=NOWHERE, shortages=(), now=NOW)
    seen: Mapping[str, int] = {} if view.cluster is None else view.cluster.index_of
    assert [f"n{i}" in seen for i in range(len(taints))] == right
