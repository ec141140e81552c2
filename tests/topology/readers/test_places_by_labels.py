"""Labels of place: levels by containment, second hierarchies, families of clouds, and what was passed over."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.fleet.hosts import Host
from extender.fleet.table import make_table
from ground.errors import UnknownName
from ground.files import Source
from scheduler.algorithm_run import run
from scheduler.job import Hold, Job, Parallelism
from scheduler.job_files.job_file import load_job
from scheduler.outcome import Outcome
from scheduler.placement.types import ALGORITHMS, Limits
from tests.case_counts import examples
from tests.facts import says
from topology.cluster import Cluster
from topology.kubernetes.labels import CLIQUE, label_of, places_by_labels
from topology.load import LoadedTopology, load_topology

FABRIC, NVLINK = "fabric.topograph.run/tier-", "accelerator.topograph.run/domain"
ZONE = "topology.kubernetes.io/zone"
NEBIUS = "topology.nebius.com/"
DATA = os.environ.get("ARNOLD_DATA")

Labels = dict[str, str]


def rack_rows(*, nodes: int, leaf: int, spine: int, nvlink: int) -> list[Labels]:
    """Labels of a row of nodes whose leaves, spines and NVLink domains each have so many nodes, one after another."""
    return [
        {f"{FABRIC}1": f"spine{i // spine}", f"{FABRIC}0": f"leaf{i // leaf}", NVLINK: f"nvl{i // nvlink}"}
        for i in range(nodes)
    ]


def load(folder: Path, nodes: Sequence[Mapping[str, str]], *, levels: list[str] | None = None) -> LoadedTopology:
    """Read nodes of 4 GPUs with these labels."""
    amounts = {"nvidia.com/gpu": "4"}
    items = [
        {"kind": "Node", "metadata": {"name": f"n{i:03}", "labels": labels}, "status": {"capacity": amounts}}
        for i, labels in enumerate(nodes)
    ]
    file = folder / "nodes.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    return load_topology(file, levels=levels)


def place(cluster: Cluster, within: str, *, dp: int = 32) -> Outcome:
    """Place 2 * dp nodes of 4 GPUs, every EP group of 64 GPUs, 16 nodes, inside one domain."""
    parallelism = Parallelism(tp=4, pp=2, dp=dp, ep=64, etp=1)
    job = Job("j", parallelism, gpus_per_node=4, holds=(Hold("ep", within),))
    return run(ALGORITHMS.load("exact"), cluster, job, Limits(seconds=20.0))


def sizes(cluster: Cluster) -> dict[str, list[int]]:
    """Return how many nodes each domain has, by level."""
    counted: dict[str, list[int]] = {}
    for level in cluster.levels:
        counted[level.name] = [level.domain_of.tolist().count(domain) for domain in range(len(level))]
    return counted


def test_nvlink_domains_over_two_leaves_are_the_broader_level(tmp_path: Path) -> None:
    """72 nodes, leaves of 9, NVLink domains of 18: each leaf lies inside one domain, so the domain is above it; a job
    whose EP groups of 16 nodes stay inside one NVLink domain fits in 4 x 16 of 4 x 18 nodes.
    """
    cluster = load(tmp_path, rack_rows(nodes=72, leaf=9, spine=36, nvlink=18)).cluster
    assert [level.name for level in cluster.levels] == [f"{FABRIC}1", NVLINK, f"{FABRIC}0"]
    assert sizes(cluster) == {f"{FABRIC}1": [36] * 2, NVLINK: [18] * 4, f"{FABRIC}0": [9] * 8}
    outcome = place(cluster, NVLINK)
    # each spine has 2 x 16 of the 64 nodes, so a DP group of 32 nodes or a PP group of 2 touches both: 0.3 * 2 + 0.7
    assert (outcome.status, outcome.objective) == ("optimal", pytest.approx(1.3))
    alone = place(load(tmp_path, rack_rows(nodes=72, leaf=9, spine=36, nvlink=18), levels=[NVLINK]).cluster, NVLINK)
    # four domains of 16 nodes: 32 x 2 cells, of which a column of 32 needs two domains and so does each row of 2
    assert (alone.status, alone.objective) == ("optimal", pytest.approx(2.0))


def test_nvlink_domains_that_cut_leaves_are_a_second_hierarchy(tmp_path: Path) -> None:
    """Leaves of 8 and NVLink domains of 18: neither nests, both stay whole, and a job can be held inside either."""
    loaded = load(tmp_path, rack_rows(nodes=36, leaf=8, spine=36, nvlink=18))
    cluster = loaded.cluster
    assert sizes(cluster) == {f"{FABRIC}1": [36], f"{FABRIC}0": [8, 8, 8, 8, 4]}
    (beside,) = cluster.second_levels
    assert beside.name == f"@{NVLINK}"
    assert [beside.domain_of.tolist().count(domain) for domain in range(2)] == [18] * 2
    assert any(f"{NVLINK} and {FABRIC}0 cut across each other" in note for note in loaded.notes)
    placed = place(cluster, beside.name, dp=16).evaluation
    assert placed is not None
    assert placed.by_level[beside.name]["ep"] == 1  # 16 of 18 nodes


def test_a_constraint_that_names_the_label_still_holds(tmp_path: Path) -> None:
    """A label is a level on one cluster and a second hierarchy on another: a job file that names it goes to both."""
    text = f"parallelism: {{tp: 4, dp: 16, ep: 64, etp: 1}}\nconstraints: [{{family: ep, within: {NVLINK}}}]\n"
    for leaf, level in ((9, NVLINK), (8, f"@{NVLINK}")):
        cluster = load(tmp_path, rack_rows(nodes=72, leaf=leaf, spine=72, nvlink=18)).cluster
        job = load_job(Source("job.yaml", text), cluster=cluster)
        job.check_names(cluster)
        assert job.job.holds == (Hold("ep", level),)
    in_tree = load_job(Source("job.yaml", f"parallelism: {{tp: 4}}\nlevel: {NVLINK}\n"), cluster=cluster)
    with pytest.raises(UnknownName, match="a second hierarchy"):
        in_tree.check_names(cluster)


def test_an_infeasible_answer_that_rests_on_a_cut_domain_says_so(tmp_path: Path) -> None:
    """Asked for as the closest level, each domain of 18 is cut into two of 9, and no piece holds 16 nodes."""
    levels = [f"{FABRIC}1", f"{FABRIC}0", NVLINK]
    loaded = load(tmp_path, rack_rows(nodes=72, leaf=9, spine=36, nvlink=18), levels=levels)
    assert loaded.cluster.cut.keys() == {NVLINK}
    assert loaded.cluster.cut[NVLINK] in loaded.notes
    outcome = place(loaded.cluster, NVLINK)
    assert outcome.status == "infeasible"
    assert says(outcome.reason, "domains that are cut", "4 values")
    assert "--levels" in outcome.reason
    whole = load(tmp_path, rack_rows(nodes=72, leaf=9, spine=36, nvlink=18)).cluster
    assert "cut" not in place(whole, f"{FABRIC}0").reason  # infeasible as well, and no domain is cut


LAYOUTS = [
    # leaf, spine, nvlink: NVL72 (18 nodes) and NVL36 (9) over 1 to 4 leaves, several in a leaf, across leaves
    *((leaf, 36, 18) for leaf in (4, 5, 6, 9, 12, 18, 36)),
    *((leaf, 36, 9) for leaf in (2, 3, 4, 6, 9, 12, 18, 36)),
    *((leaf, spine, 18) for leaf in (3, 9, 18) for spine in (27, 54, 72, 108)),
    *((leaf, 108, nvlink) for leaf in (6, 12) for nvlink in (24, 36, 72)),
]


@pytest.mark.parametrize(("leaf", "spine", "nvlink"), LAYOUTS)
def test_no_domain_is_cut_in_silence(leaf: int, spine: int, nvlink: int) -> None:
    """In every layout each label value is one domain of its level or second hierarchy, or the level is named as cut."""
    check_whole(rack_rows(nodes=108, leaf=leaf, spine=spine, nvlink=nvlink))


LABELS = (f"{FABRIC}2", f"{FABRIC}1", f"{FABRIC}0", NVLINK, "accelerator.topograph.run/sub-domain", CLIQUE)


@given(st.lists(st.fixed_dictionaries({}, optional={label: st.sampled_from("abc") for label in LABELS}), min_size=1))
@examples(300)
def test_no_domain_of_any_labels_is_cut_in_silence(nodes: list[Labels]) -> None:
    """The same for labels at random, some of them missing; where no node has any, there is nothing to say."""
    if any(nodes):
        check_whole(nodes)


def check_whole(nodes: Sequence[Labels]) -> None:
    """Check that each value of a label in use is one domain, or its level is said to be cut; and that paths are a tree.

    Parts of accelerator domains are named inside their domain alone, so that a value may be several of them.
    """
    places = places_by_labels(nodes)
    columns = {name: [path[depth] for path in places.paths] for depth, name in enumerate(places.levels)}
    columns |= {name.removeprefix("@"): list(domains) for name, domains in places.beside.items()}
    for name, column in columns.items():
        domains: dict[tuple[str, str], set[str]] = defaultdict(set)
        for labels, domain in zip(nodes, column, strict=True):
            if value := label_of(labels, name):
                domains[value, labels.get(NVLINK, "") if name.endswith("sub-domain") else ""].add(domain)
        cut = [value for value, of in domains.items() if len(of) > 1]
        assert bool(cut) <= (name in places.cut), f"{name}: {cut}"
    above: dict[tuple[int, str], set[tuple[str, ...]]] = defaultdict(set)
    for path in places.paths:
        for depth, domain in enumerate(path):
            if domain:
                above[depth, domain].add(path[:depth])
    assert all(len(parents) == 1 for parents in above.values())
    assert set(places.cut.values()) <= {*places.notes}


@pytest.mark.parametrize("beside", [False, True])
def test_the_live_cluster_has_the_same_levels(tmp_path: Path, *, beside: bool) -> None:
    """The extender's tree of the same nodes has the levels, second hierarchies and domains that a file has."""
    nodes = rack_rows(nodes=36, leaf=8 if beside else 9, spine=36, nvlink=18)
    cluster = load(tmp_path, nodes).cluster
    table = make_table([Host(f"n{i:03}", labels, 4, 4) for i, labels in enumerate(nodes)], None)
    assert table.tree is not None
    for one, other in zip(
        (*cluster.levels, *cluster.second_levels), (*table.tree.levels, *table.tree.second_levels), strict=True
    ):
        assert (one.name, one.domains, one.domain_of.tolist()) == (other.name, other.domains, other.domain_of.tolist())
    assert bool(table.tree.second_levels) == beside


