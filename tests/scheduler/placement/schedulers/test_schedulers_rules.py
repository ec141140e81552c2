"""Each peer's rule on clusters small enough to follow by hand."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.placement.heuristic import Heuristic, Request
from scheduler.placement.node_order import natural
from scheduler.placement.schedulers import kueue, slurm
from scheduler.placement.schedulers.kai import kai, kai_segments
from scheduler.placement.schedulers.slurm import place_segment, slurm_block, slurm_tree
from scheduler.placement.schedulers.volcano import (
    Window,
    kube_scheduler,
    sample_size,
    volcano_hard,
    volcano_partitions,
    volcano_soft,
)
from scheduler.placement.types import Limits
from tests.facts import says
from topology.build import build_cluster
from topology.cluster import Cluster, Node, SlurmBlocks


def pods(*rooms: list[int] | int, busy: int = 0) -> Cluster:
    """Minipods m0, m1, ... of racks with so many free nodes (one rack for a plain number), each with busy nodes too."""
    rows = [
        Node(f"n{k}{r}{i:02d}", (f"m{k}", f"m{k}r{r}"), 8, 8 if i < room else 0)
        for k, racks in enumerate(rooms)
        for r, room in enumerate(racks if isinstance(racks, list) else [racks])
        for i in range(room + busy)
    ]
    return build_cluster(["minipod", "rack"], rows)


def grid(rows: int, columns: int) -> Job:
    """A job of rows x columns cells at minipod level, ranks down the columns."""
    return Job("grid", Parallelism(tp=8, dp=rows, pp=columns), level="minipod")


def nodes(algorithm: Heuristic, cluster: Cluster, job: Job, seed: int = 0) -> list[str]:
    """Names of the nodes in the order of ranks."""
    placed = run(algorithm, cluster, job, Limits(seed=seed)).proposal.nodes
    assert placed is not None
    in_order = np.empty(job.grid.cells, dtype=np.int32)
    in_order[job.grid.node_rank] = placed
    return [cluster.names[i] for i in in_order]


def cells(algorithm: Heuristic, cluster: Cluster, job: Job, level: str = "minipod", seed: int = 0) -> dict[str, int]:
    """Cells in each domain of a level."""
    column = [level.name for level in cluster.levels].index(level)
    found: dict[str, int] = {}
    for name in nodes(algorithm, cluster, job, seed):
        domain = cluster.node(name).path[column]
        found[domain] = found.get(domain, 0) + 1
    return found


def reason(algorithm: Heuristic, cluster: Cluster, job: Job) -> str:
    """Why the rule refuses."""
    outcome = run(algorithm, cluster, job, Limits())
    assert outcome.status == "infeasible"
    return outcome.reason


def test_kueue_takes_the_tightest_domain_that_holds_the_job() -> None:
    """Four pods on minipods of 9, 5 and 4: best fit is the 4."""
    assert cells(kueue.kueue(), pods(9, 5, 4), grid(2, 2)) == {"m2": 4}


def test_kueue_takes_the_roomiest_first_and_the_last_by_best_fit() -> None:
    """Ten pods on 6, 5, 7, 4: the 7, and for the other three the 4."""
    assert cells(kueue.kueue(), pods(6, 5, 7, 4), grid(5, 2)) == {"m2": 7, "m3": 3}


def test_kueue_ranks_follow_names_not_the_order_of_choice() -> None:
    """Of m2 (chosen first) and m0, the ranks begin in m0."""
    assert [name[:2] for name in nodes(kueue.kueue(), pods(3, 1, 5), grid(4, 2))] == ["n0"] * 3 + ["n2"] * 5


def test_kueue_required_refuses_what_no_domain_holds() -> None:
    """Eight pods, the largest minipod has five: preferred places them, required says how many fit."""
    assert says(reason(kueue.required(), pods(5, 5), grid(4, 2)), "5 out of 8 pods")
    assert cells(kueue.kueue(), pods(5, 5), grid(4, 2)) == {"m0": 5, "m1": 3}


def test_kueue_descends_by_the_roomiest_racks_of_all_chosen_domains() -> None:
    """Six pods on two minipods of racks (1, 3) and (4, 1): both are needed, of their racks the 4 and the 3.

    The hosts of both racks then compete by name, so that it is not the rack chosen last that stays part free.
    """
    assert cells(kueue.kueue(), pods([1, 3], [4, 1]), grid(3, 2), "rack") == {"m0r1": 3, "m1r0": 3}


def test_kueue_slices_waste_what_is_left_in_a_domain() -> None:
    """Slices of three on 5 and 4 nodes: one in each; three slices are refused though nine nodes are free."""
    assert cells(kueue.slice_p(), pods(5, 4), grid(2, 3)) == {"m0": 3, "m1": 3}
    assert says(reason(kueue.slice_p(), pods(5, 4), grid(3, 3)), "2 out of 3 slices of 3 pods")


def test_kai_takes_the_tightest_domain_or_the_roomiest_first() -> None:
    """Four pods go to the minipod of 4; ten, held by none, to the 7 and then the next roomiest."""
    assert cells(kai(), pods(9, 5, 4), grid(2, 2)) == {"m2": 4}
    assert cells(kai(), pods(6, 5, 7, 4), grid(5, 2)) == {"m2": 7, "m0": 3}


def test_kai_mixes_domains_that_share_a_score() -> None:
    """Of twenty equal minipods the last three in name order share the best score: floor(10 * 20/20) = 10 alone, then
    floor(10 * 18/20) = floor(10 * 19/20) = 9, whose nodes are taken by name.
    """
    assert [name[1:3] for name in nodes(kai(), two_digit_pods(20, 2), grid(2, 3))] == [
        "19",
        "19",
        "17",
        "17",
        "18",
        "18",
    ]


def two_digit_pods(count: int, room: int) -> Cluster:
    """Many equal minipods."""
    rows = [Node(f"n{k:02d}{i}", (f"m{k:02d}", f"r{k:02d}"), 8, 8) for k in range(count) for i in range(room)]
    return build_cluster(["minipod", "rack"], rows)


def test_volcano_hard_bin_packs_among_domains_that_hold_the_gang() -> None:
    """Four pods fit both minipods of 6; the one with four busy nodes is fuller afterwards: (4+4)/10 against 4/6."""
    rows = [Node(f"a{i}", ("free", "r0"), 8, 8) for i in range(6)]
    rows += [Node(f"b{i}", ("used", "r1"), 8, 8 if i < 6 else 0) for i in range(10)]
    cluster = build_cluster(["minipod", "rack"], rows)
    for seed in range(5):
        assert cells(volcano_hard(), cluster, grid(2, 2), seed=seed) == {"used": 4}


def test_volcano_hard_fills_one_domain_after_another_in_the_order_of_ranks() -> None:
    """Nine pods on three minipods of four, too few nodes for a sample to miss any: 4, 4, 1 in one run of ranks each."""
    order = [name[1] for name in nodes(volcano_hard(), pods(4, 4, 4), grid(9, 1))]
    assert [order.count(minipod) for minipod in dict.fromkeys(order)] == [4, 4, 1]
    assert order == sorted(order, key=order.index)


def test_volcano_soft_fills_racks_of_any_minipod_once_it_has_left_the_first() -> None:
    """With all nodes in view, racks fill one by one, first those of the first minipod: a rack is one run of ranks."""
    racks = [name[1:3] for name in nodes(volcano_soft(), pods([3, 3], [3, 3], [3, 3]), grid(15, 1), seed=3)]
    assert [racks.count(rack) for rack in dict.fromkeys(racks)] == [3, 3, 3, 3, 3]
    assert racks == sorted(racks, key=racks.index)
    assert racks[0][0] == racks[3][0]


def test_volcano_partitions_fill_the_fullest_domain() -> None:
    """Three partitions of two on minipods of 5 and 9 nodes: two go to the smaller, where the share in use is higher."""
    assert cells(volcano_partitions(of="p", order="rows"), pods(5, 9), grid(3, 2)) == {"m0": 4, "m1": 2}


def test_volcano_refuses_a_partition_that_no_domain_holds() -> None:
    """Partitions of three on minipods of 4 and 5 nodes: the third finds no domain, though three nodes are free."""
    assert "partition 3 of 3" in reason(volcano_partitions(of="p", order="rows"), pods(4, 5), grid(3, 3))


def test_kube_scheduler_draws_from_all_nodes_of_a_small_cluster() -> None:
    """Up to a hundred nodes every pod sees all of them: a gang of all nodes takes each once, in an order by seed."""
    cluster = pods(4, 4)
    first, other = (nodes(kube_scheduler(), cluster, grid(8, 1), seed) for seed in (1, 2))
    assert sorted(first) == sorted(other) == sorted(cluster.names)
    assert first != other


@pytest.mark.parametrize(("size", "sample"), [(80, 80), (200, 100), (1019, 427), (2046, 695), (12500, 625)])
def test_sample_size_follows_kubernetes(size: int, sample: int) -> None:
    """All up to 100; then 50 - n/125 percent: 42 % of 1,019, 34 % of 2,046; at least 5 % and 100 nodes."""
    assert sample_size(size) == sample


def test_window_moves_on_and_comes_round() -> None:
    """Of 200 nodes a pod sees 100 free ones from where the last one stopped; taken nodes are skipped."""
    window = Window(np.arange(200, dtype=np.int32), np.ones(200, dtype=np.bool_))
    first = window.look()
    window.take(5)
    window.take(150)
    second, third = window.look(), window.look()
    assert first.tolist() == list(range(100))
    assert second.tolist() == [*range(100, 150), *range(151, 200), 0]
    assert third.tolist() == [*range(1, 5), *range(6, 102)]


def test_slurm_tree_takes_the_tightest_leaf_switch() -> None:
    """Three nodes on racks of 5, 3 and 4: the 3."""
    assert cells(slurm_tree(), pods([5, 3], [4]), grid(3, 1), "rack") == {"m0r1": 3}


def test_slurm_tree_stays_under_the_switch_that_holds_the_job() -> None:
    """Six nodes: the second minipod (3 + 3) holds them more tightly than the first (4 + 4), so its racks are taken."""
    assert cells(slurm_tree(), pods([4, 4], [3, 3]), grid(6, 1), "rack") == {"m1r0": 3, "m1r1": 3}


def test_slurm_tree_hops_between_pods_when_none_holds_the_job() -> None:
    """Seven nodes on pods of (2, 2), (3, 3) and (2, 2) nodes: no pod holds them.

    First the largest leaf of the largest pod, m1r0.  Four are left: the pods m0 and m2 hold them, m1 (three left) does
    not, so that the leaves of m0 (of equal pods the first) are taken though m1r1 is closer: two pods, one left torn.
    """
    assert cells(slurm_tree(), pods([2, 2], [3, 3], [2, 2]), grid(7, 1), "rack") == {"m1r0": 3, "m0r0": 2, "m0r1": 2}


def test_slurm_ranks_follow_the_node_table() -> None:
    """Nodes are numbered by name, numbers by value: n9 before n10, whichever was chosen first."""
    rows = [Node(f"n{i}", (f"m{i // 6}", f"r{i // 6}"), 8, 8) for i in range(12)]
    cluster = build_cluster(["minipod", "rack"], rows)
    assert nodes(slurm_tree(), cluster, grid(12, 1)) == [f"n{i}" for i in range(12)]
    assert natural("n9") < natural("n10")


def test_slurm_block_fills_the_roomiest_and_then_best_fit() -> None:
    """Seven nodes on blocks of 3, 2, 4 and 4 free of 4: an aggregate of two blocks holds them in m2 and m3, the last of
    equal blocks first.
    """
    assert place_segment(np.array([3, 2, 4, 4], dtype=np.int32), 7, 4) == {3: 4, 2: 3}


def test_slurm_block_limits_the_blocks_a_job_may_touch() -> None:
    """Eight nodes need two blocks of 4 at least, and no aligned pair of blocks has eight free, though ten are free."""
    assert place_segment(np.array([3, 2, 3, 2], dtype=np.int32), 8, 4) == {}
    rooms = [
        Node(f"n{k}{i}", (f"m{k}", f"r{k}"), 8, 8 if i < room else 0)
        for k, room in enumerate((3, 2, 3, 2))
        for i in range(4)
    ]
    assert says(reason(slurm_block(), build_cluster(["minipod", "rack"], rooms), grid(8, 1)), "no room", "blocks")


def test_slurm_segments_go_to_the_tightest_block() -> None:
    """Segments of two on blocks of 5, 3 and 9 nodes: the 3, then the 5 twice."""
    assert cells(slurm.segment_p(), pods(5, 3, 9), grid(3, 2)) == {"m1": 2, "m0": 4}


def test_kueue_balanced_gives_closer_domains_equal_shares() -> None:
    """Ten pods on the racks of one minipod, 8, 6 and 2, or of another, 5 and 5.

    The first needs two racks, so five each, and the last of them has 6: its threshold is 5.  So is that of the second,
    and both need one minipod: that which comes first by name stays.  Best fit for all takes the minipod with least
    room, the second.
    """
    cluster = pods([8, 6, 2], [5, 5])
    assert cells(kueue.balanced(), cluster, grid(5, 2), "rack") == {"m1r0": 5, "m1r1": 5}
    assert cells(kueue.kueue(), cluster, grid(5, 2), "rack") == {"m1r0": 5, "m1r1": 5}


def test_kueue_balanced_leaves_out_what_is_below_the_threshold() -> None:
    """Twelve pods on racks of 9, 4 and 7: two racks hold them, so six each; the rack of 4 is left out, and of the
    others 9 and 7 get six each.  Best fit takes the roomiest, 9, and the tightest for the three left, 4.
    """
    cluster = pods([9, 4, 7])
    assert cells(kueue.balanced(), cluster, grid(6, 2), "rack") == {"m0r0": 6, "m0r2": 6}
    assert cells(kueue.kueue(), cluster, grid(6, 2), "rack") == {"m0r0": 9, "m0r1": 3}


def test_kueue_balanced_gives_what_is_left_to_the_roomiest() -> None:
    """Thirteen pods on racks of 9 and 7: six each, and one more on the 9."""
    assert cells(kueue.balanced(), pods([7, 9]), grid(13, 1), "rack") == {"m0r0": 6, "m0r1": 7}


@pytest.mark.parametrize(
    ("rooms", "needed", "chosen"),
    [
        # one domain is enough, and 6 is the tightest that is
        ([9, 6, 4, 2], 5, [1]),
        # two domains hold ten, and of the pairs 6 + 4 has no room to spare
        ([9, 6, 4, 2], 10, [1, 2]),
        # 9 + 2 has one beyond ten, 6 + 3 too few, 9 + 3 two
        ([9, 6, 3, 2], 10, [0, 3]),
        # all alike: the first
        ([3, 3, 3, 3], 6, [0, 1]),
    ],
)
def test_kueue_balanced_takes_the_tightest_set(rooms: list[int], needed: int, chosen: list[int]) -> None:
    """As few domains as hold the pods, then the least room: cases as in Kueue's own tests, without leaders."""
    request = Request.of(pods(1), grid(1, 1), Limits())
    free, order = np.array(rooms, dtype=np.int32), np.arange(len(rooms), dtype=np.int32)
    assert sorted(kueue.tightest_set(request, free, order, needed).tolist()) == chosen