def test_a_rack_of_cliques_is_a_level_too() -> None:
    """The value is CLUSTERUUID.CLIQUE: racks r1 and r2 of two cliques each, on 8 nodes."""
    nodes = [{CLIQUE: f"r{1 + i // 4}.{i // 2 % 2}", ZONE: "z"} for i in range(8)]
    places = places_by_labels(nodes)
    assert places.levels == (f"{CLIQUE}:1", CLIQUE)
    assert places.paths[0] == ("r1", "r1.0")
    assert places.paths[7] == ("r2", "r2.1")
    # one clique a rack: the rack says nothing more
    assert places_by_labels([{CLIQUE: f"r{i // 4}.0"} for i in range(8)]).levels == (CLIQUE,)


def test_a_first_part_may_be_asked_for(tmp_path: Path) -> None:
    """Of a label that nobody knows: RACK.PART, by --levels LABEL:1,LABEL."""
    nodes = [{"example.com/place": f"rack-{i // 4}.{i // 2}"} for i in range(8)]
    cluster = load(tmp_path, nodes, levels=["example.com/place:1", "example.com/place"]).cluster
    assert sizes(cluster) == {"example.com/place:1": [4, 4], "example.com/place": [2, 2, 2, 2]}


def test_parts_of_accelerator_domains_are_named_inside_them() -> None:
    """Part 1 of domain a is not part 1 of domain b, and nothing is cut."""
    part = "accelerator.topograph.run/sub-domain"
    nodes = [{f"{FABRIC}0": "leaf", NVLINK: domain, part: number} for domain in "ab" for number in "12"]
    places = places_by_labels(nodes)
    assert places.levels == (f"{FABRIC}0", NVLINK, part)
    assert len({path[2] for path in places.paths}) == 4
    assert not places.cut