def test_kueue_slices_of_slices_share_a_rack() -> None:
    """Two slices of six pods on racks of 4, 4 and 4, and on one of 9 and two of 2: a rack has up to nine nodes, so six
    share one.

    The rack of 9 alone holds six, so the second slice finds no place; in a minipod alone both do, in the tighter.
    """
    cluster = pods([4, 4, 4], [9, 2, 2])
    assert says(reason(kueue.multilayer(), cluster, grid(2, 6)), "1 out of 2 slices of 6 pods")
    assert cells(kueue.slice_p(), cluster, grid(2, 6)) == {"m0": 12}


def test_kueue_hands_down_whole_inner_slices() -> None:
    """A slice of eight on racks of 3, 5 and 4: none has more than five nodes, so four share a rack, and the 3 is passed
    over.
    """
    assert cells(kueue.multilayer(), pods([3, 5, 4]), grid(1, 8), "rack") == {"m0r1": 4, "m0r2": 4}
    # without inner slices racks are filled from the one with the fewest free nodes on
    assert cells(kueue.slice_p(), pods([3, 5, 4]), grid(1, 8), "rack") == {"m0r0": 3, "m0r1": 1, "m0r2": 4}


def test_kai_segments_go_to_the_tightest_domain() -> None:
    """Segments of two on minipods of 5, 3 and 9: the 3 (one is left), then the 5 twice."""
    assert cells(kai_segments(segment="p", order="rows"), pods(5, 3, 9), grid(3, 2)) == {"m1": 2, "m0": 4}
    why = reason(kai_segments(segment="p", order="rows"), pods(5, 4), grid(3, 3))
    assert says(why, "no domain", "segment 3 of 3 (3 pods)")