def test_a_place_that_the_others_of_a_leaf_tell_is_known() -> None:
    """n1 hangs on the leaf whose other node hangs on spine s; the NVLink domain of a neighbour tells nothing."""
    places = places_by_labels([{f"{FABRIC}1": "s", f"{FABRIC}0": "l", NVLINK: "d"}, {f"{FABRIC}0": "l"}])
    assert places.levels == (f"{FABRIC}1", f"{FABRIC}0", NVLINK)
    assert places.paths == [("s", "l", "d"), ("s", "l", "")]
    assert any(f"without the label {FABRIC}1, and taken" in note and "1 of 2 nodes" in note for note in places.notes)


def test_a_leaf_with_nodes_of_no_nvlink_domain_is_not_inside_one() -> None:
    """Leaf l2 has a node of domain d, as leaf l1 has, and one that NVLink does not reach: they cut each other."""
    nodes = [{f"{FABRIC}0": "l1", NVLINK: "d"}, {f"{FABRIC}0": "l2", NVLINK: "d"}, {f"{FABRIC}0": "l2"}]
    places = places_by_labels(nodes)
    assert places.levels == (f"{FABRIC}0",)
    assert places.beside == {f"@{NVLINK}": ["d", "d", ""]}


@pytest.mark.parametrize(
    ("labels", "levels"),
    [
        (
            {
                f"{NEBIUS}{layer}": layer
                for layer in ("gpu-cluster-id", "tier-2", "tier-1", "tier-0", "nvl-instance-group-id")
            },
            [f"{NEBIUS}{layer}" for layer in ("gpu-cluster-id", "tier-2", "tier-1", "tier-0", "nvl-instance-group-id")],
        ),
        (
            {"crusoe.ai/pod.id": "p", "crusoe.ai/ib.partition.id": "i", CLIQUE: "c.1", "other": "x"},
            ["crusoe.ai/ib.partition.id", "crusoe.ai/pod.id"],  # on one node the clique says what the pod does
        ),
        (
            {"topology.k8s.aws/network-node-layer-3": "n", "topology.k8s.aws/ultraserver-id": "u"},
            ["topology.k8s.aws/network-node-layer-3", "topology.k8s.aws/ultraserver-id"],
        ),
    ],
)
def test_families_of_clouds(labels: Labels, levels: list[str]) -> None:
    """Broad to close, whatever zone is said as well."""
    assert list(places_by_labels([labels | {ZONE: "z"}]).levels) == levels