def test_kai_places_segments_in_the_order_of_their_names() -> None:
    """Twelve segments of one pod on twelve minipods of one node: worker-10 and worker-11 come before worker-2, so the
    third and the fourth minipod are theirs.
    """
    order = [name[1:3] for name in nodes(kai_segments(segment="p", order="rows"), two_digit_pods(12, 1), grid(12, 1))]
    assert order == ["00", "01", "04", "05", "06", "07", "08", "09", "10", "11", "02", "03"]


def test_slurm_joins_base_blocks_to_blocks_of_the_sizes_that_are_said() -> None:
    """Seven nodes on base blocks of 3, 1, 1 and 4 free of 4.

    Without BlockSizes two base blocks make a block, and neither pair has seven free.  With 4 and 16 the next size is
    four base blocks, of which the job may touch two: the 4, and the 3.  With 4 alone it is the whole topology.
    """
    free = np.array([3, 1, 1, 4], dtype=np.int32)
    assert place_segment(free, 7, 4) == {}
    assert place_segment(free, 7, 4, (0, 2)) == {3: 4, 0: 3}
    assert place_segment(free, 7, 4, (0,)) == {3: 4, 0: 3}
    # nine need three base blocks: of pairs two, which are all four; without pairs three of the four, and these hold 8
    assert place_segment(free, 9, 4) == {3: 4, 0: 3, 2: 1, 1: 1}
    assert place_segment(free, 9, 4, (0, 2)) == {}


def test_slurm_counts_the_blocks_of_the_file() -> None:
    """Eight nodes on b1 and b3 of four nodes each, and b2 between them without any: pairs are (b1, b2) and b3 alone, so
    none holds eight.  With BlockSizes of 4 alone all base blocks together do.
    """
    job, blocks = grid(8, 1).replace(level="block"), ("b1", "b2", "b3")
    cluster = build_cluster(["block"], [Node(f"n{k}{i}", (f"b{k}",), 8, 8) for k in (1, 3) for i in range(4)])
    assert cells(slurm_block(), cluster, job, "block") == {"b1": 4, "b3": 4}
    assert says(reason(slurm_block(), cluster.replace(blocks=SlurmBlocks(blocks, ())), job), "no room")
    assert cells(slurm_block(), cluster.replace(blocks=SlurmBlocks(blocks, (4,))), job, "block") == {"b1": 4, "b3": 4}