def test_a_fallback_names_what_it_passed_over(tmp_path: Path) -> None:
    """8 nodes of one zone: rows and racks nest, feeds cut across racks; what tells the machine apart is no place."""
    nodes = [
        {
            ZONE: "z",
            "example.com/rack": f"k{i // 2}",
            "example.com/row": f"w{i // 4}",
            "example.com/feed": f"f{i % 2}",
            "example.com/serial": str(i),  # as many as there are nodes
            "example.com/site": "one",
            "node.kubernetes.io/instance-type": f"t{i // 4}",
        }
        for i in range(8)
    ]
    (note,) = [note for note in load(tmp_path, nodes).notes if "not used" in note]
    assert says(note, "example.com/feed (2 values)", "example.com/row (2 values)", "example.com/rack (4 values)")
    assert "--levels" in note
    assert "serial" not in note
    assert "site" not in note
    assert "instance-type" not in note
    # what is proposed is accepted, and its levels are no more passed over
    option = note.split("--levels ")[1].split(" ")[0]
    assert not [other for other in load(tmp_path, nodes, levels=option.split(",")).notes if "not used" in other]


def test_what_is_passed_over_is_named_where_no_label_is_known(tmp_path: Path) -> None:
    """All are one level, and the labels that part the nodes are named with the option; RACK.PART by its racks too."""
    nodes = [{"example.com/place": f"rack{i // 4}.{i // 2}"} for i in range(8)]
    loaded = load(tmp_path, nodes)
    assert [level.name for level in loaded.cluster.levels] == ["cluster"]
    assert says(loaded.notes, "--levels example.com/place:1,example.com/place")


@pytest.mark.skipif(DATA is None, reason="ARNOLD_DATA is not set: the node lists are not part of the project")
@pytest.mark.parametrize(
    ("file", "sizes_of_domains"),
    [
        ("nebius_nodes.json", {"gpu-cluster-id": [16], "tier-2": [8, 8], "tier-1": [4] * 4}),
        (
            "hyperpod_ultraserver.json",
            {
                "network-node-layer-1": [72],
                "network-node-layer-2": [72],
                "network-node-layer-3": [36, 36],
                "ultraserver-id": [18] * 4,
            },
        ),
    ],
)
def test_node_lists_of_clouds(file: str, sizes_of_domains: dict[str, list[int]]) -> None:
    """What their README says is right, from broad to close."""
    assert DATA is not None
    found = sizes(load_topology(Path(DATA) / "real" / "k8s_clouds" / file).cluster)
    assert {name.rpartition("/")[2]: of for name, of in found.items()} == sizes_of_domains
